//! YCSB with byte strings as keys and values, like the 30-byte items of TurboHash's figure 9.

use super::phases::measure_all;
use super::strings::{Request, rows};
use super::subjects::{Scratch, Subject, is_string};
use crate::backing::back_free_memory;
use crate::experiment::figure::Figure;
use crate::keys::{CHECKED_BITS, Indices, KeySpace, Random, ZipfSamples, value_of, versioned};
use crate::settings::Settings;
use crate::threads::{CheckFailed, check, throughput};
use crate::workloads::latest::{Inserted, Latest};

/// A mix of YCSB.
#[derive(Debug, Clone, Copy)]
struct Mix {
    name: &'static str,
    percent_writes: u64,
    writes: Writes,
}

/// What the operations do that are not gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writes {
    /// Store another value of a key that is present.
    Update,
    /// Get the value first.
    ReadModify,
    /// Insert a new key; the gets are of late keys.
    Insert,
}

/// In the order in which they run: the last one adds keys.
const MIXES: [Mix; 5] = [
    Mix { name: "A M/s", percent_writes: 50, writes: Writes::Update },
    Mix { name: "B M/s", percent_writes: 5, writes: Writes::Update },
    Mix { name: "C M/s", percent_writes: 0, writes: Writes::Update },
    Mix { name: "F M/s", percent_writes: 50, writes: Writes::ReadModify },
    Mix { name: "D M/s", percent_writes: 5, writes: Writes::Insert },
];

/// How many operations run between two looks at the clock.
const BLOCK: u64 = 1024;

pub(crate) fn run(settings: &Settings) -> Result<Figure, CheckFailed> {
    let title = "YCSB with keys and values that are byte strings (TurboHash, figure 9)";
    let measures: Vec<&str> =
        ["load M/s"].into_iter().chain(MIXES.iter().map(|mix| mix.name)).collect();
    let mut figure = Figure::new(title, &["threads", "map", "operations"], &measures);
    let mut rows = rows(settings, true)?;
    // A batch of one map would be compared with single operations of another.
    rows.retain(|(_, request)| request.phases.batch.is_none());
    measure_all(&mut figure, &rows, settings.repetitions)?;
    figure.note(
        "Keys of A, B, C and F are equally popular, those of D are late. A read-modify-write of F is \
         a get and then a put, as YCSB itself does it. The map grows from empty while it is loaded.",
    );
    Ok(figure)
}

/// Loads a map and runs the mixes, in this process.
pub(super) fn measure<S: Subject>(
    request: &Request,
    make: impl FnOnce() -> S,
) -> Result<Vec<Option<f64>>, CheckFailed> {
    let (items, space) = (request.items, KeySpace::new(request.seed, false));
    back_free_memory(2 * items);
    let map = make();
    let entry = |index: u64| {
        let key = space.key(index);
        (key, value_of(key))
    };
    let mut rates = vec![request.phases.insert(&map, items, entry, items)?];
    for mix in MIXES {
        rates.push(run_mix(request, &map, &space, mix)?);
    }
    Ok(rates.into_iter().map(Some).collect())
}

fn run_mix<S: Subject>(
    request: &Request,
    map: &S,
    space: &KeySpace,
    mix: Mix,
) -> Result<f64, CheckFailed> {
    let (items, threads) = (request.items, request.phases.threads);
    let samples = ZipfSamples::new(items, request.seed);
    let inserted = Inserted::of_threads(threads);
    // A threshold for 16 random bits.
    let writes_below = mix.percent_writes * (1 << 16) / 100;
    throughput(threads, |worker| {
        let seed = request.seed ^ ((worker.number as u64 + 1) << 16);
        let mut uniform = Indices::uniform(items, seed);
        let ranks = Indices::zipf(&samples, seed);
        let mut latest = Latest { items, number: worker.number, inserted: &inserted, ranks };
        let mut choices = Random::new(!seed);
        let (mut scratch, mut version, mut wrong) = (Scratch::new(0), 0, 0_u64);
        let span = worker.repeat(request.phases.time, || {
            version += 1;
            for _ in 0..BLOCK {
                let is_write = choices.next() & 0xFFFF < writes_below;
                if is_write && mix.writes == Writes::Insert {
                    let key = space.key(latest.next(0));
                    wrong += u64::from(!map.insert(key, value_of(key), &mut scratch));
                    latest.publish(1);
                    continue;
                }
                let index = match mix.writes {
                    Writes::Insert => latest.draw(),
                    Writes::Update | Writes::ReadModify => uniform.next(),
                };
                let key = space.key(index);
                if !is_write || mix.writes == Writes::ReadModify {
                    let mut is_right = false;
                    map.access(key, &mut scratch, |value| {
                        is_right = is_value(value, request.value_bytes, key);
                    });
                    wrong += u64::from(!is_right);
                }
                if is_write {
                    wrong += u64::from(map.insert(key, versioned(key, version), &mut scratch));
                }
            }
            BLOCK
        });
        check(wrong == 0, "a key was missed, or has not one of its values")?;
        Ok(span)
    })
}

/// Returns whether a byte string is one of the values of a key; reads all bytes.
fn is_value(bytes: &[u8], length: usize, key: u64) -> bool {
    let Some(word) = bytes.first_chunk().map(|word| u64::from_le_bytes(*word)) else {
        return false;
    };
    bytes.len() == length && word & CHECKED_BITS == value_of(key) && is_string(bytes, word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::subjects::RamBlobs;

    #[test]
    fn a_value_belongs_to_its_key_in_every_version() {
        let map = RamBlobs::new(15, 15);
        let mut scratch = Scratch::new(0);
        let is_right = |key: u64, scratch: &mut Scratch| {
            let mut is_right = None;
            map.access(7, scratch, |value| is_right = Some(is_value(value, 15, key)));
            is_right
        };
        assert!(map.insert(7, versioned(7, 3), &mut scratch));
        assert_eq!(
            (is_right(7, &mut scratch), is_right(8, &mut scratch)),
            (Some(true), Some(false))
        );
        assert!(!is_value(b"1234567", 7, 7) && !is_value(&value_of(7).to_le_bytes(), 9, 7));
    }
}
