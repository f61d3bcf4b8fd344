//! Paths that the pages name in backticks exist: a page that sends its reader to a file that was moved is worse
//! than none.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap().to_path_buf()
}

/// Every file and folder of the source tree, as `/path/from/the/root`.
fn add_paths(folder: &Path, above: &str, paths: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().to_string_lossy().into_owned();
        if name == "target" || name == ".git" {
            continue;
        }
        let path = format!("{above}/{name}");
        if entry.file_type().unwrap().is_dir() {
            add_paths(&entry.path(), &path, paths);
        }
        paths.insert(path);
    }
}

/// Whether a text in backticks means a file of ours: `folder/file.rs`, `docs/inside`, but no command, no route,
/// nothing that a build makes.
fn is_path(text: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-./".contains(letter);
    let is_source = text.ends_with(".rs") || text.ends_with(".md") || text.starts_with("crates/");
    is_source && text.chars().all(is_plain) && !text.starts_with(['/', '.'])
}

/// The texts in backticks of a page, with their lines; code blocks, and what the page says was renamed, left out.
fn named_paths(page: &str) -> Vec<(usize, &str)> {
    let mut is_code = false;
    let mut found = Vec::new();
    for (number, line) in page.lines().enumerate() {
        if line.starts_with("## Older texts say") {
            break;
        }
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            let quoted = line.split('`').skip(1).step_by(2);
            found.extend(
                quoted
                    .filter(|text| is_path(text))
                    .map(|text| (number + 1, text)),
            );
        }
    }
    found
}

#[test]
fn paths_that_the_pages_name_exist() {
    let mut paths = BTreeSet::new();
    add_paths(&root(), "", &mut paths);
    let mut offenders = Vec::new();
    for page in paths.iter().filter(|path| path.ends_with(".md")) {
        let text = fs::read_to_string(root().join(&page[1..])).unwrap();
        for (line, named) in named_paths(&text) {
            // Pages name files from the root, from a crate, or from the sources that they are about.
            let end = format!("/{}", named.trim_end_matches('/'));
            if !paths.iter().any(|path| path.ends_with(&end)) {
                offenders.push(format!("{}:{line}: {named}", &page[1..]));
            }
        }
    }
    assert!(
        offenders.is_empty(),
        "no such file:\n  {}",
        offenders.join("\n  ")
    );
}
