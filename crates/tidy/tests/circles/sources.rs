//! What a crate's files name of each other, read from their sources.
//!
//! A file *names* another where a path in it (of a `use`, or written out) leads to an item that the other
//! defines. Re-exports are followed to the file that defines the item, so a `mod.rs` that only declares its
//! modules and passes on what they export is named by nothing and names nothing. What is compiled for tests
//! alone is left out. Methods cannot be seen: a call of one is not a path.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Attribute, Item, ItemUse, UseTree, Visibility};

/// The modules from the root of the crate to an item, and the item.
pub(crate) type Segments = Vec<String>;

/// A module: a file, or one within a file.
#[derive(Default)]
struct Module {
    /// The module that the file holds.
    file: Segments,
    children: BTreeSet<String>,
    defined: BTreeSet<String>,
    /// What a `use` brings into the module, by the name it has there.
    imported: BTreeMap<String, Segments>,
    /// The modules of which a `use` brings in everything.
    globs: Vec<Segments>,
    /// Names that the module takes from modules below it only to pass them on.
    passed_on: BTreeSet<String>,
    /// Paths written out, as they stand, and single names.
    paths: BTreeSet<Segments>,
}

/// What a name means that nothing in a module declares.
#[derive(Clone, Copy, PartialEq)]
enum Unknown {
    /// One of another crate or of the language, if it stands alone.
    NotOurs,
    /// One that a macro of the module makes, if a path leads into the module.
    MadeByMacro,
    /// Nothing, if the module is searched for what a `use MODULE::*` may bring.
    OfGlob,
}

/// The modules of a crate by their path from its root.
pub(crate) struct Crate(BTreeMap<Segments, Module>);

impl Crate {
    /// The crate whose root is the file `root`.
    pub(crate) fn read(root: &Path) -> Self {
        let mut modules = Crate(BTreeMap::new());
        modules.read_file(root, &[], root.parent().unwrap());
        modules
    }

    fn read_file(&mut self, file: &Path, path: &[String], folder: &Path) {
        let text = fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let parsed = syn::parse_file(&text).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        self.add(parsed.items, file, (path, path), folder);
    }

    /// Takes in the module `path` of the file that holds the module `holder`.
    fn add(
        &mut self,
        items: Vec<Item>,
        file: &Path,
        (holder, path): (&[String], &[String]),
        folder: &Path,
    ) {
        // Of a module that has a file for each of two platforms or features both are read.
        let mut module = self.0.remove(path).unwrap_or_default();
        module.file = holder.to_vec();
        for item in items {
            if is_for_tests(attributes_of(&item)) {
                continue;
            }
            match item {
                Item::Mod(item) => {
                    let name = item.ident.to_string();
                    module.children.insert(name.clone());
                    let below = [path, std::slice::from_ref(&name)].concat();
                    if let Some((_, items)) = item.content {
                        let inner = path_of(&item.attrs).unwrap_or(name.into());
                        self.add(items, file, (holder, &below), &folder.join(inner));
                    } else {
                        let (source, inner) = source_of(&item.attrs, &name, file, folder);
                        self.read_file(&source, &below, &inner);
                    }
                }
                Item::Use(item) => module.import(&item),
                item => {
                    module.defined.extend(name_of(&item));
                    module.scan(item.to_token_stream());
                }
            }
        }
        self.0.insert(path.to_vec(), module);
    }

    /// Which module defines what `segments` lead to, starting in the module `path`; `None` for a module, and for
    /// what is not the crate's own.
    fn definer(&self, path: &[String], segments: &[String]) -> Option<&Module> {
        // Deeper than any chain of re-exports; a circle of them ends here.
        self.look_up(path, segments, 16, Unknown::NotOurs)
    }

    fn look_up(
        &self,
        path: &[String],
        segments: &[String],
        depth: usize,
        unknown: Unknown,
    ) -> Option<&Module> {
        let module = self.0.get(path)?;
        let depth = depth.checked_sub(1)?;
        let [first, rest @ ..] = segments else {
            return None;
        };
        let inside = match unknown {
            Unknown::OfGlob => Unknown::OfGlob,
            _ => Unknown::MadeByMacro,
        };
        match first.as_str() {
            "crate" => return self.look_up(&[], rest, depth, inside),
            "self" => return self.look_up(path, rest, depth, inside),
            "super" => return self.look_up(path.split_last()?.1, rest, depth, inside),
            _ => {}
        }
        if module.children.contains(first) {
            let below = [path, std::slice::from_ref(first)].concat();
            return self.look_up(&below, rest, depth, inside);
        }
        if module.defined.contains(first) {
            return Some(module);
        }
        if let Some(target) = module.imported.get(first) {
            let target = [target.as_slice(), rest].concat();
            let unknown = match unknown {
                Unknown::MadeByMacro => Unknown::NotOurs,
                same => same,
            };
            return self.look_up(path, &target, depth, unknown);
        }
        let mut globs = module.globs.iter();
        let of_glob = |glob: &Segments| {
            let target = [glob.as_slice(), segments].concat();
            self.look_up(path, &target, depth, Unknown::OfGlob)
        };
        let found = globs.find_map(of_glob);
        found.or((unknown == Unknown::MadeByMacro).then_some(module))
    }

