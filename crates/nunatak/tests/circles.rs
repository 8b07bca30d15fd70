//! No files import each other in a circle, in any of the three crates.
//!
//! The graph has an arrow from a file to each file that defines something which the first one names:
//! in a `use`, or by a path in its code or in the arguments of a macro. So:
//!
//! - An arrow ends where an item is defined. Imports and re-exports on the way are followed. A
//!   `mod.rs` that only hands on what its children define is in nobody's way.
//! - A re-export (`pub use`, `pub(super) use`) is an arrow of the file that has it only if that file
//!   also names the item. A `mod` declaration is no arrow: it says where a file is.
//! - A child that names an item of its own `mod.rs` imports that file, as any other file does. So a
//!   `mod.rs` either defines what its children build on, or uses what its children define. It does
//!   not do both with the same child.
//! - A module in a path is no arrow. What the path names in that module is one.
//! - Methods are called without an import, so they make no arrow. The type that they belong to does.
//! - Tests may import everything: what is compiled for tests only has no arrows. The same holds for
//!   imports that only links of the documentation need.
//! - The files of a crate are looked at together. Cargo keeps the crates in order.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemUse, Macro, UseTree, Visibility};

/// The arrows that close a circle and stay: the crate, from, to, and why.
const ALLOWED: [(&str, &str, &str, &str); 1] = [(
    "nunatak",
    "durable/content.rs",
    "durable/handle.rs",
    "A backup stores entries through the handle of the new file, whose batches ask for room and \
     sync. Each kind of map does it in its own way, so the content's trait has a method for it.",
)];

/// The crates: this one, and its neighbours.
const CRATES: [&str; 3] = ["nunatak", "nunatak-harness", "nunatak-cli"];

/// The names of modules, from the root of a crate.
type Place = Vec<String>;

/// What a name in a module stands for.
#[derive(Debug, Clone)]
enum Meaning {
    /// The module with this name below the one that has the name.
    Module,
    /// An item that the file defines.
    Item,
    /// An import: the path as it is written.
    Import(Place),
}

#[derive(Debug, Default)]
struct Module {
    file: String,
    names: BTreeMap<String, Meaning>,
    /// Paths of the modules whose items are all imported.
    globs: Vec<Place>,
    /// Paths that the code names, and paths of private imports.
    named: BTreeSet<Place>,
}

/// Reads a module, and the modules inside its file.
struct Reader<'r> {
    modules: &'r mut BTreeMap<Place, Module>,
    /// Modules that are compiled for tests only.
    tests: &'r mut Vec<Place>,
    place: Place,
}

/// Whether an item is compiled for tests only, or for documentation only: its condition is `test` or
/// `doc`, or begins with `all(test`.
fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let condition = match &attribute.meta {
            syn::Meta::List(list) if list.path.is_ident("cfg") => list.tokens.to_string(),
            meta => return meta.path().is_ident("test"),
        };
        let first = condition.trim_start_matches("all").trim_start_matches([' ', '(']);
        let mut words = first.split(|letter: char| !letter.is_alphanumeric());
        words.next().is_some_and(|word| ["test", "doc"].contains(&word))
    })
}

/// Returns the paths that a `use` names, each with the name that it gets; `*` is a glob.
fn imports(tree: &UseTree, prefix: &[String], found: &mut Vec<(String, Place)>) {
    let longer = |name: &syn::Ident| [prefix, &[name.to_string()]].concat();
    match tree {
        UseTree::Path(path) => imports(&path.tree, &longer(&path.ident), found),
        UseTree::Name(name) if name.ident == "self" => {
            found.push((prefix.last().expect("a path").clone(), prefix.to_vec()));
        }
        UseTree::Name(name) => found.push((name.ident.to_string(), longer(&name.ident))),
        UseTree::Rename(rename) if rename.ident == "self" => {
            found.push((rename.rename.to_string(), prefix.to_vec()));
        }
        UseTree::Rename(rename) => found.push((rename.rename.to_string(), longer(&rename.ident))),
        UseTree::Glob(_) => found.push(("*".into(), prefix.to_vec())),
        UseTree::Group(group) => group.items.iter().for_each(|it| imports(it, prefix, found)),
    }
}

