//! Tells the program which compiler has compiled it.

fn main() {
    let compiler = std::env::var_os("RUSTC").expect("cargo names the compiler");
    let told = std::process::Command::new(compiler).arg("--version").output().expect("its version");
    let told = String::from_utf8(told.stdout).expect("text");
    let version = told.split_whitespace().nth(1).expect("a version");
    println!("cargo:rustc-env=COMPILER={version}");
}
