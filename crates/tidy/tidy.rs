//! House rules that no compiler checks: imports point one way, files stay short and open with what
//! they guarantee, no file is dead, no link in the documentation is broken, nothing is left "to do".

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Which of our packages a crate may import; `crates/FOLDER` on the left.
///
/// Data flows one way (see ARCHITECTURE.md): what is not listed here is not allowed, and a new
/// crate is entered here together with the reason to exist that its manifest states.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("pmem", &[]),
    ("model", &[]),
    ("tidy", &[]),
    ("harness", &[]),
    ("cache", &["forebay-log", "forebay-pmem"]),
    ("dax", &["forebay-pmem"]),
    ("log", &["forebay-pmem"]),
    ("concurrency", &["forebay", "forebay-pmem"]),
    ("tvarak", &["forebay-pmem"]),
    ("volatile", &["forebay"]),
    (
        "lab",
        &[
            "forebay",
            "forebay-dax",
            "forebay-files",
            "forebay-harness",
            "forebay-pmem",
            "forebay-volatile",
        ],
    ),
    (
        "check",
        &[
            "forebay",
            "forebay-dax",
            "forebay-files",
            "forebay-harness",
            "forebay-lab",
            "forebay-log",
            "forebay-pmem",
            "forebay-volatile",
        ],
    ),
    (
        "bench",
        &[
            "forebay",
            "forebay-dax",
            "forebay-harness",
            "forebay-log",
            "forebay-pmem",
            "forebay-serve",
        ],
    ),
    ("files", &["forebay", "forebay-log", "forebay-pmem"]),
    ("serve", &["forebay", "forebay-pmem"]),
    ("command", &["forebay", "forebay-pmem", "forebay-serve"]),
    (
        "lab-cli",
        &[
            "forebay",
            "forebay-command",
            "forebay-dax",
            "forebay-harness",
            "forebay-lab",
            "forebay-pmem",
            "forebay-serve",
            "forebay-tvarak",
        ],
    ),
    ("mount", &["forebay", "forebay-files", "forebay-serve"]),
    ("capi", &["forebay", "forebay-dax", "forebay-files"]),
    ("preload", &["forebay", "forebay-files"]),
    ("soak", &["forebay-harness", "forebay-serve"]),
    ("torture", &["forebay-harness"]),
    (
        "apps",
        &[
            "forebay",
            "forebay-files",
            "forebay-harness",
            "forebay-lab",
            "forebay-pmem",
            "forebay-serve",
        ],
    ),
    (
        "verify",
        &[
            "forebay",
            "forebay-apps",
            "forebay-check",
            "forebay-files",
            "forebay-harness",
            "forebay-pmem",
            "forebay-rig",
            "forebay-soak",
            "forebay-torture",
        ],
    ),
    (
        "cli",
        &[
            "forebay",
            "forebay-command",
            "forebay-dax",
            "forebay-files",
            "forebay-harness",
            "forebay-mount",
            "forebay-pmem",
            "forebay-serve",
            "forebay-preload",
        ],
    ),
];

/// The crates that a user's machine runs. They link nothing that stands beside them to compare, verify or
/// measure.
const PRODUCT: &[&str] = &[
    "pmem", "log", "cache", "dax", "serve", "files", "mount", "command", "capi", "preload", "cli",
];

/// Which of its layers each layer of the library `crates/cache` may name, the lowest first; all of them may
/// name what stands below every layer, the single files of the folder.
const LAYERS: &[(&str, &[&str])] = &[
    ("backing", &[]),
    ("marks", &["backing"]),
    ("media", &["backing", "marks"]),
    ("log", &["media"]),
    ("table", &["media"]),
    ("policy", &[]),
    ("recovery", &["log", "media", "table"]),
    (
        "engine",
        &["backing", "log", "media", "policy", "recovery", "table"],
    ),
    (
        "background",
        &["backing", "engine", "media", "policy", "table"],
    ),
    (
        "api",
        &[
            "background",
            "backing",
            "engine",
            "log",
            "marks",
            "media",
            "policy",
            "recovery",
            "table",
        ],
    ),
    // The other side of `api`: a pool on an SSD, which answers in the same words.
    (
        "ssd",
        &["api", "background", "backing", "marks", "recovery"],
    ),
    // One of the two, whichever it is.
    (
        "facade",
        &["api", "backing", "engine", "marks", "recovery", "ssd"],
    ),
];

