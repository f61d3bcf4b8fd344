//! After a crash: what the pool has of files goes to them, before anything else is done.
//!
//! The order: names first; then each file is cut if a cut of it may be missing, given its size, and
//! written to; all of it is made durable; then the pool forgets it, and the names last. A crash
//! anywhere in this leads through it again, to the same files.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use forebay::Volume;

use crate::errors::from_pool;
use crate::metadata::FileId;
use crate::naming::{Found, NamesRecovery};
use crate::segments::{self, Owner, SEGMENT_BLOCKS_SHIFT, SegmentTable};
use crate::sizes::{Row, RowCut, SizeTable};
use crate::store::{Mapping, VirtualStore};
use crate::target::Target;

/// Rows or segments that one transaction frees.
const FREED_AT_ONCE: usize = 64;

/// What recovery did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilesRecovery {
    /// Files that had data or a size in the pool.
    pub files: u64,
    /// Blocks that were written to them.
    pub blocks_written: u64,
    /// Files that had been removed; their data was dropped.
    pub removed: u64,
    /// Files that were nowhere; their data was saved to these.
    pub saved_to: Vec<PathBuf>,
    /// Changes of names that were made.
    pub names_changed: u64,
    /// What the directory had lost and was made anew, below the root.
    pub names_made: Vec<PathBuf>,
    /// What could not be brought about, in words.
    pub complaints: Vec<String>,
}

/// What the tables and the pool have.
pub(crate) struct Recovery<'a> {
    pub(crate) volume: &'a Volume,
    pub(crate) store: &'a Arc<VirtualStore>,
    pub(crate) sizes: &'a SizeTable,
    pub(crate) segments: &'a SegmentTable,
    pub(crate) rows: Vec<(u32, Row)>,
    pub(crate) owned: Vec<(u32, Owner)>,
    /// Where data goes whose file is nowhere; without, that is an error.
    pub(crate) lost_and_found: Option<PathBuf>,
}

impl Recovery<'_> {
    /// Does it all.
    ///
    /// # Errors
    /// The backing's and the pool's; a file that is nowhere. Everything is still in the pool then.
    pub(crate) fn run(self, names: &mut dyn NamesRecovery) -> io::Result<FilesRecovery> {
        names.recover()?;
        let mut report = FilesRecovery::default();
        let targets = self.find_targets(names, &mut report)?;
        let mut blocks = Vec::new();
        self.volume.cached_blocks(|block, is_dirty| {
            if block >> SEGMENT_BLOCKS_SHIFT != 0 {
                blocks.push(block);
                report.blocks_written += u64::from(is_dirty);
            }
        });
        let flushed = self.volume.flush_blocks(blocks.iter().copied());
        flushed.map_err(from_pool)?;
        for target in targets.values() {
            target.sync_all()?;
        }
        self.volume.forget_blocks(blocks).map_err(from_pool)?;
        self.free_tables()?;
        names.finish()?;
        Ok(report)
    }

    /// Opens every file that the tables tell of, with its size, and maps its segments.
    fn find_targets(
        &self,
        names: &mut dyn NamesRecovery,
        report: &mut FilesRecovery,
    ) -> io::Result<HashMap<FileId, Arc<Target>>> {
        let mut targets = HashMap::new();
        for (number, row) in &self.rows {
            self.store.cuts.know_epoch(row.cut.epoch);
            report.files += 1;
            let descriptor = match names.open(row.id)? {
                Found::Open(descriptor) => descriptor,
                Found::Removed => {
                    report.removed += 1;
                    continue;
                }
                Found::Missing(name) => self.save_to(row.id, &name, report)?,
            };
            let target = Arc::new(Target::new(descriptor)?);
            self.bring_to_size(&target, *number, row)?;
            targets.insert(row.id, target);
        }
        for (segment, Owner { id, part }) in &self.owned {
            if let Some(target) = targets.get(id) {
                let (target, part) = (target.clone(), *part);
                self.store.map(*segment, Mapping { target, part });
            }
        }
        Ok(targets)
    }

    /// Cuts the file unless that is known to be done, and gives it its size. The cut is known to be
    /// durable before anything is written behind it.
    fn bring_to_size(&self, target: &Target, number: u32, row: &Row) -> io::Result<()> {
        let cuts = &self.store.cuts;
        let is_open = |cut: &&RowCut| cut.epoch > 0 && !cuts.is_done(number, cut.epoch);
        let open = [row.cut, row.earlier_cut];
        let shortest = open.iter().filter(is_open).map(|cut| cut.size_bytes).min();
        if let Some(size_bytes) = shortest {
            if size_bytes < target.size_bytes() {
                target.truncate(size_bytes, None)?;
            }
            target.sync_all()?;
            cuts.done(number, row.cut.epoch)?;
        }
        if row.size_bytes > target.size_bytes() {
            target.truncate(row.size_bytes, None)?;
        }
        Ok(())
    }

    fn save_to(&self, id: FileId, name: &str, report: &mut FilesRecovery) -> io::Result<OwnedFd> {
        let Some(lost_and_found) = &self.lost_and_found else {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                format!(
                    "{name}: the pool has acknowledged data of this file, but it is gone and nobody \
                     removed it through Forebay; put it back under this name, or open the pool with \
                     force to have its data saved beside the pool"
                ),
            ));
        };
        let mut path = lost_and_found.clone().into_os_string();
        path.push(format!(".lost-{}", id.0));
        let path = PathBuf::from(path);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)?;
        report.saved_to.push(path);
        Ok(file.into())
    }

    /// No row and no segment is anybody's any more.
    fn free_tables(&self) -> io::Result<()> {
        for part in self.owned.chunks(FREED_AT_ONCE) {
            let mut transaction = self.volume.begin();
            for (segment, _) in part {
                segments::write_owner(&mut transaction, *segment, None)?;
            }
            transaction.commit().map_err(from_pool)?;
            for (segment, _) in part {
                self.store.unmap(*segment);
                self.segments.give(*segment);
            }
        }
        for part in self.rows.chunks(FREED_AT_ONCE) {
            let mut transaction = self.volume.begin();
            for (number, _) in part {
                self.sizes.write(&mut transaction, *number, None)?;
            }
            transaction.commit().map_err(from_pool)?;
            part.iter().for_each(|(number, _)| self.sizes.give(*number));
        }
        Ok(())
    }
}
