//! Finds the places of a source file that can be mutated, and puts each mutant behind a switch. All
//! changes are insertions: the mutant's branch has the operands as they were, since only one mutant
//! is on at a time.

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

pub struct Mutant {
    pub id: u32,
    /// Relative to the folder of the sources.
    pub file: PathBuf,
    pub line: usize,
    pub function: String,
    /// What is changed, behind the name of the function. With a number if the function has the same
    /// text more than once.
    pub description: String,
}

/// What a mutant inserts: the switch and the branch before a place, and what closes it behind.
pub struct Insertion {
    pub id: u32,
    pub place: Range<usize>,
    before: String,
    behind: &'static str,
}

pub struct File {
    pub path: PathBuf,
    pub text: String,
    pub insertions: Vec<Insertion>,
}

impl File {
    /// Returns the text with all mutants but those that were dropped, and the place of each in it.
    pub fn rewritten(
        &self,
        is_dropped: impl Fn(u32) -> bool,
    ) -> (String, Vec<(u32, Range<usize>)>) {
        let kept: Vec<_> = self.insertions.iter().filter(|it| !is_dropped(it.id)).collect();
        // At the same place the outer one begins first and ends last; they are in this order.
        let mut edits: Vec<(usize, bool, isize, u32, &str)> = Vec::new();
        for (order, it) in kept.iter().enumerate() {
            let order = order as isize;
            edits.push((it.place.end, false, -order, it.id, it.behind));
            edits.push((it.place.start, true, order, it.id, &it.before));
        }
        edits.sort_by_key(|&(at, begins, order, ..)| (at, begins, order));
        let (mut new, mut done, mut places) = (String::new(), 0, std::collections::HashMap::new());
        for (at, begins, _, id, text) in edits {
            new.push_str(&self.text[done..at]);
            done = at;
            if begins {
                places.insert(id, new.len()..new.len() + text.len());
            }
            new.push_str(text);
            if let Some(place) = places.get_mut(&id).filter(|_| !begins) {
                place.end = new.len().max(place.end);
            }
        }
        new.push_str(&self.text[done..]);
        (new, places.into_iter().collect())
    }
}

/// Reads a module and the modules below it, as far as this platform compiles them.
pub fn read(root: &Path, module: &Path, files: &mut Vec<File>, mutants: &mut Vec<Mutant>) {
    let text = std::fs::read_to_string(root.join(module)).unwrap();
    let parsed = syn::parse_file(&text).unwrap();
    let mut finder = Finder {
        text: &text,
        file: module,
        of: String::new(),
        insertions: Vec::new(),
        mutants,
        below: Vec::new(),
        seen: HashMap::new(),
    };
    finder.visit_file(&parsed);
    let (insertions, below) = (finder.insertions, finder.below);
    files.push(File { path: module.to_path_buf(), text, insertions });
    let folder = match module.file_name().unwrap().to_str().unwrap() {
        "mod.rs" | "lib.rs" => module.parent().unwrap().to_path_buf(),
        _ => module.with_extension(""),
    };
    for name in below {
        let file = [folder.join(format!("{name}.rs")), folder.join(&name).join("mod.rs")];
        let file = file.into_iter().find(|file| root.join(file).exists());
        read(root, &file.unwrap_or_else(|| panic!("{name} is no file")), files, mutants);
    }
}

struct Finder<'t> {
    text: &'t str,
    file: &'t Path,
    /// The function.
    of: String,
    insertions: Vec<Insertion>,
    mutants: &'t mut Vec<Mutant>,
    below: Vec<String>,
    /// How often a description was given in this file.
    seen: HashMap<String, usize>,
}

impl Finder<'_> {
    fn text_of(&self, spanned: &impl Spanned) -> &str {
        &self.text[spanned.span().byte_range()]
    }

    fn mutant(&mut self, line: usize, description: String) -> u32 {
        // Zero is no mutant.
        let id = self.mutants.len() as u32 + 1;
        // A line in the files of results, however long the text is.
        let description = description.lines().map(str::trim).collect::<Vec<_>>().join(" ");
        let mut description = format!("{}: {description}", self.of);
        let seen = self.seen.entry(description.clone()).or_insert(0);
        *seen += 1;
        if *seen > 1 {
            description += &format!(" ({seen})");
        }
        let (file, function) = (self.file.to_path_buf(), self.of.clone());
        self.mutants.push(Mutant { id, file, line, function, description });
        id
    }

    /// Puts other code beside an expression.
    fn replace(&mut self, place: &impl Spanned, other: &str, description: String) {
        let id = self.mutant(place.span().start().line, description);
        let before = format!("(if crate::mutant::is({id}) {{ {other} }} else {{ ");
        self.insertions.push(Insertion {
            id,
            place: place.span().byte_range(),
            before,
            behind: " })",
        });
    }

    /// Puts returns at the beginning of a function.
    fn body(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let own = self.text_of(block).trim_matches(['{', '}']).trim().to_owned();
        for value in values(&signature.output) {
            if own != *value {
                let what = format!("returns {}", if value.is_empty() { "at once" } else { value });
                let id = self.mutant(signature.span().start().line, what);
                let at = block.brace_token.span.open().byte_range().end;
                let before = format!(" if crate::mutant::is({id}) {{ return {value}; }} ");
                self.insertions.push(Insertion { id, place: at..at, before, behind: "" });
            }
        }
    }

    fn function(&mut self, attributes: &[syn::Attribute], it: &syn::Signature, block: &syn::Block) {
        if it.constness.is_some() || !is_compiled(attributes) {
            return;
        }
        let outer = std::mem::replace(&mut self.of, it.ident.to_string());
        self.body(it, block);
        self.visit_block(block);
        self.of = outer;
    }
}

