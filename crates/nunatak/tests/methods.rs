//! The guide's table of methods and maps agrees with the sources.
//!
//! `NUNATAK_WRITE=1 cargo test -p nunatak --test methods` writes the table anew.

use quote::ToTokens;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use syn::{ImplItem, Item, ItemImpl, ReturnType, TraitItem, Visibility};

/// The columns: their names, and what they stand for.
const COLUMNS: [(&str, &str); 15] = [
    ("all", "[`ConcurrentMap`](crate::ConcurrentMap), which generic code uses"),
    ("inline", "[`InlineMap`](crate::InlineMap): `DlhtMap`, `IcebergMap`, `PeaMap`, `TurboMap`"),
    ("shadow", "[`DlhtShadowMap`](crate::DlhtShadowMap)"),
    ("set", "[`InlineSet`](crate::InlineSet): `DlhtSet`, `IcebergSet`, `PeaSet`, `TurboSet`"),
    ("boxed", "[`BoxedMap`](crate::BoxedMap): `DlhtBoxedMap` and so on"),
    ("bytes", "[`ByteMap`](crate::ByteMap): `TurboBlobMap`, `DlhtRecordMap` and so on"),
    ("multi", "[`PeaMultiMap`](crate::PeaMultiMap)"),
    ("file", "maps in files: `durable::IcebergMap`, `durable::PeaMap`, `durable::TurboMap`"),
    ("file, multi", "`durable::PeaMultiMap`"),
    ("file, bytes", "`durable::IcebergBlobMap`, `durable::PeaBlobMap`, `durable::TurboBlobMap`"),
    ("file, typed", "`durable::TypedMap`"),
    ("boxed set", "[`BoxedSet`](crate::BoxedSet): `DlhtBoxedSet` and so on"),
    ("bytes, multi", "[`PeaBlobMultiMap`](crate::PeaBlobMultiMap)"),
    ("wide", "[`WideMap`](crate::WideMap): `DlhtWideMap`, `IcebergWideMap`"),
    ("wide set", "[`WideSet`](crate::WideSet): `DlhtWideSet`, `IcebergWideSet`"),
];

/// For each method the columns that have it, and whether it returns a `Result` there.
type Table = BTreeMap<String, BTreeMap<usize, bool>>;

fn of_crate(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn sources(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder of the sources") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => sources(&path, files),
            false => files.push(path),
        }
    }
}

fn text(tokens: impl ToTokens) -> String {
    tokens.to_token_stream().to_string().replace(' ', "")
}

fn is_result(output: &ReturnType) -> bool {
    matches!(output, ReturnType::Type(_, kind) if text(kind).starts_with("Result<"))
}

/// Returns the columns of an `impl` block.
fn columns_of(block: &ItemImpl) -> &'static [usize] {
    let (kind, generics) = (text(&block.self_ty), text(&block.generics));
    // The shadow map lacks inserts that return only the replaced value.
    let are_inserts = generics.contains("Unshadowed");
    match kind {
        _ if kind.starts_with("InlineMap<K,V,S,DlhtShadows>") => &[2],
        _ if kind.starts_with("InlineMap<K,V,S,D>") && are_inserts => &[1],
        _ if kind.starts_with("InlineMap<K,V,S,D>") => &[1, 2],
        _ if kind.starts_with("InlineSet<") => &[3],
        _ if kind.starts_with("BoxedMap<") => &[4],
        _ if kind.starts_with("ByteMap<") => &[5],
        _ if kind.starts_with("PeaMultiMap<") => &[6],
        _ if kind.starts_with("FileMap<T>") => &[7, 8, 9],
        _ if kind.starts_with("FileMap<InlineMap<") => &[7],
        _ if kind.starts_with("FileMap<Inner<") => &[8],
        _ if kind.starts_with("FileMap<BlobsInFile<D>>") => &[9],
        _ if kind.starts_with("TypedMap<") => &[10],
        _ if kind.starts_with("BoxedSet<") => &[11],
        _ if kind.starts_with("PeaBlobMultiMap<") => &[12],
        _ if kind.starts_with("WideMap<") => &[13],
        _ if kind.starts_with("WideSet<") => &[14],
        _ => &[],
    }
}

/// Whether a method of `whole_map!` returns a `Result`.
fn whole_method_is_result(method: &str) -> bool {
    let interface = std::fs::read_to_string(of_crate("src/map/interface.rs")).expect("a file");
    let rule = format!("(@{method} $type:literal");
    let body = interface.split(&rule).nth(1).unwrap_or_else(|| panic!("no rule for {method}"));
    let signature = body.split("pub fn").nth(1).and_then(|rest| rest.split('{').next());
    signature.expect("a method").contains("-> Result")
}

/// The public methods of a macro that has a file of its name, and whether they return a `Result`.
fn methods_of_macro(name: &str) -> Vec<(String, bool)> {
    let path = of_crate(&format!("src/map/{name}.rs"));
    let source = std::fs::read_to_string(path).expect("a file");
    let methods = source.split("pub fn ").skip(1);
    let parsed = methods.map(|rest| {
        let name = rest.split(['<', '(']).next().expect("a name");
        let signature = rest.split('{').next().expect("a body");
        (name.to_string(), signature.contains("-> Result<"))
    });
    parsed.collect()
}