/// Longest Rust file; about 500 is the aim, this is where the house says no.
const FILE_LINES_MAX: usize = 600;

const SKIPPED_FOLDERS: &[&str] = &["target", ".git", "corpus", "artifacts", "fixtures"];

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap().to_path_buf()
}

/// Every file of the source tree that `wanted` accepts, sorted.
fn files(wanted: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().to_string_lossy().into_owned();
            if entry.file_type().unwrap().is_dir() {
                if !SKIPPED_FOLDERS.contains(&name.as_str()) {
                    folders.push(entry.path());
                }
            } else if wanted(&entry.path()) {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    found
}

fn has_extension(path: &Path, extensions: &[&str]) -> bool {
    path.extension()
        .is_some_and(|extension| extensions.iter().any(|wanted| extension == *wanted))
}

fn rust_files() -> Vec<PathBuf> {
    files(|path| has_extension(path, &["rs"]))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap().display().to_string()
}

fn assert_none(rule: &str, offenders: &[String]) {
    assert!(
        offenders.is_empty(),
        "{rule}:\n  {}",
        offenders.join("\n  ")
    );
}

/// The package in `crates/FOLDER`.
fn package_of(folder: &str) -> String {
    match folder {
        "cache" => "forebay".to_owned(),
        folder => format!("forebay-{folder}"),
    }
}

/// Our packages a manifest names in any of its dependency sections.
fn imports_of(manifest: &str) -> Vec<String> {
    imports_in(manifest, |section| section.contains("dependencies"))
}

/// Our packages that a manifest names in the sections that `is_wanted` accepts.
fn imports_in(manifest: &str, is_wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let mut is_dependencies = false;
    let mut imports = Vec::new();
    for line in manifest.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[') {
            let section = section.trim_end_matches(']');
            // A section per dependency, [dependencies.NAME], ends in the name.
            is_dependencies = section.ends_with("dependencies") && is_wanted(section);
            if section.contains("dependencies.")
                && is_wanted(section)
                && let Some(name) = section.rsplit('.').next()
                && name.starts_with("forebay")
            {
                imports.push(name.to_owned());
            }
        } else if is_dependencies && line.starts_with("forebay") {
            let name = line.split(['=', '.', ' ']).next().unwrap();
            imports.push(name.to_owned());
        }
    }
    imports
}

#[test]
fn imports_point_one_way() {
    let allowed: BTreeMap<_, _> = MAY_IMPORT.iter().copied().collect();
    let mut offenders = Vec::new();
    for manifest in files(|path| path.ends_with("Cargo.toml")) {
        let folder = manifest.parent().unwrap();
        if folder.parent() != Some(root().join("crates").as_path()) {
            continue;
        }
        let name = folder.file_name().unwrap().to_str().unwrap();
        let Some(allowed) = allowed.get(name) else {
            offenders.push(format!("crates/{name} is not in the table of this test"));
            continue;
        };
        let own = package_of(name);
        for import in imports_of(&read(&manifest)) {
            // A crate's tests may ask for a feature of it.
            if import != own && !allowed.contains(&import.as_str()) {
                offenders.push(format!("crates/{name} imports {import}"));
            }
        }
    }
    assert_none("imports against the direction", &offenders);
}

#[test]
fn the_product_links_nothing_that_stands_beside_it() {
    let product: Vec<String> = PRODUCT.iter().map(|folder| package_of(folder)).collect();
    let is_linked =
        |section: &str| section.contains("dependencies") && !section.contains("dev-dependencies");
    let mut offenders = Vec::new();
    for folder in PRODUCT {
        let manifest = read(&root().join("crates").join(folder).join("Cargo.toml"));
        for import in imports_in(&manifest, is_linked) {
            if !product.contains(&import) {
                offenders.push(format!("crates/{folder} links {import}"));
            }
        }
    }
    assert_none("the product is built without these", &offenders);
}

