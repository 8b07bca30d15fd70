//! The server as a command of its own.

use std::process::ExitCode;

fn main() -> ExitCode {
    nunatak_server::main(std::env::args_os())
}
