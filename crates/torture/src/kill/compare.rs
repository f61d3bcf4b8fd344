//! What is in the directory after a kill, against what may be there.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::operation::{Kind, Operation};
use super::tree::{Node, Tree};
use forebay_harness::Result;

/// What a name leads to, and how many names that has.
type Found = BTreeMap<String, (Node, u64)>;

/// What is no loss.
#[derive(Clone, Copy, Debug, Default)]
pub struct May {
    /// Files that were not synced have any bytes: the disk's power was cut.
    pub lose_unsynced: bool,
    /// A write with `O_DSYNC` is there in part: a mount gets it in several requests where it begins
    /// within a page that the kernel has not read.
    pub tear_writes: bool,
}

/// Brings `tree` to what `directory` shows, if that is what the acknowledged operations make, with or
/// without the one that was not answered.
///
/// Errors: it is neither; the message says what differs.
pub fn settle(
    directory: &Path,
    root: &str,
    tree: &mut Tree,
    in_flight: Option<&Operation>,
    may: May,
) -> Result<()> {
    let found = look(directory, root)?;
    let mut all = vec![tree.clone()];
    if let Some(operation) = in_flight {
        all.extend(candidates(tree, operation, may));
    }
    let mut differences = Vec::new();
    for mut candidate in all {
        candidate.close_all();
        if !may.lose_unsynced {
            candidate.unsynced.clear();
        }
        match compare(&found, &candidate) {
            Ok(()) => {
                adopt(&found, &mut candidate);
                *tree = candidate;
                return Ok(());
            }
            Err(error) => differences.push(error),
        }
    }
    let mut text = format!("without it: {}", differences[0]);
    if let (Some(operation), Some(with)) = (in_flight, differences.get(1)) {
        let open = &tree.slots;
        text = format!("in flight: {operation:?}, open: {open:?}\n{text}\nwith it: {with}");
    }
    Err(text.into())
}

/// What was left of files that were not synced.
fn adopt(found: &Found, tree: &mut Tree) {
    for (name, id) in tree.names.clone() {
        if tree.unsynced.contains(&id) {
            tree.adopt(id, &found[&name].0);
        }
    }
}

/// What an operation that was cut short may have made. A write to a file that is buffered in the pool,
/// as one that is written with `O_DSYNC` always is, is all or nothing unless it may tear; others reach the file in order,
/// page by page.
fn candidates(tree: &Tree, operation: &Operation, may: May) -> Vec<Tree> {
    let mut lens = Vec::new();
    if let Operation::Write {
        slot, offset, len, ..
    } = operation
    {
        let start = match tree.slots[*slot] {
            Some((_, Kind::Append)) => tree.open_bytes(*slot).map_or(0, Vec::len),
            _ => *offset as usize,
        };
        let is_whole = !may.tear_writes && matches!(tree.slots[*slot], Some((_, Kind::DataSync)));
        let is_step = |len: &usize| !is_whole && (start + len).is_multiple_of(512);
        lens.extend((1..*len).filter(is_step));
    }
    let torn = lens.into_iter().map(|len| {
        let mut torn = tree.clone();
        torn.write(operation, len);
        torn
    });
    let mut whole = tree.clone();
    whole.apply(operation);
    std::iter::once(whole).chain(torn).collect()
}

/// Everything at and below `root`.
fn look(directory: &Path, root: &str) -> Result<Found> {
    let mut found = Found::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(name) = waiting.pop() {
        let path = directory.join(&name);
        let error = |error| format!("{}: {error}", path.display());
        let about = std::fs::symlink_metadata(&path).map_err(error)?;
        let mode = about.mode() & 0o7777;
        let node = if about.is_dir() {
            for entry in std::fs::read_dir(&path).map_err(error)? {
                let below = entry?.file_name();
                waiting.push(format!("{name}/{}", below.to_string_lossy()));
            }
            Node::Directory { mode }
        } else if about.is_symlink() {
            let target = std::fs::read_link(&path).map_err(error)?;
            Node::Link {
                target: target.to_string_lossy().into_owned(),
            }
        } else {
            let bytes = std::fs::read(&path).map_err(error)?;
            if bytes.len() as u64 != about.len() {
                let (read, told) = (bytes.len(), about.len());
                return Err(format!("{name}: {read} bytes read, {told} told").into());
            }
            Node::File { bytes, mode }
        };
        found.insert(name, (node, about.nlink()));
    }
    Ok(found)
}