#[test]
fn what_ships_keeps_to_the_library_s_stable_interface() {
    let enables = |folder: &&&str| {
        let manifest = read(&root().join("crates").join(**folder).join("Cargo.toml"));
        let is_enabled = |line: &str| line.contains("\"unstable-") && line.contains("features");
        // The library's own tests look into it.
        let (linked, _) = manifest
            .split_once("[dev-dependencies]")
            .unwrap_or((&manifest, ""));
        let tests_too = match **folder {
            "cache" => linked,
            _ => &manifest,
        };
        tests_too.lines().any(is_enabled)
    };
    let offenders: Vec<String> = PRODUCT
        .iter()
        .filter(enables)
        .map(|f| package_of(f))
        .collect();
    assert_none("crates that ship enable an unstable feature", &offenders);
}

#[test]
fn every_form_of_import_is_seen() {
    let manifest = "[dependencies]\nforebay.workspace = true\n[target.'cfg(unix)'.dev-dependencies]\n\
                    forebay-serve = { path = \"x\" }\n[dependencies.forebay-cli]\npath = \"y\"\n\
                    [lib]\nname = \"forebay\"\n";
    assert_eq!(
        imports_of(manifest),
        ["forebay", "forebay-serve", "forebay-cli"]
    );
    let linked = imports_in(manifest, |section| !section.contains("dev-"));
    assert_eq!(linked, ["forebay", "forebay-cli"]);
}

#[test]
fn files_stay_short() {
    let offenders: Vec<_> = rust_files()
        .iter()
        .map(|path| (path, read(path).lines().count()))
        .filter(|(_, lines)| *lines > FILE_LINES_MAX)
        .map(|(path, lines)| format!("{}: {lines} lines", shown(path)))
        .collect();
    assert_none("split these files by idea", &offenders);
}

#[test]
fn files_open_with_what_they_guarantee() {
    let offenders: Vec<_> = rust_files()
        .iter()
        .filter(|path| {
            let text = read(path);
            // Attributes of the crate, like no_main, may stand before it.
            let first = text
                .lines()
                .find(|line| !line.is_empty() && !line.starts_with("#!["));
            !first.is_some_and(|line| line.starts_with("//!"))
        })
        .map(|path| shown(path))
        .collect();
    assert_none("these files do not open with a //! comment", &offenders);
}

#[test]
fn nothing_is_left_to_do() {
    // Put together here so that this file does not accuse itself.
    let marks = [
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("XX", "X"),
    ];
    let mut offenders = Vec::new();
    for path in files(|path| {
        has_extension(path, &["rs", "md", "sh", "toml", "py", "h", "c"])
            || path.ends_with("Makefile")
    }) {
        for (index, line) in read(&path).lines().enumerate() {
            let mut words = line.split(|letter: char| !letter.is_alphanumeric());
            if words.any(|word| marks.contains(&word)) {
                offenders.push(format!("{}:{}", shown(&path), index + 1));
            }
        }
    }
    assert_none("finish these or make them issues", &offenders);
}

#[test]
fn no_source_file_is_dead() {
    let sources = rust_files();
    let mut offenders = Vec::new();
    for path in &sources {
        let stem = path.file_stem().unwrap().to_str().unwrap();
        let folder = path.parent().unwrap();
        let is_target = ["main", "lib", "mod", "build", "tidy"].contains(&stem)
            || ["bin", "tests", "examples", "benches", "fuzz_targets"]
                .iter()
                .any(|name| folder.ends_with(name));
        let declaration = format!("mod {stem};");
        let included = format!("{stem}.rs\"");
        let is_declared = || {
            sources
                .iter()
                .map(|other| read(other))
                .any(|text| text.contains(&declaration) || text.contains(&included))
        };
        if !is_target && !is_declared() {
            offenders.push(shown(path));
        }
    }
    assert_none("no module declares these files", &offenders);
}

/// Targets of the inline links of a page, code blocks left out.
fn links_of(page: &str) -> Vec<String> {
    let mut is_code = false;
    let mut links = Vec::new();
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        if is_code {
            continue;
        }
        for part in line.split("](").skip(1) {
            if let Some(target) = part.split(')').next() {
                links.push(target.to_owned());
            }
        }
    }
    links
}

/// The anchor a heading gets on the usual renderers.
fn anchor_of(heading: &str) -> String {
    heading
        .trim_start_matches('#')
        .trim()
        .to_lowercase()
        .chars()
        .filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter))
        .map(|letter| if letter == ' ' { '-' } else { letter })
        .collect()
}

