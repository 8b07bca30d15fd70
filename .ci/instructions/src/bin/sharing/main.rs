//! Finds cache lines that two threads both need, though they work on different keys: what limits many threads, found
//! with one processor.
//!
//! ```sh
//! cd .ci/instructions
//! cargo run --release --bin sharing    # fails if a line is needed too often
//! ```

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod lines;

fn main() -> std::process::ExitCode {
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    return lines::main();
    #[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
    std::process::ExitCode::SUCCESS
}
