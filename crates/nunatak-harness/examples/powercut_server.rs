//! What `.ci/powercut-server` runs: `work` in the virtual machine, the others outside of it. Bounds are what
//! the clients of a server have been answered; `''` before the first one.
//!
//! ```text
//! powercut_server work ADDRESS PORT DURABILITY BOUNDS
//! powercut_server bounds REPORT DURABILITY BOUNDS
//! powercut_server image BASE LOG SEED IMAGE
//! powercut_server check ADDRESS BOUNDS
//! ```

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    use nunatak_harness::powercuts::served::{self, Client};
    use std::path::Path;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match *arguments.as_slice() {
        ["work", address, port, durability, bounds] => {
            served::work(address, Path::new(port), durability, &served::parse(bounds)?)?;
        }
        ["bounds", report, durability, bounds] => {
            let bounds = served::bounds(Path::new(report), durability, served::parse(bounds)?)?;
            println!("{}", served::show(&bounds));
        }
        ["image", base, log, seed, image] => {
            let (base, log, image) = (Path::new(base), Path::new(log), Path::new(image));
            println!("{}", served::image(base, log, seed.parse()?, image)?);
        }
        ["check", address, bounds] => {
            let bounds = served::parse(bounds)?;
            let counts = served::check(&mut Client::connect(address)?, &bounds)?;
            let lost = |(it, count): (&served::Bounds, &u64)| it.answered.saturating_sub(*count);
            let lost: u64 = bounds.iter().zip(&counts).map(lost).sum();
            println!("{} {lost}", counts.iter().sum::<u64>());
        }
        _ => return Err("see the comment of this program".into()),
    }
    Ok(())
}