impl Reader<'_> {
    fn module(&mut self) -> &mut Module {
        self.modules.get_mut(&self.place).expect("the module that is read")
    }

    /// Notes a name. A module goes before an item of its name, since paths lead through it.
    fn define(&mut self, name: &syn::Ident, meaning: Meaning) {
        let names = &mut self.module().names;
        if !matches!(names.get(&name.to_string()), Some(Meaning::Module)) {
            names.insert(name.to_string(), meaning);
        }
    }

    /// Notes the paths in the arguments of a macro.
    fn scan(&mut self, tokens: &str) {
        let joined = tokens.replace(" :: ", "::").replace(":: ", "::").replace(" ::", "::");
        let is_no_part =
            |letter: char| !(letter.is_alphanumeric() || letter == '_' || letter == ':');
        for path in joined.split(is_no_part) {
            let path: Place = path.split("::").map(String::from).collect();
            self.module().named.insert(path);
        }
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        let (attributes, name): (&[_], _) = match item {
            Item::Const(it) => (&it.attrs, Some(&it.ident)),
            Item::Enum(it) => (&it.attrs, Some(&it.ident)),
            Item::Fn(it) => (&it.attrs, Some(&it.sig.ident)),
            Item::Macro(it) => (&it.attrs, it.ident.as_ref()),
            Item::Static(it) => (&it.attrs, Some(&it.ident)),
            Item::Struct(it) => (&it.attrs, Some(&it.ident)),
            Item::Trait(it) => (&it.attrs, Some(&it.ident)),
            Item::TraitAlias(it) => (&it.attrs, Some(&it.ident)),
            Item::Type(it) => (&it.attrs, Some(&it.ident)),
            Item::Union(it) => (&it.attrs, Some(&it.ident)),
            Item::Impl(it) => (&it.attrs, None),
            Item::Mod(it) => (&it.attrs, None),
            Item::Use(it) => (&it.attrs, None),
            _ => (&[], None),
        };
        if is_test(attributes) {
            if let Item::Mod(module) = item {
                self.tests.push([&self.place[..], &[module.ident.to_string()]].concat());
            }
            return;
        }
        if let Some(name) = name {
            self.define(name, Meaning::Item);
        }
        match item {
            Item::Mod(module) => {
                self.define(&module.ident, Meaning::Module);
                if let Some((_, items)) = &module.content {
                    let file = self.module().file.clone();
                    self.place.push(module.ident.to_string());
                    self.modules.insert(self.place.clone(), Module { file, ..Module::default() });
                    items.iter().for_each(|item| self.visit_item(item));
                    self.place.pop();
                }
            }
            item => visit::visit_item(self, item),
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let mut found = Vec::new();
        imports(&item.tree, &[], &mut found);
        for (name, path) in found {
            let module = self.module();
            if name == "*" {
                module.globs.push(path);
                continue;
            }
            if matches!(item.vis, Visibility::Inherited) {
                module.named.insert(path.clone());
            }
            // A name that stands for itself is a module or a crate.
            if path != [name.as_str()] {
                module.names.insert(name, Meaning::Import(path));
            }
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.module().named.insert(names);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        self.scan(&call.tokens.to_string());
        visit::visit_macro(self, call);
    }

    /// Derives, links of documentation and conditions name nothing that counts.
    fn visit_attribute(&mut self, _: &'ast Attribute) {}

    /// So does `pub(in path)`.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}
}

/// The modules of a crate.
#[derive(Debug, Default)]
struct Tree {
    modules: BTreeMap<Place, Module>,
}

impl Tree {
    /// Reads the files, each with its path below `src`.
    fn read(files: &[(String, String)]) -> Self {
        let (mut modules, mut tests) = (BTreeMap::new(), Vec::new());
        for (file, text) in files {
            let mut place: Place =
                file.trim_end_matches(".rs").split('/').map(String::from).collect();
            let is_root = matches!(place.last().map(String::as_str), Some("mod" | "lib" | "main"));
            place.truncate(place.len() - usize::from(is_root));
            modules.insert(place.clone(), Module { file: file.clone(), ..Module::default() });
            let code = syn::parse_file(text).unwrap_or_else(|error| panic!("{file}: {error}"));
            Reader { modules: &mut modules, tests: &mut tests, place }.visit_file(&code);
        }
        modules.retain(|place, _| !tests.iter().any(|test| place.starts_with(test)));
        Self { modules }
    }

    fn of_crate(name: &str) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src");
        let mut files = Vec::new();
        sources(&root, &mut files);
        let with_text = |path: PathBuf| {
            let file = path.strip_prefix(&root).expect("a file of the crate");
            (file.to_str().expect("a name").to_string(), std::fs::read_to_string(&path).unwrap())
        };
        Self::read(&files.into_iter().map(with_text).collect::<Vec<_>>())
    }

    /// Returns the file that defines what a path names in a module, with the item's name; `None` for
    /// a module, another crate's item, or a name that is not imported.
    fn definition(&self, at: &[String], path: &[String], depth: usize) -> Option<(&str, String)> {
        let (first, rest) = path.split_first()?;
        let module = self.modules.get(at)?;
        if depth == 0 {
            return None;
        }
        match first.as_str() {
            "crate" | "$crate" => self.definition(&[], rest, depth - 1),
            "self" => self.definition(at, rest, depth - 1),
            "super" => self.definition(&at[..at.len().checked_sub(1)?], rest, depth - 1),
            _ => match module.names.get(first) {
                Some(Meaning::Item) => Some((&module.file, first.clone())),
                Some(Meaning::Module) => {
                    self.definition(&[at, core::slice::from_ref(first)].concat(), rest, depth - 1)
                }
                Some(Meaning::Import(path)) => {
                    self.definition(at, &[path, rest].concat(), depth - 1)
                }
                None => {
                    // A glob of another crate leads nowhere; to look for its name in the globs again would double
                    // the work with each step.
                    let is_own = |glob: &&Place| {
                        let first = &glob[0];
                        ["crate", "self", "super"].contains(&first.as_str())
                            || module.names.contains_key(first)
                    };
                    let mut globs = module.globs.iter().filter(is_own);
                    globs.find_map(|glob| self.definition(at, &[glob, path].concat(), depth - 1))
                }
            },
        }
    }

    /// Returns the arrows: for each file the files that it imports, and the names.
    fn arrows(&self) -> Arrows {
        let mut arrows = Arrows::new();
        for (place, module) in &self.modules {
            for path in &module.named {
                if let Some((file, item)) = self.definition(place, path, 32)
                    && file != module.file
                {
                    let to = arrows.entry(module.file.clone()).or_default();
                    to.entry(file.to_string()).or_default().insert(item);
                }
            }
        }
        arrows
    }
}

type Arrows = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

fn sources(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder of the sources") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => sources(&path, files),
            false if path.extension().is_some_and(|it| it == "rs") => files.push(path),
            false => {}
        }
    }
}

