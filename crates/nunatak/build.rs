//! Aliases of conditions for compilation.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    cfg_aliases::cfg_aliases! {
        // Under a model checker: its own atomics, small constants, no memory of the system.
        modelled: { any(loom, shuttle) },
        // Maps in files need Linux, and the system's mappings.
        durable: { all(target_os = "linux", not(any(loom, shuttle, miri))) },
        // Loads of several words by instructions that no checker and no sanitizer follows.
        x86_64_assembly: {
            all(target_arch = "x86_64", not(any(loom, shuttle, miri, nunatak_tsan)))
        },
    }
}
