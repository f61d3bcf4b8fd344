//! After a crash: what the pool has of files goes to them, before anything else is done.
//!
//! The order: names first; then each file is cut if a cut of it may be missing, given its size, and
//! written to; all of it is made durable; then the pool forgets it, and the names last. A crash
//! anywhere in this leads through it again, to the same files.

use std::collections::{HashMap, HashSet};
use std::fs::OpenOptions;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
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

/// The files that the tables tell of.
struct Targets {
    found: HashMap<FileId, Arc<Target>>,
    /// Those that are nowhere, with what is known of their names.
    missing: Vec<(FileId, String)>,
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
        names.recover(&self.rows.iter().map(|(_, row)| row.id).collect())?;
        let mut report = FilesRecovery::default();
        let Targets { found, missing } = self.find_targets(names, &mut report)?;
        self.store.ready();
        let is_kept = |id: &FileId| missing.iter().any(|(missing, _)| missing == id);
        let kept_segments = self.owned.iter().filter(|(_, owner)| is_kept(&owner.id));
        let kept: HashSet<u64> = kept_segments
            .map(|(number, _)| u64::from(*number))
            .collect();
        let mut blocks = Vec::new();
        self.volume.cached_blocks(|block, is_dirty| {
            let segment = block >> SEGMENT_BLOCKS_SHIFT;
            if segment != 0 && !kept.contains(&segment) {
                blocks.push(block);
                report.blocks_written += u64::from(is_dirty);
            }
        });
        let flushed = self.volume.flush_blocks(blocks.iter().copied());
        flushed.map_err(from_pool)?;
        for target in found.values() {
            target.sync_all()?;
        }
        self.volume.forget_blocks(blocks).map_err(from_pool)?;
        self.free_tables(&is_kept)?;
        if let Some((_, name)) = missing.first() {
            // All others are where they belong, whatever becomes of this one.
            return Err(gone(name));
        }
        names.finish()?;
        Ok(report)
    }

    /// Opens every file that the tables tell of, with its size, and maps its segments.
    fn find_targets(
        &self,
        names: &mut dyn NamesRecovery,
        report: &mut FilesRecovery,
    ) -> io::Result<Targets> {
        let mut targets = HashMap::new();
        let mut missing = Vec::new();
        for (number, row) in &self.rows {
            self.store.cuts.know_epoch(row.cut.epoch);
            report.files += 1;
            let descriptor = match names.open(row.id)? {
                Found::Open(descriptor) => descriptor,
                Found::Removed => {
                    report.removed += 1;
                    continue;
                }
                Found::Missing(name) => match &self.lost_and_found {
                    Some(place) => save_to(place, row.id, report)?,
                    None => {
                        missing.push((row.id, name));
                        continue;
                    }
                },
            };
            let target = Arc::new(Target::new(descriptor)?);
            self.bring_to_size(&target, *number, row)?;
            targets.insert(row.id, target);
        }
        for (segment, Owner { id, part }) in &self.owned {
            if let Some(target) = targets.get(id) {
                let (target, part) = (target.clone(), *part);
                self.store.map(*segment, Mapping { target, part });
            } else if missing.iter().any(|(missing, _)| missing == id) {
                self.store.keep(*segment);
            }
        }
        Ok(Targets {
            found: targets,
            missing,
        })
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

    /// No row and no segment is anybody's any more but of files that are kept.
    fn free_tables(&self, is_kept: &dyn Fn(&FileId) -> bool) -> io::Result<()> {
        let owned = self.owned.iter().filter(|(_, owner)| !is_kept(&owner.id));
        let owned: Vec<&(u32, Owner)> = owned.collect();
        for part in owned.chunks(FREED_AT_ONCE) {
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
        let rows = self.rows.iter().filter(|(_, row)| !is_kept(&row.id));
        let rows: Vec<&(u32, Row)> = rows.collect();
        for part in rows.chunks(FREED_AT_ONCE) {
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

/// What to say of a file that is nowhere.
fn gone(name: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::NotFound,
        format!(
            "{name}: the pool has acknowledged data of this file, but it is gone and nobody removed it \
             through Forebay; put it back under this name, or open the pool with force to have its \
             data saved beside the pool"
        ),
    )
}

/// A file beside the pool for the data of one that is nowhere.
fn save_to(lost_and_found: &Path, id: FileId, report: &mut FilesRecovery) -> io::Result<OwnedFd> {
    let mut path = lost_and_found.to_path_buf().into_os_string();
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
