//! The public API of the crates that others build on is what their snapshots say, so that no change of it
//! goes unseen: `crates/FOLDER/public-api.txt`, written anew with
//! `UPDATE_PUBLIC_API=1 cargo test -p forebay-tidy --test public_api`.
//!
//! It is read from the sources: what `lib.rs` exports by name, the public methods of that in the whole crate, and
//! the traits it implements. What is hidden from the documentation or behind a feature is left out. Where
//! a macro makes an item, the call of the macro stands for it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use quote::ToTokens;
use syn::{Attribute, ImplItem, Item, TraitItem, UseTree, Visibility};

const CRATES: [&str; 2] = ["cache", "pmem"];

/// A module's items by its path from the root.
type Modules = BTreeMap<Vec<String>, Vec<Item>>;

/// Reads a module and those within it; tests are left out.
fn read_modules(file: &Path, path: Vec<String>, modules: &mut Modules) {
    let text = fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let parsed = syn::parse_file(&text).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let folder = match file.file_stem().and_then(|stem| stem.to_str()) {
        Some("lib" | "mod") => file.parent().unwrap().to_path_buf(),
        _ => file.with_extension(""),
    };
    add_module(parsed.items, &folder, path, modules);
}

fn add_module(items: Vec<Item>, folder: &Path, path: Vec<String>, modules: &mut Modules) {
    for item in &items {
        let Item::Mod(module) = item else {
            continue;
        };
        if is_left_out(&module.attrs) {
            continue;
        }
        let name = module.ident.to_string();
        let inner = [path.as_slice(), std::slice::from_ref(&name)].concat();
        if let Some((_, items)) = &module.content {
            add_module(items.clone(), &folder.join(&name), inner, modules);
            continue;
        }
        let file = folder.join(format!("{name}.rs"));
        let file = match file.is_file() {
            true => file,
            false => folder.join(&name).join("mod.rs"),
        };
        read_modules(&file, inner, modules);
    }
    modules.insert(path, items);
}

/// Whether an item is in no release: of tests, behind a feature, or hidden.
fn is_left_out(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let text = attribute.to_token_stream().to_string();
        let is_hidden = attribute.path().is_ident("doc") && text.contains("hidden");
        let is_switched = attribute.path().is_ident("cfg")
            && ["test", "feature", "loom"]
                .iter()
                .any(|word| text.contains(word));
        is_hidden || is_switched
    })
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

/// Tokens as a person would write them.
fn written(tokens: impl ToTokens) -> String {
    let mut text = tokens.to_token_stream().to_string();
    for (spaced, close) in [
        ("# [", "#["),
        ("< '", "<'"),
        (" ,", ","),
        (" :: ", "::"),
        (":: ", "::"),
        (" :", ":"),
        (" ;", ";"),
        ("& ", "&"),
        (" < ", "<"),
        (" >", ">"),
        ("-> ", " -> "),
        ("( ", "("),
        (" (", "("),
        (" )", ")"),
        ("[ ", "["),
        (" ]", "]"),
        (" ?", "?"),
        (" !", "!"),
        (",)", ")"),
        ("  ", " "),
    ] {
        text = text.replace(spaced, close);
    }
    text.replace("->", " -> ").replace("  ", " ")
}

/// The paths that a `use` names, each with the name it gets.
fn used(tree: &UseTree, before: &[String], found: &mut Vec<(Vec<String>, String)>) {
    let with = |name: String| [before, &[name]].concat();
    match tree {
        UseTree::Path(path) => used(&path.tree, &with(path.ident.to_string()), found),
        UseTree::Name(name) => found.push((with(name.ident.to_string()), name.ident.to_string())),
        UseTree::Rename(to) => found.push((with(to.ident.to_string()), to.rename.to_string())),
        UseTree::Group(group) => group
            .items
            .iter()
            .for_each(|tree| used(tree, before, found)),
        UseTree::Glob(_) => panic!("{}::*: export each name", before.join("::")),
    }
}

/// A crate as its sources have it.
struct Sources {
    modules: Modules,
}

impl Sources {
    fn read(folder: &Path) -> Sources {
        let mut modules = Modules::new();
        read_modules(&folder.join("src/lib.rs"), Vec::new(), &mut modules);
        Sources { modules }
    }

