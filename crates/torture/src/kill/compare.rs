//! What is in the directory after a kill, against what may be there.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use forebay_harness::Result;
use forebay_harness::files::{self, Kind as Found, Numbers, ROOT, Thing};

use super::operation::{Kind, Operation};
use super::tree::Tree;

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
            candidate.keep_unsynced();
        }
        match candidate.model.allows(&found) {
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

/// What was left of files that were not synced is what they have now.
fn adopt(found: &files::Tree, tree: &mut Tree) {
    for (path, inode) in found.paths() {
        let id = tree.model.names[&path];
        if let (Some(Thing::File(file)), Some(bytes)) =
            (tree.model.things.get_mut(&id), found.content(inode))
            && file.is_any
        {
            *file = files::File::new(bytes.to_vec());
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
            Some((_, Kind::Append)) => tree.open_bytes(*slot).map_or(0, <[u8]>::len),
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

/// Everything at and below `root`. The system tells as many links and bytes of a file as are found of it.
fn look(directory: &Path, root: &str) -> Result<files::Tree> {
    let named = |error| format!("{}: {error}", directory.display());
    let mut found = files::Tree::read(directory, &Numbers::default()).map_err(named)?;
    let mut others = found.names.keys().cloned().collect::<Vec<_>>();
    others.retain(|(parent, name)| *parent == ROOT && name.to_str() != Some(root));
    for other in others {
        found.names.remove(&other);
    }
    let paths = found.paths();
    for (path, inode) in &paths {
        let Found::File(bytes) = &found.nodes[inode].kind else {
            continue;
        };
        let name = path.display();
        let about = std::fs::symlink_metadata(directory.join(path))?;
        let links = paths.values().filter(|other| *other == inode).count() as u64;
        if about.nlink() != links {
            return Err(format!("{name}: {} links, not {links}", about.nlink()).into());
        }
        if about.len() != bytes.len() as u64 {
            let (read, told) = (bytes.len(), about.len());
            return Err(format!("{name}: {read} bytes read, {told} told").into());
        }
    }
    Ok(found)
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
        assert!(error.to_string().contains("t/a is missing"), "{error}");
    }
}
