//! Counts the instructions, loads and stores of operations of maps in RAM, and compares them with those of
//! `instructions.tsv`. Needs no quiet machine: the processor traps after each instruction.
//!
//! ```sh
//! cd .ci/instructions
//! cargo run --release                    # fails if an operation has more of them than in the file
//! NUNATAK_WRITE=1 cargo run --release    # writes the file anew
//! ```
//!
//! Counts depend on the compiler and on the instruction sets that the library finds, so a line of the file
//! names those that it was counted with. Lines of others are not compared.

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod operations;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod recorded;

fn main() -> std::process::ExitCode {
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    return operations::main();
    #[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
    std::process::ExitCode::SUCCESS
}
