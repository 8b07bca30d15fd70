//! The header of `nunatak-c` is what its functions make of it. `NUNATAK_WRITE=1` writes it.

use std::path::Path;

#[test]
fn the_header_is_that_of_the_functions() {
    let root = &Path::new(env!("CARGO_MANIFEST_DIR")).join("../nunatak-c");
    let config = cbindgen::Config::from_root_or_default(root);
    let mut builder = cbindgen::Builder::new().with_config(config);
    for file in [
        "status",
        "file",
        "words",
        "blobs",
        "multi",
        "multi_blobs",
        "iterators",
        "guards",
        "allocators",
        "shadows",
        "stats",
    ] {
        builder = builder.with_src(root.join(format!("src/{file}.rs")));
    }
    let mut made = Vec::new();
    builder.generate().expect("the sources are read").write(&mut made);
    // The sections that Rust wants say nothing to C: the header's opening comment has the contract.
    let made = String::from_utf8(made).expect("text");
    let lines: Vec<&str> = made.lines().collect();
    let mut kept = String::new();
    let mut is_safety = false;
    for (at, line) in lines.iter().enumerate() {
        let is_comment = line.starts_with("//");
        let next = lines.get(at + 1).unwrap_or(&"");
        is_safety = is_comment && (is_safety || line.contains("# Safety"));
        let is_before_safety = line.trim_end() == "//" && next.contains("# Safety");
        if !is_safety && !is_before_safety {
            kept.push_str(line.trim_end());
            kept.push('\n');
        }
    }
    let header = root.join("include/nunatak.h");
    if std::env::var_os("NUNATAK_WRITE").is_some() {
        std::fs::write(&header, &kept).expect("the header is written");
    }
    let stored = std::fs::read_to_string(&header).unwrap_or_default();
    assert!(
        stored == kept,
        "the header is old: NUNATAK_WRITE=1 cargo test -p nunatak-dynamic --test header"
    );
}
