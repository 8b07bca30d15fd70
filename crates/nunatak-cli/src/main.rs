//! The `nunatak` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    nunatak_cli::main()
}
