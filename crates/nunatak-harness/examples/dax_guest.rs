//! What runs in a virtual machine whose power is cut: see `.ci/dax`.
//!
//! ```text
//! dax_guest FILE ACKNOWLEDGED
//! ```
//!
//! Looks whether a map on persistent memory is as some number of operations leaves it,
//! at least as many as were acknowledged before; says so; and goes on with operations,
//! of which it says how many were acknowledged, until it is killed.

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    linux::run()
}

#[cfg(target_os = "linux")]
mod linux {
    use nunatak::durable::{Durability, IcebergMap, Options};
    use nunatak_harness::crashes::{Action, Contents};
    use std::error::Error;
    use std::io::Write as _;

    /// How many operations are acknowledged at once, on a slow line.
    const REPORT: u64 = 500;

    /// The operation of a number: the keys become more and more.
    fn action(number: u64) -> Action {
        let key = number * 0x9E37_79B9 % (number / 4 + 100);
        match number % 8 {
            0..=4 => Action::Insert(key, number),
            5 | 6 => Action::Update(key, number),
            _ => Action::Remove(key),
        }
    }

    /// After how many operations the contents are these, if it is at least so many.
    fn operations_of(found: &Contents, acknowledged: u64) -> Result<u64, String> {
        let mut expected = Contents::new();
        (0..acknowledged).for_each(|number| action(number).apply(&mut expected));
        // More than can be done between two reports, since the last may be lost.
        for number in acknowledged..acknowledged + 1000 * REPORT {
            if *found == expected {
                return Ok(number);
            }
            action(number).apply(&mut expected);
        }
        let (found, expected) = (found.len(), expected.len());
        Err(format!("{found} keys, which no number of operations leaves; {expected} expected"))
    }

    pub(super) fn run() -> Result<(), Box<dyn Error>> {
        let mut arguments = std::env::args().skip(1);
        let path = arguments.next().ok_or("FILE is missing")?;
        let acknowledged = arguments.next().ok_or("ACKNOWLEDGED is missing")?.parse()?;
        let options = Options::new().durability(Durability::PersistentMemory);
        let map: IcebergMap<u64, u64> = IcebergMap::open_or_create_with(&path, &options)?;
        let found: Contents = map.iter().collect();
        if map.verify()? != found.len() {
            return Err("the number of keys is wrong".into());
        }
        let mut number = operations_of(&found, acknowledged)?;
        println!("as after {number} operations, {acknowledged} acknowledged: {:?}", map.recovery());
        loop {
            action(number).run(&map);
            number += 1;
            if number.is_multiple_of(REPORT) {
                println!("acknowledged {number}");
                std::io::stdout().flush()?;
            }
        }
    }
}