/// Returns a shortest way of arrows from a file to itself.
fn circle_through(start: &str, arrows: &Arrows) -> Option<Vec<String>> {
    let (mut ways, mut seen) = (vec![vec![start.to_string()]], BTreeSet::new());
    while !ways.is_empty() {
        let mut longer = Vec::new();
        for way in ways {
            for next in arrows.get(way.last()?).into_iter().flat_map(BTreeMap::keys) {
                if next == start {
                    return Some(way);
                }
                if seen.insert(next.clone()) {
                    longer.push([&way[..], core::slice::from_ref(next)].concat());
                }
            }
        }
        ways = longer;
    }
    None
}

/// Returns the shortest circle through each file, once, in words.
fn circles(arrows: &Arrows) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for start in arrows.keys() {
        let Some(mut circle) = circle_through(start, arrows) else { continue };
        let least = (0..circle.len()).min_by_key(|&at| circle[at].clone()).expect("a file");
        circle.rotate_left(least);
        let step = |at: usize| {
            let (from, to) = (&circle[at], &circle[(at + 1) % circle.len()]);
            format!("\n    {from} -> {to}: {:?}", arrows[from][to])
        };
        found.insert((0..circle.len()).map(step).collect::<String>());
    }
    found
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    let mut found = Vec::new();
    for name in CRATES {
        let mut arrows = Tree::of_crate(name).arrows();
        assert!(arrows.len() > 30, "{name} has files that import others");
        for (_, from, to, reason) in ALLOWED.iter().filter(|allowed| allowed.0 == name) {
            let names = arrows.get_mut(*from).and_then(|it| it.remove(*to));
            let names = names.unwrap_or_else(|| panic!("{from} does not import {to}: {reason}"));
            let mut whole = arrows.clone();
            whole.entry(from.to_string()).or_default().insert(to.to_string(), names);
            assert!(circles(&whole).len() > circles(&arrows).len(), "{from} -> {to} is no circle");
        }
        found.extend(circles(&arrows).into_iter().map(|circle| format!("\n  {name}:{circle}")));
    }
    assert!(found.is_empty(), "files import each other:{}", found.concat());
}

