//! Compiles each map of C++ whose headers are found. Without the feature `compiled` it looks for none.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(tbb, libcuckoo, boost, absl)");
    #[cfg(feature = "compiled")]
    compiled::all();
}

#[cfg(feature = "compiled")]
mod compiled {
    use std::env;
    use std::path::PathBuf;

    /// Folders with the headers of a Boost that the system does not have.
    const BOOST: &str = "NUNATAK_BOOST";

    pub(super) fn all() {
        println!("cargo::rerun-if-changed=cpp");
        println!("cargo::rerun-if-env-changed={BOOST}");
        if compiles("tbb", &[]) {
            println!("cargo::rustc-link-lib=tbb");
            println!("cargo::rustc-link-lib=tbbmalloc");
        }
        compiles("libcuckoo", &[]);
        let boost = env::var_os(BOOST);
        let folders: Vec<PathBuf> =
            boost.iter().flat_map(env::split_paths).filter(|path| path != "").collect();
        compiles("boost", &folders);
        // Folders of the system are searched anyway. Named, they would come before the compiler's own.
        let mut abseil = pkg_config::Config::new();
        abseil.cargo_metadata(false).env_metadata(false);
        let abseil =
            abseil.print_system_cflags(false).print_system_libs(false).probe("absl_flat_hash_map");
        if let Ok(abseil) = abseil
            && compiles("absl", &abseil.include_paths)
        {
            for path in abseil.link_paths {
                println!("cargo::rustc-link-search=native={}", path.display());
            }
            for library in abseil.libs {
                println!("cargo::rustc-link-lib={library}");
            }
        }
    }

    /// Compiles the map of this name if all headers that it includes are found, and tells the crate. Returns
    /// whether the map is there.
    fn compiles(name: &str, folders: &[PathBuf]) -> bool {
        let file = format!("cpp/{name}.cpp");
        let has_headers = compiler(folders).cargo_warnings(false).file(&file).try_expand().is_ok();
        if !has_headers {
            return false;
        }
        match compiler(folders).file(&file).try_compile(&format!("nunatak_peer_{name}")) {
            Ok(()) => println!("cargo::rustc-cfg={name}"),
            Err(error) => {
                println!("cargo::warning={name} is left out: {file} can't be compiled: {error}");
                return false;
            }
        }
        true
    }

    /// A compiler that optimises, in every profile, for the processors that the code of Rust is compiled for.
    fn compiler(folders: &[PathBuf]) -> cc::Build {
        let mut compiler = cc::Build::new();
        compiler.cpp(true).std("c++20").opt_level(3).define("NDEBUG", None);
        // Their warnings are not ours.
        for folder in folders {
            compiler.flag("-isystem").flag(folder);
        }
        let features = env::var("CARGO_CFG_TARGET_FEATURE").unwrap_or_default();
        for feature in features.split(',') {
            match feature {
                "bmi1" => compiler.flag("-mbmi"),
                "sse3" | "ssse3" | "sse4.1" | "sse4.2" | "popcnt" | "lzcnt" | "bmi2" | "movbe"
                | "avx" | "avx2" | "fma" | "avx512f" | "avx512bw" | "avx512dq" | "avx512vl"
                | "avx512cd" => compiler.flag(format!("-m{feature}")),
                _ => &mut compiler,
            };
        }
        compiler
    }
}