#[test]
fn links_in_the_documentation_lead_somewhere() {
    let mut offenders = Vec::new();
    for page in files(|path| has_extension(path, &["md"])) {
        for link in links_of(&read(&page)) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = if file.is_empty() {
                page.clone()
            } else {
                page.parent().unwrap().join(file)
            };
            let has_anchor = || {
                read(&target)
                    .lines()
                    .any(|line| line.starts_with('#') && anchor_of(line) == anchor)
            };
            if !target.exists() || (!anchor.is_empty() && !has_anchor()) {
                offenders.push(format!("{}: {link}", shown(&page)));
            }
        }
    }
    assert_none("broken links", &offenders);
}

#[test]
fn pages_that_the_sources_name_exist() {
    let mut offenders = Vec::new();
    for path in files(|path| has_extension(path, &["rs", "sh", "toml", "service", "h", "c"])) {
        for part in read(&path).split("docs/").skip(1) {
            let page: String = part
                .chars()
                .take_while(|letter| letter.is_ascii_lowercase() || "-/.".contains(*letter))
                .collect();
            let page = page.trim_end_matches('.');
            if page.ends_with(".md") && !root().join("docs").join(page).exists() {
                offenders.push(format!("{}: docs/{page}", shown(&path)));
            }
        }
    }
    assert_none("no such page", &offenders);
}

/// The one function that syncs a backing for the cache tells every round of write-back that its sync
/// failed; a sync beside it would keep the failure to itself.
#[test]
fn one_function_of_the_cache_syncs_backings() {
    let cache = root().join("crates/cache/src");
    let may_sync = [cache.join("background/health.rs"), cache.join("backing")];
    let is_bound = |path: &PathBuf| {
        path.starts_with(&cache)
            && !path.ends_with("tests.rs")
            && !may_sync.iter().any(|allowed| path.starts_with(allowed))
    };
    let mut offenders = Vec::new();
    for path in rust_files().into_iter().filter(is_bound) {
        // Not a backing's: the flush of a pool on an SSD, and the volume's call for it.
        let source = read(&path)
            .replace("log.sync()", "")
            .replace("volume.sync()", "");
        for (number, line) in source.lines().enumerate() {
            if [".sync()", ".sync_parts()", "::sync(", "::sync_parts("]
                .iter()
                .any(|call| line.contains(call))
            {
                offenders.push(format!("{}:{}", shown(&path), number + 1));
            }
        }
    }
    assert_none("sync backings through `Health::sync_since`", &offenders);
}

/// Modules of `crate::` that a source names, comments and unit tests aside.
fn modules_named(source: &str) -> Vec<&str> {
    let code = source.split("#[cfg(test)]").next().unwrap();
    let lines = code
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    let after = lines.flat_map(|line| line.split("crate::").skip(1));
    let is_end = |letter: char| !(letter.is_ascii_lowercase() || letter == '_');
    after
        .filter_map(|rest| rest.split(is_end).next())
        .filter(|name| !name.is_empty())
        .collect()
}

/// Each layer of the library calls only those below it: what a line may touch, its folder says.
#[test]
fn layers_of_the_library_point_one_way() {
    let cache = root().join("crates/cache/src");
    let mut offenders = Vec::new();
    for (layer, allowed) in LAYERS {
        let folder = cache.join(layer);
        let is_in = |path: &PathBuf| path.starts_with(&folder) && !path.ends_with("tests.rs");
        for path in rust_files().into_iter().filter(is_in) {
            for named in modules_named(&read(&path)) {
                let is_layer = LAYERS.iter().any(|(other, _)| *other == named);
                if is_layer && named != *layer && !allowed.contains(&named) {
                    offenders.push(format!("{}: names {named}", shown(&path)));
                }
            }
        }
    }
    assert_none("a layer names only those below it", &offenders);
}

/// The files below all layers name none of them, but for what tests and users look in from above.
#[test]
fn files_below_the_layers_name_no_layer() {
    let cache = root().join("crates/cache/src");
    let is_below = |path: &PathBuf| {
        path.parent() == Some(&cache) && !path.ends_with("lib.rs") && !path.ends_with("testing.rs")
    };
    let mut offenders = Vec::new();
    for path in rust_files().into_iter().filter(is_below) {
        for named in modules_named(&read(&path)) {
            if LAYERS.iter().any(|(layer, _)| *layer == named) {
                offenders.push(format!("{}: names {named}", shown(&path)));
            }
        }
    }
    assert_none("files below the layers name none of them", &offenders);
}
