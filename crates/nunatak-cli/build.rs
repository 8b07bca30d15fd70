//! Aliases of conditions for compilation.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    cfg_aliases::cfg_aliases! {
        // Durable maps need Linux.
        durable: { target_os = "linux" },
        // The server needs Unix sockets.
        served: { all(unix, feature = "server") },
    }
}
