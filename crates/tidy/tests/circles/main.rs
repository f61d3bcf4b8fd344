//! No circle of files, and none of modules. No file names another that names it, also by way of others; nor does a
//! module, taken with all below it, of those that one file declares. So a reader can take files and folders in one
//! order, each after all that it is made of. What naming is, `sources` says.

mod sources;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use sources::{Crate, Segments};

/// The roots of every crate below `folder`: libraries, commands and programs of tests.
fn roots(folder: &Path, found: &mut Vec<PathBuf>) {
    let is_root_folder = ["bin", "tests", "examples", "benches", "fuzz_targets"]
        .iter()
        .any(|name| folder.ends_with(name));
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if !["target", "corpus", "fixtures"].contains(&name.as_str()) && !name.starts_with('.')
            {
                roots(&path, found);
            }
        } else if ["lib.rs", "main.rs"].contains(&name.as_str())
            || is_root_folder && name.ends_with(".rs") && name != "mod.rs"
        {
            found.push(path);
        }
    }
}

/// The two modules beside each other that hold `file` and `other`; `None` where one of the files holds a module
/// that the other is part of.
fn beside(file: &[String], other: &[String]) -> Option<(Segments, Segments)> {
    let shared = file.iter().zip(other).take_while(|(a, b)| a == b).count();
    (shared < file.len() && shared < other.len())
        .then(|| (file[..=shared].to_vec(), other[..=shared].to_vec()))
}

/// Whether names lead from `start` to `end`.
fn leads(named: &BTreeSet<(Segments, Segments)>, start: &Segments, end: &Segments) -> bool {
    let mut reached = BTreeSet::from([start]);
    let mut open = vec![start];
    while let Some(module) = open.pop() {
        for (_, next) in named.iter().filter(|(from, _)| from == module) {
            if reached.insert(next) {
                open.push(next);
            }
        }
    }
    reached.contains(end)
}

/// Every name of another module that is part of a circle, of modules or of files, in words.
fn circles(root: &Path) -> Vec<String> {
    let named = Crate::read(root).names();
    let files = named.keys().cloned().collect();
    let modules = named
        .keys()
        .filter_map(|(file, other)| beside(file, other))
        .collect();
    let is_in_circle = |file: &Segments, other: &Segments| {
        leads(&files, other, file)
            || beside(file, other).is_some_and(|(from, to)| leads(&modules, &to, &from))
    };
    named
        .iter()
        .filter(|((file, other), _)| is_in_circle(file, other))
        .map(|((file, other), paths)| {
            let paths: Vec<_> = paths.iter().map(String::as_str).collect();
            let (file, other) = (file.join("::"), other.join("::"));
            format!("{file} names {other}: {}", paths.join(", "))
        })
        .collect()
}

#[test]
fn no_files_name_each_other_in_a_circle() {
    let tree = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .unwrap();
    let mut found = Vec::new();
    for folder in ["crates", "tests", "fuzz"] {
        roots(&tree.join(folder), &mut found);
    }
    found.sort();
    let steps: Vec<_> = found
        .iter()
        .flat_map(|root| {
            let shown = root.strip_prefix(tree).unwrap().display();
            circles(root)
                .into_iter()
                .map(|step| format!("{shown}: {step}"))
                .collect::<Vec<_>>()
        })
        .collect();
    assert!(
        steps.is_empty(),
        "files or modules that name each other in a circle; move what they share to one of its own:\n  {}",
        steps.join("\n  ")
    );
}

/// A crate of these files, and its circles.
fn circles_of(test: &str, files: &[(&str, &str)]) -> Vec<String> {
    let name = format!("forebay-circles-{test}-{}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    for (file, text) in files {
        let path = folder.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let found = circles(&folder.join("lib.rs"));
    fs::remove_dir_all(folder).unwrap();
    found
}

#[test]
fn a_planted_circle_is_found() {
    let found = circles_of(
        "planted",
        &[
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "use crate::b::B; pub struct A(B);"),
            ("b.rs", "pub struct B; fn f() { crate::c::g() }"),
            ("c.rs", "use super::*; pub fn g() -> Option<a::A> { None }"),
        ],
    );
    let steps = [
        "a names b: B, crate::b::B",
        "b names c: crate::c::g",
        "c names a: a::A",
    ];
    assert_eq!(found, steps);
}

#[test]
fn a_circle_is_found_behind_folders_exports_and_macros() {
    let found = circles_of(
        "hidden",
        &[
            ("lib.rs", "mod a; mod b;"),
            (
                "a/mod.rs",
                "mod one; mod two; pub use one::One; pub(crate) use two::Two;",
            ),
            ("a/one.rs", "pub struct One;"),
            (
                "a/two.rs",
                "pub struct Two; fn f() { assert!(crate::b::is_right()); }",
            ),
            (
                "b.rs",
                "use crate::a::One; pub fn is_right() -> bool { let _ = One; true }",
            ),
        ],
    );
    let steps = [
        "a::two names b: crate::b::is_right",
        "b names a::one: One, crate::a::One",
    ];
    assert_eq!(found, steps);
}

#[test]
fn a_circle_of_a_module_and_a_file_below_it_is_found() {
    let below = |module: &str| {
        let file = format!("{module}/mod.rs");
        let one = format!("{module}/one.rs");
        let root = format!("mod {module};");
        let files = [
            ("lib.rs", root.as_str()),
            (&file, "mod one; pub struct A; pub fn f() { one::g() }"),
            (&one, "use super::A; pub fn g() { let _ = A; }"),
        ];
        circles_of(&format!("below-{module}"), &files)
    };
    let steps = ["a names a::one: one::g", "a::one names a: A, super::A"];
    assert_eq!(below("a"), steps);
}

#[test]
fn exports_of_a_module_and_what_tests_name_make_no_circle() {
    let found = circles_of(
        "none",
        &[
            ("lib.rs", "mod a; mod b;"),
            (
                "a/mod.rs",
                "mod one; mod two; pub use one::A; pub fn f() { two::g() }",
            ),
            ("a/one.rs", "pub struct A;"),
            ("a/two.rs", "use super::A; pub fn g() { let _ = A; }"),
            ("b.rs", "use crate::a::A; pub struct B(A);"),
        ],
    );
    assert_eq!(found, Vec::<String>::new());
    let found = circles_of(
        "tests",
        &[
            ("lib.rs", "mod a; mod b;"),
            (
                "a.rs",
                "pub struct A; #[cfg(test)] mod tests { use crate::b::B; }",
            ),
            ("b.rs", "use crate::a::A; pub struct B(A);"),
        ],
    );
    assert_eq!(found, Vec::<String>::new());
}