    /// Which file names which other, by the modules that the files hold, and by which of its paths.
    pub(crate) fn names(&self) -> BTreeMap<(Segments, Segments), BTreeSet<String>> {
        let mut named: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for (path, module) in &self.0 {
            let is_passed_on = |name: &String| {
                module.passed_on.contains(name) && !module.paths.iter().any(|p| p[0] == *name)
            };
            let imported = module.imported.iter();
            let imported = imported.filter(|(name, _)| !is_passed_on(name));
            let all = module
                .paths
                .iter()
                .chain(imported.map(|(_, target)| target));
            for segments in all {
                if let Some(definer) = self.definer(path, segments)
                    && definer.file != module.file
                {
                    let step = (module.file.clone(), definer.file.clone());
                    named.entry(step).or_default().insert(segments.join("::"));
                }
            }
        }
        named
    }
}

impl Module {
    fn import(&mut self, item: &ItemUse) {
        let is_public = !matches!(item.vis, Visibility::Inherited);
        self.import_tree(&item.tree, Vec::new(), is_public);
    }

    fn import_tree(&mut self, tree: &UseTree, before: Segments, is_public: bool) {
        let (name, target) = match tree {
            UseTree::Path(path) => {
                let before = [before, vec![path.ident.to_string()]].concat();
                return self.import_tree(&path.tree, before, is_public);
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.import_tree(tree, before.clone(), is_public);
                }
                return;
            }
            UseTree::Glob(_) => return self.globs.push(before),
            UseTree::Name(name) if name.ident == "self" => {
                (before.last().unwrap().clone(), before.clone())
            }
            UseTree::Name(name) => {
                let name = name.ident.to_string();
                (name.clone(), [before, vec![name]].concat())
            }
            UseTree::Rename(rename) => {
                let target = rename.ident.to_string();
                (rename.rename.to_string(), [before, vec![target]].concat())
            }
        };
        let from = target.iter().find(|segment| *segment != "self").unwrap();
        // An external crate, or an item already in scope: `use Kind::{A, B}`.
        if target.len() == 1 && name == target[0] {
            return;
        }
        if is_public && self.children.contains(from) {
            self.passed_on.insert(name.clone());
        }
        if name != target[0] {
            self.imported.insert(name, target);
        }
    }

    /// Takes in the paths of an item's tokens, which hold those in calls of macros too.
    fn scan(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            if let Some(end) = end_of_item_for_tests(&tokens, at) {
                at = end;
                continue;
            }
            match &tokens[at] {
                TokenTree::Ident(word) if word == "use" => {
                    let end = (at..tokens.len()).find(|end| is_punct(&tokens[*end], ';'));
                    let end = end.unwrap_or(tokens.len() - 1);
                    let item = tokens[at..=end].iter().cloned().collect();
                    if let Ok(item) = syn::parse2::<ItemUse>(item) {
                        self.import(&item);
                    }
                    at = end;
                }
                // The path in `pub(in path)` names no item.
                TokenTree::Ident(word) if word == "pub" => {
                    let next = tokens.get(at + 1);
                    at += usize::from(matches!(next, Some(TokenTree::Group(_))));
                }
                TokenTree::Ident(first) => {
                    let is_method = at > 0 && is_punct(&tokens[at - 1], '.');
                    let mut path = vec![first.to_string()];
                    while let [colon, second, TokenTree::Ident(word), ..] = &tokens[at + 1..]
                        && is_punct(colon, ':')
                        && is_punct(second, ':')
                    {
                        path.push(word.to_string());
                        at += 3;
                    }
                    if !is_method {
                        self.paths.insert(path);
                    }
                }
                TokenTree::Group(group) => self.scan(group.stream()),
                _ => {}
            }
            at += 1;
        }
    }
}

/// Where the item that starts at `at` ends, if an attribute says that it is compiled for tests alone.
fn end_of_item_for_tests(tokens: &[TokenTree], at: usize) -> Option<usize> {
    let [mark, TokenTree::Group(attribute), ..] = &tokens[at..] else {
        return None;
    };
    let words = attribute.stream().to_string().replace(' ', "");
    if !is_punct(mark, '#') || !(words == "cfg(test)" || words.starts_with("cfg(all(test,")) {
        return None;
    }
    let is_end = |token: &TokenTree| match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        token => is_punct(token, ';') || is_punct(token, ','),
    };
    let length = tokens[at + 2..].iter().position(is_end)?;
    Some(at + 2 + length + 1)
}

fn is_punct(token: &TokenTree, wanted: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == wanted)
}

fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let words = attribute.meta.to_token_stream().to_string();
        let words = words.replace(' ', "");
        words == "cfg(test)" || words.starts_with("cfg(all(test,")
    })
}

/// What an attribute `path` says of a module.
fn path_of(attributes: &[Attribute]) -> Option<PathBuf> {
    attributes.iter().find_map(|attribute| {
        let syn::Meta::NameValue(pair) = &attribute.meta else {
            return None;
        };
        match &pair.value {
            syn::Expr::Lit(literal) if attribute.path().is_ident("path") => match &literal.lit {
                syn::Lit::Str(path) => Some(path.value().into()),
                _ => None,
            },
            _ => None,
        }
    })
}

/// The file of `mod NAME;` in `file`, whose own modules are in `folder`, and the folder of its modules.
fn source_of(
    attributes: &[Attribute],
    name: &str,
    file: &Path,
    folder: &Path,
) -> (PathBuf, PathBuf) {
    if let Some(path) = path_of(attributes) {
        let source = file.parent().unwrap().join(path);
        let inner = source.parent().unwrap().to_path_buf();
        return (source, inner);
    }
    let inner = folder.join(name);
    let short = inner.with_extension("rs");
    match short.exists() {
        true => (short, inner),
        false => (inner.join("mod.rs"), inner),
    }
}

fn attributes_of(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn name_of(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}