/// Returns the circles among files with these texts.
fn circles_of(files: &[(&str, &str)]) -> Vec<String> {
    let files = files.iter().map(|(file, text)| (file.to_string(), text.to_string()));
    circles(&Tree::read(&files.collect::<Vec<_>>()).arrows()).into_iter().collect()
}

/// The test finds circles, whichever way the files name each other.
#[test]
fn circles_are_seen() {
    let a = "pub struct A; impl A { fn b(&self) { loop {} } }";
    for b in [
        "use crate::a::A; pub struct B(A);",
        "use super::a; pub struct B(a::A);",
        "pub struct B(crate::a::A);",
        "pub fn b() { use crate::a::A as Other; }",
        "pub fn b() { assert!(crate::a::A.is_there()); }",
        "use crate::a::*; pub struct B(A);",
        "use crate::A; pub struct B(A);",
        "macro_rules! b { () => { $crate::a::A } }",
        "mod inner { use super::super::a::A; }",
    ] {
        let b = format!("{b} pub const NAME: u8 = 0;");
        let root = ("lib.rs", "mod a; mod b; pub use a::A; fn main() {}");
        assert_eq!(circles_of(&[root, ("a.rs", a), ("b/mod.rs", &b)]), [""; 0], "{b}");
        for import in ["use crate::b::NAME;", "use super::b; fn f() { g(b::NAME) }"] {
            let a = format!("{import} {a}");
            assert_eq!(circles_of(&[root, ("a.rs", &a), ("b/mod.rs", &b)]).len(), 1, "{a}\n{b}");
        }
    }
    let child = "use super::Parent; pub struct Child;";
    let parent = "mod child; pub struct Parent(child::Child);";
    assert_eq!(circles_of(&[("a/mod.rs", parent), ("a/child.rs", child)]).len(), 1);
    let three = [
        ("lib.rs", "mod a; mod b; mod c;"),
        ("a.rs", "use crate::b::B; pub struct A;"),
        ("b.rs", "use crate::c::C; pub struct B;"),
        ("c.rs", "use crate::a::A; pub struct C;"),
    ];
    assert_eq!(circles_of(&three).len(), 1);
}

/// What is no import makes no circle.
#[test]
fn declarations_re_exports_and_tests_are_no_imports() {
    for (parent, child) in [
        (
            "mod child; pub use child::Child; pub struct Parent;",
            "use super::Parent; pub struct Child;",
        ),
        ("mod child; pub struct Parent;", "use super::Parent; pub struct Child;"),
        (
            "mod child; pub(crate) use child::Child;",
            "use crate::a::Child as Own; pub struct Child;",
        ),
        ("#[cfg(test)] mod child; pub struct Parent;", "use super::Parent; pub struct Child;"),
        (
            "mod child; pub struct Parent; #[cfg(all(test, unix))] mod tests { use super::child::Child; }",
            "use super::Parent; pub struct Child;",
        ),
        (
            "mod child; /// See [`Child`](child::Child).\n pub struct Parent;",
            "use super::Parent; pub(in crate::a) struct Child;",
        ),
    ] {
        assert_eq!(circles_of(&[("a/mod.rs", parent), ("a/child.rs", child)]), [""; 0], "{parent}");
    }
}
