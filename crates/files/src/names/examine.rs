//! What others changed after the machine had started again, before recovery began: it is as they want it to be.

use std::io;
use std::path::PathBuf;

use super::locate::Located;
use super::media::Record;
use super::space::NameSpace;
use super::table::Table;
use crate::metadata::FileId;

/// An inode whose attributes stay as others made them.
pub(super) struct Other {
    pub id: FileId,
    path: PathBuf,
}

impl Other {
    pub fn complaint(&self) -> String {
        format!(
            "{}: it was changed without us since the machine started: its attributes stay as they are",
            self.path.display()
        )
    }
}

/// What the log tells of attributes was done in an earlier boot. An inode that was changed in this one was changed by
/// others, as long as recovery has changed nothing: so that is seen once in a boot, and `record` is told. Not the root, where
/// Forebay's own mark is.
///
/// # Errors
/// `record`'s.
pub(super) fn examine<S: NameSpace>(
    space: &S,
    table: &Table,
    now: &Located<S::Handle>,
    record: &mut dyn FnMut(Record) -> io::Result<()>,
) -> io::Result<Vec<Other>> {
    let Some(boot) = now.boot.filter(|boot| table.examined != Some(*boot)) else {
        return Ok(Vec::new());
    };
    let told_of = table.nodes().filter(|(id, node)| {
        let is_rebooted = now.rebooted.contains(&node.identity().device);
        *id != FileId::ROOT && is_rebooted && !node.attributes.is_empty()
    });
    let told_of: Vec<FileId> = told_of.map(|(id, _)| id).collect();
    if told_of.is_empty() {
        return Ok(Vec::new());
    }
    let started_ns = space.durable_before_ns();
    let is_changed = |id: &FileId| {
        let seen = now.seen.get(id);
        seen.is_some_and(|seen| seen.changed_ns > started_ns)
    };
    let mut others = Vec::new();
    for id in told_of.into_iter().filter(is_changed) {
        record(Record::Settled { id })?;
        let node = table.node(id).expect("it was just looked at");
        let found = now.at.get(&id).and_then(|at| at.first());
        let place = found.or_else(|| node.names.first());
        let path = place.map_or_else(PathBuf::new, |place| table.path_of(place));
        others.push(Other { id, path });
    }
    record(Record::Examined { boot })?;
    Ok(others)
}