/// Errors: they differ; the message says in what.
fn compare(found: &Found, tree: &Tree) -> Result<()> {
    let lost: Vec<&String> = tree
        .names
        .keys()
        .filter(|name| !found.contains_key(*name))
        .collect();
    let extra: Vec<&String> = found
        .keys()
        .filter(|name| !tree.names.contains_key(*name))
        .collect();
    if !lost.is_empty() || !extra.is_empty() {
        return Err(format!("names lost: {lost:?}, not to be there: {extra:?}").into());
    }
    for (name, id) in &tree.names {
        let (node, links) = &found[name];
        let wanted = &tree.nodes[id];
        let is_any = tree.unsynced.contains(id);
        compare_node(node, wanted, is_any).map_err(|error| format!("{name}: {error}"))?;
        let wanted_links = tree.link_count(*id);
        if matches!(node, Node::File { .. }) && *links != wanted_links {
            return Err(format!("{name}: {links} links, not {wanted_links}").into());
        }
    }
    Ok(())
}

fn compare_node(found: &Node, wanted: &Node, has_any_bytes: bool) -> Result<()> {
    let is_same = match (found, wanted) {
        (Node::File { mode, .. }, Node::File { mode: other, .. }) if has_any_bytes => mode == other,
        _ => found == wanted,
    };
    if is_same {
        return Ok(());
    }
    let short = |node: &Node| match node {
        Node::File { bytes, mode } => format!("a file of {} bytes, mode {mode:o}", bytes.len()),
        other => format!("{other:?}"),
    };
    let mut text = format!("{}, not {}", short(found), short(wanted));
    if let (Node::File { bytes: found, .. }, Node::File { bytes: wanted, .. }) = (found, wanted) {
        let is_bad = |at: &usize| found.get(*at) != wanted.get(*at);
        let len = found.len().max(wanted.len());
        if let Some(first) = (0..len).find(is_bad) {
            let last = (0..len).rev().find(is_bad).unwrap_or(first);
            let zeroes = (first..=last)
                .filter(|at| found.get(*at) == Some(&0))
                .count();
            text += &format!("; bytes {first} to {last} differ, {zeroes} of them are 0");
        }
    }
    Err(text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(kind: Kind) -> (Tree, Operation) {
        let mut tree = Tree::new("t");
        let path = "t/a".to_owned();
        tree.apply(&Operation::Create {
            slot: 0,
            path,
            mode: 0o600,
            kind,
        });
        (
            tree,
            Operation::Write {
                slot: 0,
                offset: 0,
                len: 5000,
                seed: 3,
            },
        )
    }

    fn show(folder: &Path, bytes: &[u8]) {
        use std::os::unix::fs::PermissionsExt;
        std::fs::create_dir_all(folder.join("t")).expect("made");
        let path = folder.join("t/a");
        std::fs::write(&path, bytes).expect("written");
        let modes = [(folder.join("t"), 0o755), (path, 0o600)];
        for (path, mode) in modes {
            std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("set");
        }
    }

    #[test]
    fn a_write_in_flight_is_there_or_not_and_torn_only_where_it_may() {
        let folder = tempfile::tempdir().expect("a folder");
        let whole = super::super::operation::bytes(3, 5000);
        for (kind, shown, is_fine) in [
            (Kind::Plain, 0, true),
            (Kind::Plain, 5000, true),
            (Kind::Plain, 4096, true),
            (Kind::Plain, 4097, false),
            (Kind::DataSync, 5000, true),
            (Kind::DataSync, 4096, false),
        ] {
            show(folder.path(), &whole[..shown]);
            let (mut tree, operation) = write(kind);
            let outcome = settle(
                folder.path(),
                "t",
                &mut tree,
                Some(&operation),
                May::default(),
            );
            assert_eq!(outcome.is_ok(), is_fine, "{kind:?} {shown} {outcome:?}");
        }
    }

    #[test]
    fn a_lost_name_and_a_lost_byte_are_said() {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut tree, operation) = write(Kind::Plain);
        tree.apply(&operation);
        show(folder.path(), &[0; 5000]);
        let error = settle(folder.path(), "t", &mut tree.clone(), None, May::default())
            .expect_err("zeroes");
        assert!(error.to_string().contains("t/a"), "{error}");
        std::fs::remove_file(folder.path().join("t/a")).expect("removed");
        let error = settle(folder.path(), "t", &mut tree, None, May::default()).expect_err("lost");
        assert!(
            error.to_string().contains("names lost: [\"t/a\"]"),
            "{error}"
        );
    }
}
