//! `nunatak file salvage`: a new file of what can still be read from a damaged one.

use super::failure::{Done, at};
use super::maps::MapFile;
use clap::Args;
use nunatak::durable::Salvaged;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, Args)]
pub(super) struct SalvageArgs {
    /// The damaged file. It is not changed.
    pub(super) path: PathBuf,
    /// The new file, which must not exist.
    new: PathBuf,
}

pub(super) fn salvage<M: MapFile>(args: &SalvageArgs) -> Done {
    let Salvaged { sure, doubtful, damages, .. } =
        at(&args.path, M::salvage(&args.path, &args.new))?;
    for damage in &damages {
        eprintln!("{}: {damage}", args.path.display());
    }
    println!("{sure} pairs, and {doubtful} of pages that are not as their checksums say");
    if damages.is_empty() {
        println!("no damage was found");
    }
    Ok(ExitCode::SUCCESS)
}