impl<'a> Visit<'a> for Finder<'_> {
    fn visit_item_fn(&mut self, it: &'a syn::ItemFn) {
        self.function(&it.attrs, &it.sig, &it.block);
    }

    fn visit_impl_item_fn(&mut self, it: &'a syn::ImplItemFn) {
        self.function(&it.attrs, &it.sig, &it.block);
    }

    fn visit_trait_item_fn(&mut self, it: &'a syn::TraitItemFn) {
        if let Some(block) = &it.default {
            self.function(&it.attrs, &it.sig, block);
        }
    }

    fn visit_item_mod(&mut self, it: &'a syn::ItemMod) {
        match &it.content {
            _ if !is_compiled(&it.attrs) => {}
            None => self.below.push(it.ident.to_string()),
            Some(_) => visit::visit_item_mod(self, it),
        }
    }

    fn visit_item_impl(&mut self, it: &'a syn::ItemImpl) {
        if is_compiled(&it.attrs) {
            visit::visit_item_impl(self, it);
        }
    }

    fn visit_local(&mut self, it: &'a syn::Local) {
        if is_compiled(&it.attrs) {
            visit::visit_local(self, it);
        }
    }

    fn visit_expr_block(&mut self, it: &'a syn::ExprBlock) {
        if is_compiled(&it.attrs) {
            visit::visit_expr_block(self, it);
        }
    }

    // What is computed when the crate is compiled has no switch.
    fn visit_item_const(&mut self, _: &'a syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &'a syn::ItemStatic) {}
    fn visit_impl_item_const(&mut self, _: &'a syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'a syn::TraitItemConst) {}
    fn visit_item_enum(&mut self, _: &'a syn::ItemEnum) {}
    fn visit_expr_const(&mut self, _: &'a syn::ExprConst) {}
    fn visit_type(&mut self, _: &'a syn::Type) {}
    fn visit_pat(&mut self, _: &'a syn::Pat) {}
    fn visit_generic_argument(&mut self, _: &'a syn::GenericArgument) {}
    fn visit_attribute(&mut self, _: &'a syn::Attribute) {}

    fn visit_expr_repeat(&mut self, it: &'a syn::ExprRepeat) {
        self.visit_expr(&it.expr);
    }

    fn visit_expr_if(&mut self, it: &'a syn::ExprIf) {
        let condition = self.text_of(&it.cond);
        // A seeded bug is off in this build.
        let is_off = condition.contains("seeded(") && !condition.contains('!');
        self.visit_expr(&it.cond);
        if !is_off {
            self.visit_block(&it.then_branch);
        }
        if let Some((_, other)) = &it.else_branch {
            self.visit_expr(other);
        }
    }

    fn visit_expr_binary(&mut self, it: &'a syn::ExprBinary) {
        let (left, right) = (self.text_of(&it.left), self.text_of(&it.right));
        let is_seeded = [left, right].iter().any(|text| text.starts_with("seeded("));
        let is_chain =
            matches!(it.op, syn::BinOp::And(_)) && has_let(&syn::Expr::Binary(it.clone()));
        let own = self.text_of(&it.op).to_owned();
        if let Some(other) = other_operator(&own).filter(|_| !is_seeded && !is_chain) {
            let (code, shown) = match own.ends_with('=') && own.len() > 1 && assigns(&own) {
                true => (format!("{left} {other} {right}"), format!("{left} {own} {right}")),
                false => (format!("({left}) {other} ({right})"), format!("{left} {own} {right}")),
            };
            let shown: String = shown.split_whitespace().collect::<Vec<_>>().join(" ");
            let shown: String = shown.chars().take(90).collect();
            self.replace(it, &code, format!("`{own}` is `{other}` in `{shown}`"));
        }
        visit::visit_expr_binary(self, it);
    }

    fn visit_expr_unary(&mut self, it: &'a syn::ExprUnary) {
        let operand = self.text_of(&it.expr).to_owned();
        if matches!(it.op, syn::UnOp::Not(_)) && !operand.contains("seeded(") {
            let shown: String = operand.chars().take(60).collect();
            self.replace(it, &operand, format!("no `!` before `{shown}`"));
        }
        visit::visit_expr_unary(self, it);
    }

    fn visit_arm(&mut self, it: &'a syn::Arm) {
        if !is_compiled(&it.attrs) {
            return;
        }
        if let Some((_, guard)) = it.guard.as_ref().filter(|(_, guard)| !has_let(guard)) {
            let shown: String = self.text_of(guard).chars().take(60).collect();
            for value in ["true", "false"] {
                self.replace(&**guard, value, format!("the guard `{shown}` is {value}"));
            }
            self.visit_expr(guard);
        }
        self.visit_expr(&it.body);
    }
}

fn assigns(operator: &str) -> bool {
    !["==", "!=", "<=", ">="].contains(&operator)
}

/// Whether a condition binds names.
fn has_let(condition: &syn::Expr) -> bool {
    match condition {
        syn::Expr::Let(_) => true,
        syn::Expr::Binary(it) if matches!(it.op, syn::BinOp::And(_)) => {
            has_let(&it.left) || has_let(&it.right)
        }
        _ => false,
    }
}

fn other_operator(operator: &str) -> Option<&'static str> {
    const OTHERS: [(&str, &str); 28] = [
        ("==", "!="),
        ("!=", "=="),
        ("<", "<="),
        ("<=", "<"),
        (">", ">="),
        (">=", ">"),
        ("&&", "||"),
        ("||", "&&"),
        ("+", "-"),
        ("-", "+"),
        ("*", "+"),
        ("/", "*"),
        ("%", "/"),
        ("&", "|"),
        ("|", "&"),
        ("^", "|"),
        ("<<", ">>"),
        (">>", "<<"),
        ("+=", "-="),
        ("-=", "+="),
        ("*=", "+="),
        ("/=", "*="),
        ("%=", "/="),
        ("&=", "|="),
        ("|=", "&="),
        ("^=", "|="),
        ("<<=", ">>="),
        (">>=", "<<="),
    ];
    OTHERS.iter().find(|(own, _)| *own == operator).map(|&(_, other)| other)
}

/// Returns what a function of this type may return instead.
fn values(output: &syn::ReturnType) -> &'static [&'static str] {
    let syn::ReturnType::Type(_, output) = output else {
        return &[""];
    };
    let syn::Type::Path(path) = &**output else {
        return &[];
    };
    let last = path.path.segments.last().unwrap();
    match last.ident.to_string().as_str() {
        "bool" => &["true", "false"],
        "u8" | "u16" | "u32" | "u64" | "u128" | "usize" | "isize" | "i32" | "i64" => &["0", "1"],
        "Option" => &["None"],
        "Result" => match &last.arguments {
            syn::PathArguments::AngleBracketed(it) => match it.args.first() {
                Some(syn::GenericArgument::Type(syn::Type::Tuple(it))) if it.elems.is_empty() => {
                    &["Ok(())"]
                }
                _ => &[],
            },
            _ => &[],
        },
        _ => &[],
    }
}

/// Whether the conditions for compilation hold for the library and its tests on Linux.
fn is_compiled(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().filter(|it| it.path().is_ident("cfg")).all(|it| match &it.meta {
        syn::Meta::List(list) => holds(&list.parse_args().unwrap()),
        _ => true,
    })
}

fn holds(condition: &syn::Meta) -> bool {
    const HOLD: [&str; 4] = ["durable", "unix", "x86_64_assembly", "debug_assertions"];
    let name = condition.path().get_ident().map(ToString::to_string).unwrap_or_default();
    match condition {
        syn::Meta::Path(_) => HOLD.contains(&name.as_str()),
        syn::Meta::NameValue(it) => {
            let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(value), .. }) = &it.value else {
                return false;
            };
            ["linux", "x86_64", "64", "serde", "unix"].contains(&value.value().as_str())
        }
        syn::Meta::List(list) => {
            type Conditions = syn::punctuated::Punctuated<syn::Meta, syn::Token![,]>;
            let mut all = list.parse_args_with(Conditions::parse_terminated).unwrap().into_iter();
            match name.as_str() {
                "not" => !all.any(|it| holds(&it)),
                "any" => all.any(|it| holds(&it)),
                _ => all.all(|it| holds(&it)),
            }
        }
    }
}
