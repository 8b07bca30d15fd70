//! Names for conditions that stand in many places.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    cfg_aliases::cfg_aliases! {
        // There are maps in files.
        durable: { target_os = "linux" },
    }
}
