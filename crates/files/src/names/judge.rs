//! Whether others changed an inode after all that the log tells of it. Then they decide about its attributes, as far as that
//! takes rights away.
//!
//! The kernel moves an inode's time of change (ctime) with every change, and a file system makes both durable together. So what has
//! no later one than the log knows was changed by nobody since: the backing has what the log tells, or lost it. A later
//! one alone says little, since write-back moves it too, and so does recovery: the attributes have to be others than told as
//! well. Of a time of modification, which write-back moves, that is decided by when the machine started.

use std::collections::BTreeSet;
use std::io;

use super::attributes::Moment;
use super::locate::Located;
use super::permit::Permits;
use super::record::Record;
use super::space::{NameSpace, Seen};
use super::subjects::{Held, hold_same, wanted};
use super::table::{Node, Table};
use crate::metadata::FileId;
use crate::mutants::{Mutant, mutated};

/// The inodes that others changed. Which those are is recorded before recovery changes anything: it moves their times of
/// change. Where the log has no room for that, the next recovery decides anew, and takes what this one did for others'. The
/// root is not among them: Forebay's own mark is there.
///
/// # Errors
/// The pool's.
pub(super) fn judge<S: NameSpace>(
    space: &S,
    table: &Table,
    now: &Located<S::Handle>,
    permits: &mut Permits<'_>,
) -> io::Result<BTreeSet<FileId>> {
    let mut others = BTreeSet::new();
    let mut fresh = Vec::new();
    let mut is_any = false;
    for (id, node) in table.nodes() {
        let Some(seen) = now.seen.get(&id) else {
            continue;
        };
        let wanted = wanted(node);
        if now.is_unbroken(node) || wanted.is_empty() {
            continue;
        }
        is_any = true;
        if id == FileId::ROOT || mutated(Mutant::FilesOthersChangesUndone) {
            continue;
        }
        if table.others.contains(&id) {
            others.insert(id);
        } else if is_others(space, table, now, (id, node), seen) {
            others.insert(id);
            fresh.push(id);
        }
    }
    if is_any {
        let told = fresh.chunks(super::media::IDS_MAX);
        let told = told.map(|ids| Record::Others { ids: ids.to_vec() });
        permits.begin_attempt(space, told)?;
    }
    Ok(others)
}

fn is_others<S: NameSpace>(
    space: &S,
    table: &Table,
    now: &Located<S::Handle>,
    (id, node): (FileId, &Node),
    seen: &Seen,
) -> bool {
    let wanted = wanted(node);
    let known_ns = wanted.changed().map(Moment::ns);
    let is_later = known_ns.is_none_or(|known_ns| seen.changed_ns > known_ns);
    if !is_later || is_recoverys(space, table, seen.changed_ns) {
        return false;
    }
    // In an earlier boot than this one write-back may have moved it.
    let is_time_others = wanted.is_time_moved(seen) && seen.changed_ns >= space.booted_ns();
    wanted.has_other_rights(seen)
        || is_time_others
        || match hold_same(space, now, id) {
            Ok(Held::It(handle)) => wanted.has_other_values(space, &handle).unwrap_or(true),
            // What is not there any more gets nothing.
            _ => false,
        }
}

/// Whether a recovery was at work then. One that was killed was so until its boot ended, for all that is known.
fn is_recoverys<S: NameSpace>(space: &S, table: &Table, changed_ns: i128) -> bool {
    table.attempts.iter().any(|attempt| {
        let has_begun = attempt.from.ns() <= changed_ns;
        let lasts = match attempt.to {
            Some(to) => changed_ns <= to.ns(),
            None => attempt.boot == space.boot() || changed_ns < space.booted_ns(),
        };
        has_begun && lasts
    })
}
