//! Whether others changed an inode after all that the log tells of it. Then they decide about its attributes, as far as that
//! takes rights away.
//!
//! The kernel moves an inode's time of change (ctime) with every change, and a file system makes both durable together. So what has
//! no later one than the log knows was changed by nobody since: the backing has what the log tells, or lost it. A later
//! one alone says little, since write-back moves it too, and so does recovery: the attributes have to be others than told as
//! well.

use std::collections::BTreeMap;
use std::io;

use super::attributes::{Attributes, Theirs};
use super::locate::{Held, Located, hold_same};
use super::media::IDS_MAX;
use super::record::Record;
use super::recovery_log::RecoveryLog;
use super::space::{NameSpace, Seen};
use super::table::Table;
use crate::metadata::FileId;
use crate::mutants::{Mutant, mutated};

/// What others changed of inodes. That is recorded before recovery changes anything: it moves their times of
/// change. Where the log has no room for that, the next recovery decides anew, and takes what this one did for others'.
///
/// # Errors
/// The pool's.
pub(super) fn judge<S: NameSpace>(
    space: &S,
    table: &Table,
    now: &Located<S::Handle>,
    log: &mut RecoveryLog<'_>,
) -> io::Result<BTreeMap<FileId, Theirs>> {
    let mut others = BTreeMap::new();
    let mut fresh: BTreeMap<Theirs, Vec<FileId>> = BTreeMap::new();
    let mut is_any = false;
    for (id, node) in table.nodes() {
        let Some(seen) = now.seen.get(&id) else {
            continue;
        };
        let wanted = node.wanted();
        if now.is_unbroken(node) || wanted.is_empty() {
            continue;
        }
        is_any = true;
        // Others may have come to it again since an earlier recovery.
        let known = table.others.get(&id).copied().unwrap_or_default();
        let mut theirs = theirs(space, table, now, (id, &wanted), seen);
        // One that it was made with it had from the start.
        let is_told = node.attributes.rights.is_some();
        theirs.restarted = theirs.rights && is_told && seen.changed_ns >= space.booted_ns();
        let theirs = known.and(theirs);
        if !theirs.is_nothing() {
            others.insert(id, theirs);
        }
        if theirs != known {
            fresh.entry(theirs).or_default().push(id);
        }
    }
    if is_any {
        let told = fresh.iter().flat_map(|(theirs, ids)| {
            let told = ids.chunks(IDS_MAX);
            told.map(|ids| Record::Others {
                theirs: *theirs,
                ids: ids.to_vec(),
            })
        });
        log.begin_attempt(space, told)?;
    }
    Ok(others)
}

fn theirs<S: NameSpace>(
    space: &S,
    table: &Table,
    now: &Located<S::Handle>,
    (id, wanted): (FileId, &Attributes),
    seen: &Seen,
) -> Theirs {
    let is_later = wanted
        .changed
        .is_none_or(|known_ns| seen.changed_ns > known_ns);
    if !is_later
        || is_recoverys(space, table, seen.changed_ns)
        || mutated(Mutant::FilesOthersChangeUndone)
    {
        return Theirs::default();
    }
    let rights = wanted.has_other_rights(seen);
    Theirs {
        rights,
        restarted: false,
        values: rights
            || match hold_same(space, now, id) {
                Ok(Held::It(handle)) => has_other_values(space, &handle, wanted).unwrap_or(true),
                // What is not there any more gets nothing.
                _ => false,
            },
    }
}

fn has_other_values<S: NameSpace>(
    space: &S,
    handle: &S::Handle,
    wanted: &Attributes,
) -> io::Result<bool> {
    for (name, value) in &wanted.values {
        if space.value(handle, name)? != *value {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a recovery was at work then. One that was killed was so until its boot ended, for all that is known.
fn is_recoverys<S: NameSpace>(space: &S, table: &Table, changed_ns: i128) -> bool {
    table.attempts.iter().any(|attempt| {
        let lasts = match attempt.to {
            Some(to) => changed_ns <= to,
            None => attempt.boot == space.boot() || changed_ns < space.booted_ns(),
        };
        attempt.from <= changed_ns && lasts
    })
}