    /// The module that a path of a `use` in `from` begins with, and the rest; `None` for another crate's.
    fn find(&self, from: &[String], path: &[String]) -> Option<(Vec<String>, Vec<String>)> {
        let (mut module, mut rest) = match path[0].as_str() {
            "crate" => (Vec::new(), &path[1..]),
            "self" => (from.to_vec(), &path[1..]),
            "super" => (from[..from.len() - 1].to_vec(), &path[1..]),
            _ => (from.to_vec(), path),
        };
        let begins_here = rest.len() < path.len();
        while rest.len() > 1 {
            module.push(rest[0].clone());
            if !self.modules.contains_key(&module) {
                assert!(!begins_here, "{path:?} of {from:?} leads nowhere");
                return None;
            }
            rest = &rest[1..];
        }
        Some((module, rest.to_vec()))
    }

    /// Shows the item that a name of a module stands for.
    fn show(&self, module: &[String], name: &str, out: &mut Vec<String>) {
        let items = &self.modules[module];
        for item in items {
            if let Some(lines) = self.declared(item, name) {
                out.extend(lines);
                return;
            }
            let Item::Use(import) = item else {
                continue;
            };
            let mut found = Vec::new();
            if !is_left_out(&import.attrs) {
                used_unless_glob(&import.tree, &mut found);
            }
            if let Some((path, _)) = found.iter().find(|(_, known)| known == name) {
                match self.find(module, path) {
                    Some((module, rest)) => self.show(&module, &rest[0], out),
                    None => out.push(format!("pub use {}", path.join("::"))),
                }
                return;
            }
        }
        // A macro has made it.
        let calls = items.iter().filter_map(|item| match item {
            Item::Macro(call) if call.ident.is_none() => {
                Some(without_docs(call.mac.tokens.clone()))
            }
            _ => None,
        });
        let before = out.len();
        out.extend(calls.map(|call| format!("{name}, made by a macro: {call}")));
        assert!(out.len() > before, "{name} is not in {module:?}");
        out.extend(self.methods(name));
    }

    /// The lines of an item, if it has this name.
    fn declared(&self, item: &Item, name: &str) -> Option<Vec<String>> {
        let mut lines = Vec::new();
        match item {
            Item::Struct(item) if item.ident == name => {
                lines.push(format!(
                    "{}pub struct {name}{}",
                    mark(&item.attrs),
                    written(&item.generics)
                ));
                for field in item.fields.iter().filter(|field| is_public(&field.vis)) {
                    let field_name = field.ident.as_ref().map(|ident| format!("{ident}: "));
                    lines.push(format!(
                        "    pub {}{}",
                        field_name.unwrap_or_default(),
                        written(&field.ty)
                    ));
                }
            }
            Item::Enum(item) if item.ident == name => {
                lines.push(format!("{}pub enum {name}", mark(&item.attrs)));
                for variant in &item.variants {
                    let mut variant = variant.clone();
                    variant.attrs.clear();
                    variant.fields.iter_mut().for_each(|f| f.attrs.clear());
                    lines.push(format!("    {}", written(&variant)));
                }
            }
            Item::Trait(item) if item.ident == name => {
                let bounds = written(&item.supertraits);
                lines.push(format!("pub trait {name}: {bounds}"));
                for member in &item.items {
                    if let TraitItem::Fn(function) = member {
                        let kind = match function.default {
                            Some(_) => " (provided)",
                            None => "",
                        };
                        lines.push(format!("    {}{kind}", written(&function.sig)));
                    }
                }
            }
            Item::Type(item) if item.ident == name => {
                lines.push(format!(
                    "pub type {name}{} = {}",
                    written(&item.generics),
                    written(&item.ty)
                ));
            }
            Item::Const(item) if item.ident == name => {
                lines.push(format!("pub const {name}: {}", written(&item.ty)));
            }
            Item::Fn(item) if item.sig.ident == name => {
                lines.push(format!("pub {}", written(&item.sig)));
            }
            _ => return None,
        }
        lines.extend(self.methods(name));
        Some(lines)
    }

    /// The public methods of a type and the traits that it implements.
    fn methods(&self, name: &str) -> BTreeSet<String> {
        let mut lines = BTreeSet::new();
        for item in self.modules.values().flatten() {
            let Item::Impl(block) = item else {
                continue;
            };
            let syn::Type::Path(of) = &*block.self_ty else {
                continue;
            };
            let is_of_it = of
                .path
                .segments
                .last()
                .is_some_and(|last| last.ident == name);
            if !is_of_it || is_left_out(&block.attrs) {
                continue;
            }
            if let Some((_, of, _)) = &block.trait_ {
                lines.insert(format!("    impl {}", written(of)));
                continue;
            }
            for member in &block.items {
                match member {
                    ImplItem::Fn(f) if is_public(&f.vis) && !is_left_out(&f.attrs) => {
                        lines.insert(format!("    pub {}", written(&f.sig)));
                    }
                    ImplItem::Const(c) if is_public(&c.vis) && !is_left_out(&c.attrs) => {
                        lines.insert(format!("    pub const {}: {}", c.ident, written(&c.ty)));
                    }
                    _ => {}
                }
            }
        }
        lines
    }

