//! Which paths are covered. Paths are compared as programs name them, made absolute: a symbolic link
//! on the way is not followed.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use glob::{MatchOptions, Pattern};

/// `*` and `?` stay within a name, `**` spans folders; names with a leading dot are like others.
const RULES: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: false,
};

/// The covered paths.
pub struct Cover {
    patterns: Vec<Pattern>,
    /// The pool, and what lies beside it with its name and a dot as the beginning, is never covered.
    pool: Vec<u8>,
}

impl Cover {
    /// The pattern of everything below a folder.
    pub fn below(folder: &Path) -> OsString {
        let mut pattern = Pattern::escape(&folder.to_string_lossy());
        if !pattern.ends_with('/') {
            pattern.push('/');
        }
        OsString::from(pattern + "**")
    }

    /// From globs separated by colons, relative ones below `here`; also the ones that are none.
    pub fn new(patterns: &OsStr, here: Option<&Path>, pool: &Path) -> (Cover, Vec<String>) {
        let mut cover = Cover {
            patterns: Vec::new(),
            pool: pool.as_os_str().as_bytes().to_vec(),
        };
        let mut refused = Vec::new();
        for text in patterns.to_string_lossy().split(':') {
            let absolute = match here {
                _ if text.is_empty() => continue,
                Some(here) if !text.starts_with('/') => {
                    let folder = Pattern::escape(&here.to_string_lossy());
                    format!("{}/{text}", folder.trim_end_matches('/'))
                }
                _ => text.to_owned(),
            };
            match Pattern::new(&absolute) {
                Ok(pattern) => cover.patterns.push(pattern),
                Err(_) => refused.push(text.to_owned()),
            }
        }
        (cover, refused)
    }

    /// Whether the absolute, plain path is covered.
    pub fn covers(&self, path: &[u8]) -> bool {
        if let Some(rest) = path.strip_prefix(&self.pool[..])
            && (rest.is_empty() || rest.starts_with(b"."))
        {
            return false;
        }
        let Ok(text) = std::str::from_utf8(path) else {
            return false;
        };
        self.patterns
            .iter()
            .any(|pattern| pattern.matches_with(text, RULES))
    }
}

/// `path` seen from the folder `base`, without `.`, `..` and doubled slashes.
pub fn absolute(base: &[u8], path: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(base.len() + path.len() + 1);
    let parts = [if path.starts_with(b"/") { b"" } else { base }, path];
    for name in parts
        .iter()
        .flat_map(|part| part.split(|byte| *byte == b'/'))
    {
        match name {
            b"" | b"." => {}
            b".." => plain.truncate(plain.iter().rposition(|byte| *byte == b'/').unwrap_or(0)),
            name => {
                plain.push(b'/');
                plain.extend_from_slice(name);
            }
        }
    }
    if plain.is_empty() {
        plain.push(b'/');
    }
    plain
}

/// The folder and the name of a path as the program gave it; none for one that ends in no name.
pub fn split(path: &[u8]) -> Option<(OsString, OsString)> {
    let cut = path.iter().rposition(|byte| *byte == b'/');
    let (folder, name) = match cut {
        Some(0) => (&b"/"[..], &path[1..]),
        Some(cut) => (&path[..cut], &path[cut + 1..]),
        None => (&b"."[..], path),
    };
    if matches!(name, b"" | b"." | b"..") {
        return None;
    }
    Some((
        OsString::from_vec(folder.to_vec()),
        OsString::from_vec(name.to_vec()),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cover(patterns: &str) -> Cover {
        Cover::new(
            OsStr::new(patterns),
            Some(Path::new("/work")),
            Path::new("/data/pool"),
        )
        .0
    }

    #[test]
    fn globs_cover_what_they_say() {
        let cover = cover("/data/**:db/*.log:/exact");
        for path in ["/data/a", "/data/a/b/.c", "/work/db/x.log", "/exact"] {
            assert!(cover.covers(path.as_bytes()), "{path}");
        }
        for path in [
            "/datas",
            "/work/db/x/y.log",
            "/work/x.log",
            "/exact/a",
            "/data/pool",
            "/data/pool.files",
        ] {
            assert!(!cover.covers(path.as_bytes()), "{path}");
        }
    }

    #[test]
    fn a_folder_with_odd_characters_is_taken_literally() {
        let pattern = Cover::below(Path::new("/a[b]*"));
        let cover = Cover::new(&pattern, None, Path::new("/p")).0;
        assert!(cover.covers(b"/a[b]*/x"));
        assert!(!cover.covers(b"/ab/x"));
        let everything = Cover::new(&Cover::below(Path::new("/")), None, Path::new("/p")).0;
        assert!(everything.covers(b"/x/y"));
        assert!(everything.covers(b"/project"), "not the pool's");
        assert!(!everything.covers(b"/p"));
        assert!(!everything.covers(b"/p.owner"));
    }

    #[test]
    fn a_bad_pattern_is_named() {
        let (_, refused) = Cover::new(OsStr::new("/a***:/b"), None, Path::new("/p"));
        assert_eq!(refused, ["/a***"]);
    }

    #[test]
    fn paths_become_plain() {
        for (base, path, plain) in [
            ("/a/b", "c", "/a/b/c"),
            ("/a/b", "../c//d/.", "/a/c/d"),
            ("/a", "/x/./y/../z", "/x/z"),
            ("/", "../..", "/"),
        ] {
            assert_eq!(absolute(base.as_bytes(), path.as_bytes()), plain.as_bytes());
        }
    }

    #[test]
    fn the_last_name_is_split_off() {
        let split = |path: &str| {
            super::split(path.as_bytes())
                .map(|(folder, name)| (folder.into_string().unwrap(), name.into_string().unwrap()))
        };
        let pair = |folder: &str, name: &str| Some((folder.to_owned(), name.to_owned()));
        assert_eq!(split("a"), pair(".", "a"));
        assert_eq!(split("/a"), pair("/", "a"));
        assert_eq!(split("b/c/a"), pair("b/c", "a"));
        assert_eq!(split("a/"), None);
        assert_eq!(split("a/.."), None);
    }
}