fn read(path: &Path, table: &mut Table) {
    let source = std::fs::read_to_string(path).expect("a file");
    let file = syn::parse_file(&source).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    let mut add = |method: String, columns: &[usize], is_result: bool| {
        let row = table.entry(method).or_default();
        columns.iter().for_each(|&column| {
            row.insert(column, is_result);
        });
    };
    for item in file.items {
        match item {
            Item::Trait(of_all) if of_all.ident == "ConcurrentMap" => {
                for item in of_all.items {
                    if let TraitItem::Fn(method) = item {
                        add(method.sig.ident.to_string(), &[0], is_result(&method.sig.output));
                    }
                }
            }
            Item::Impl(block) if block.trait_.is_none() => {
                let columns = columns_of(&block);
                for item in &block.items {
                    match item {
                        ImplItem::Fn(method)
                            if matches!(method.vis, Visibility::Public(_))
                                && method.sig.receiver().is_some() =>
                        {
                            let name = method.sig.ident.to_string();
                            add(name, columns, is_result(&method.sig.output));
                        }
                        ImplItem::Macro(call)
                            if ["set_algebra", "set_methods"]
                                .iter()
                                .any(|name| call.mac.path.is_ident(name)) =>
                        {
                            for (method, is_result) in methods_of_macro(&text(&call.mac.path)) {
                                add(method, columns, is_result);
                            }
                        }
                        ImplItem::Macro(call) if call.mac.path.is_ident("whole_map") => {
                            let tokens = call.mac.tokens.to_string();
                            let methods = tokens.rsplit(':').next().expect("a list of methods");
                            for method in methods.split_whitespace() {
                                let is_result = whole_method_is_result(method);
                                add(method.to_string(), columns, is_result);
                            }
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    table.retain(|_, columns| !columns.is_empty());
}

fn page(table: &Table) -> String {
    let mut page = String::from(
        "# Which map has which method\n\n\
         Most methods are the same on all maps; their contracts are in \
         [`ConcurrentMap`](crate::ConcurrentMap). `✓` is a method that can't fail but by a panic, \
         `R` one that returns a `Result`: because memory, the disk or a hidden key may refuse it, \
         or because the answer is one (`try_insert`, `compare_exchange`, batches whose output is \
         too short). Maps of byte strings take keys and values by reference, and store copies. \
         An `IcebergMap` also has `slot` and `get_at`, since its items stay where they are.\n\n",
    );
    for (name, meaning) in COLUMNS {
        page += &format!("- **{name}**: {meaning}\n");
    }
    page += "\n| method |";
    COLUMNS.iter().for_each(|(name, _)| page += &format!(" {name} |"));
    page += "\n|---|";
    COLUMNS.iter().for_each(|_| page += ":-:|");
    page.push('\n');
    // The trait's methods come first.
    let (common, others): (Vec<_>, Vec<_>) =
        table.iter().partition(|(_, columns)| columns.contains_key(&0));
    for (method, columns) in common.into_iter().chain(others) {
        page += &format!("| `{method}` |");
        for column in 0..COLUMNS.len() {
            page += match columns.get(&column) {
                Some(true) => " R |",
                Some(false) => " ✓ |",
                None => " |",
            };
        }
        page.push('\n');
    }
    page
}

fn table() -> Table {
    let mut files = Vec::new();
    sources(&of_crate("src/map"), &mut files);
    sources(&of_crate("src/durable"), &mut files);
    let mut table = Table::new();
    files.iter().for_each(|file| read(file, &mut table));
    table
}

#[test]
fn the_table_of_methods_is_that_of_the_sources() {
    let (path, page) = (of_crate("docs/methods.md"), page(&table()));
    if std::env::var_os("NUNATAK_WRITE").is_some() {
        std::fs::write(&path, &page).expect("the guide can be written");
    }
    let written = std::fs::read_to_string(&path).expect("the guide's page");
    assert!(written == page, "docs/methods.md is older than the sources: see tests/methods.rs");
}

/// Each map that has a method through the trait has it as its own method, except where this list
/// says why not.
#[test]
fn maps_have_what_the_trait_has() {
    let table = table();
    let missing: BTreeSet<(usize, &str)> = table
        .iter()
        .filter(|(_, columns)| columns.contains_key(&0))
        .flat_map(|(method, columns)| {
            let without = [1, 4, 5, 7, 9].into_iter().filter(|at| !columns.contains_key(at));
            without.map(|at| (at, method.as_str()))
        })
        .collect();
    // Byte strings are passed by reference: their batches are `put_many`, `delete_many` and a
    // guard's `get_many`. Those in files have no mixed batches but `write_batch`.
    let of_bytes = ["get_many", "insert_many", "remove_many", "update_many"];
    let expected = [5, 9].into_iter().flat_map(|at| of_bytes.map(|method| (at, method)));
    assert_eq!(missing, expected.chain([(9, "execute")]).collect());
}