    /// All that the modules from the root on which are public themselves export.
    fn exported(&self, module: &[String], out: &mut BTreeMap<String, Vec<String>>) {
        for item in &self.modules[module] {
            let (attributes, visibility, name) = match item {
                Item::Struct(item) => (&item.attrs, &item.vis, item.ident.to_string()),
                Item::Enum(item) => (&item.attrs, &item.vis, item.ident.to_string()),
                Item::Trait(item) => (&item.attrs, &item.vis, item.ident.to_string()),
                Item::Type(item) => (&item.attrs, &item.vis, item.ident.to_string()),
                Item::Const(item) => (&item.attrs, &item.vis, item.ident.to_string()),
                Item::Fn(item) => (&item.attrs, &item.vis, item.sig.ident.to_string()),
                Item::Mod(item) => (&item.attrs, &item.vis, item.ident.to_string()),
                Item::Use(item) => (&item.attrs, &item.vis, String::new()),
                _ => continue,
            };
            if !is_public(visibility) || is_left_out(attributes) {
                continue;
            }
            let names = match item {
                Item::Mod(_) => {
                    self.exported(&[module, &[name]].concat(), out);
                    continue;
                }
                Item::Use(import) => {
                    let mut found = Vec::new();
                    used(&import.tree, &[], &mut found);
                    found.into_iter().map(|(_, name)| name).collect()
                }
                _ => vec![name],
            };
            for name in names {
                let mut lines = Vec::new();
                self.show(module, &name, &mut lines);
                out.insert([module, &[name]].concat().join("::"), lines);
            }
        }
    }
}

/// As `used`; what a glob brings is not looked for.
fn used_unless_glob(tree: &UseTree, found: &mut Vec<(Vec<String>, String)>) {
    if !written(tree).contains('*') {
        used(tree, &[], found);
    }
}

/// What an item's attributes promise.
fn mark(attributes: &[Attribute]) -> String {
    let is_open = |attribute: &Attribute| attribute.path().is_ident("non_exhaustive");
    let derived = attributes.iter().filter(|a| a.path().is_ident("derive"));
    let derived: String = derived.map(|derive| written(derive) + "\n").collect();
    match attributes.iter().any(is_open) {
        true => format!("{derived}#[non_exhaustive]\n"),
        false => derived,
    }
}

/// The tokens of a macro's call without documentation.
fn without_docs(tokens: proc_macro2::TokenStream) -> String {
    let mut kept = proc_macro2::TokenStream::new();
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let is_attribute = token.to_string() == "#"
            && tokens
                .peek()
                .is_some_and(|next| next.to_string().starts_with('['));
        match is_attribute {
            true => drop(tokens.next()),
            false => kept.extend([token]),
        }
    }
    written(kept)
}

fn snapshot(folder: &Path) -> String {
    let mut items = BTreeMap::new();
    Sources::read(folder).exported(&[], &mut items);
    let mut text = String::new();
    for (name, lines) in items {
        text += &format!("# {name}\n{}\n\n", lines.join("\n"));
    }
    text
}

#[test]
fn the_public_api_is_what_its_snapshot_says() {
    let crates: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for name in CRATES {
        let folder = crates.join(name);
        let file = folder.join("public-api.txt");
        let now = snapshot(&folder);
        if std::env::var_os("UPDATE_PUBLIC_API").is_some() {
            fs::write(&file, &now).unwrap();
        }
        let known = fs::read_to_string(&file).unwrap_or_default();
        let gone: Vec<&str> = known.lines().filter(|l| !now.contains(l)).collect();
        let new: Vec<&str> = now.lines().filter(|l| !known.contains(l)).collect();
        assert!(
            now == known,
            "the public API of crates/{name} is no longer what public-api.txt says\ngone: {gone:#?}\nnew: {new:#?}\n\
             if that is meant, note it in CHANGELOG.md and run\n  \
             UPDATE_PUBLIC_API=1 cargo test -p forebay-tidy --test public_api"
        );
    }
}
