//! After a crash: what the pool has of files goes to them, before anything else is done.
//!
//! The order: names first; then each file is cut if a cut of it may be missing, given its size, and
//! written to; all of it is made durable; then the pool forgets it, and the names last. A crash
//! anywhere in this leads through it again, to the same files.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::OpenOptions;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay::Volume;

use crate::errors::from_pool;
use crate::metadata::{FileId, SEGMENT_BLOCKS_SHIFT};
use crate::mutants::{Mutant, mutated};
use crate::naming::{Found, NamesRecovery, WithoutData};
use crate::page_cache::PageCache;
use crate::redirty::redirty;
use crate::segments::{self, Owner, SegmentTable};
use crate::sizes::{Row, RowCut, SizeTable};
use crate::store::{Mapping, VirtualStore};
use crate::target::Target;

/// Rows or segments that one transaction frees at most: each may lie in a block of its own.
const FREED_AT_ONCE: u64 = 64;

/// What recovery did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
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
    /// Attributes among them: those that were acknowledged and could not be restored, and those that others
    /// had changed.
    pub attributes_left: u64,
}

/// The files that the tables tell of.
#[derive(Default)]
struct Targets {
    found: BTreeMap<FileId, Arc<Target>>,
    /// Those that cannot have their data now, and why.
    kept: HashMap<FileId, io::Error>,
    /// Those whose data goes to files beside the pool.
    saved: HashSet<FileId>,
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
    /// The backing's and the pool's: everything is still in the pool then. A file that is nowhere or
    /// cannot be written: its own data is, all others have theirs.
    pub(crate) fn run(self, names: &mut dyn NamesRecovery) -> io::Result<FilesRecovery> {
        let done = self.everything(names);
        if done.is_err() {
            // Where the pool refuses this too, it counts as killed.
            let _ = names.rest();
        }
        done
    }

    fn everything(&self, names: &mut dyn NamesRecovery) -> io::Result<FilesRecovery> {
        names.recover(&self.rows.iter().map(|(_, row)| row.id).collect())?;
        let mut report = FilesRecovery::default();
        let mut targets = self.find_targets(names, &mut report);
        self.store.ready();
        self.distrust_syncs(names, &mut targets);
        self.write_back(names, &mut targets, &mut report);
        let (kept, mut saved) = (targets.kept, targets.saved);
        let is_kept = |id: &FileId| kept.contains_key(id);
        let blocks = self.blocks_without(&is_kept, |_| {});
        self.volume.forget_blocks(blocks).map_err(from_pool)?;
        self.free_tables(&is_kept)?;
        // All others are where they belong, whatever becomes of these.
        saved.retain(|id| !is_kept(id));
        let without = WithoutData {
            kept: kept.keys().copied().collect(),
            saved,
        };
        let restored = names.restore(&without, self.lost_and_found.is_some());
        match kept.is_empty() {
            true => restored?,
            false => return Err(told_of(kept)),
        }
        names.finish()?;
        Ok(report)
    }

    /// Opens every file that the tables tell of, with its size, and maps its segments.
    fn find_targets(&self, names: &mut dyn NamesRecovery, report: &mut FilesRecovery) -> Targets {
        let mut targets = Targets::default();
        for (number, row) in &self.rows {
            self.store.cuts.know_epoch(row.cut.epoch);
            report.files += 1;
            let target = match names.open(row.id) {
                Ok(Found::Removed) => {
                    report.removed += 1;
                    continue;
                }
                Ok(Found::Missing(name)) => Err(gone(&name)),
                Ok(Found::Open(descriptor)) => self
                    .opened(descriptor, *number, row)
                    .map_err(|error| refused(&names.name(row.id), &error)),
                Err(error) => Err(refused(&names.name(row.id), &error)),
            };
            let target = target.or_else(|why| {
                targets.saved.insert(row.id);
                self.lost_target(*number, row, why, report)
            });
            match target {
                Ok(target) => drop(targets.found.insert(row.id, target)),
                Err(why) => drop(targets.kept.insert(row.id, why)),
            }
        }
        for (segment, Owner { id, part }) in &self.owned {
            if let Some(target) = targets.found.get(id) {
                let (target, part) = (target.clone(), *part);
                self.store.map(*segment, Mapping { target, part });
            } else if targets.kept.contains_key(id) {
                self.store.keep(*segment);
            }
        }
        targets
    }

    /// The file under its own name: as it is if it was handed over, else prepared.
    fn opened(&self, file: OwnedFd, number: u32, row: &Row) -> io::Result<Arc<Target>> {
        if !is_handed_over(row, &file) {
            return self.prepared(file, number, row);
        }
        // Others may have cut it and written to it: only the disk may lack something.
        let target = Arc::new(Target::new(file)?);
        target.handed_over_to(u64::MAX);
        Ok(target)
    }

    /// The file, cut and as long as it has to be.
    fn prepared(&self, file: OwnedFd, number: u32, row: &Row) -> io::Result<Arc<Target>> {
        let target = Arc::new(Target::new(file)?);
        self.bring_to_size(&target, number, row)?;
        Ok(target)
    }

    /// Where the data goes of a file that cannot have it, if that is wanted.
    fn lost_target(
        &self,
        number: u32,
        row: &Row,
        why: io::Error,
        report: &mut FilesRecovery,
    ) -> io::Result<Arc<Target>> {
        let Some(place) = &self.lost_and_found else {
            return Err(why);
        };
        let saved = save_to(place, row.id)
            .and_then(|(path, file)| Ok((path, self.prepared(file, number, row)?)));
        match saved {
            Ok((path, target)) => {
                report.saved_to.push(path);
                Ok(target)
            }
            Err(error) => Err(io::Error::new(
                why.kind(),
                format!("{why}; nor could it be saved: {error}"),
            )),
        }
    }

    /// Blocks of files but those that are kept; `visit` is called for the dirty ones.
    fn blocks_without(
        &self,
        is_kept: &dyn Fn(&FileId) -> bool,
        mut visit: impl FnMut(u64),
    ) -> Vec<u64> {
        let kept = self.owned.iter().filter(|(_, owner)| is_kept(&owner.id));
        let kept: HashSet<u64> = kept.map(|(number, _)| u64::from(*number)).collect();
        let mut blocks = Vec::new();
        self.volume.cached_blocks(|block, is_dirty| {
            let segment = block >> SEGMENT_BLOCKS_SHIFT;
            if segment != 0 && !kept.contains(&segment) {
                blocks.push(block);
                if is_dirty {
                    visit(block);
                }
            }
        });
        blocks
    }

    /// A sync of a file that was handed over may have failed, and the process before been killed before it could
    /// say so in the row: the kernel then calls pages clean that the disk lacks, and the next sync succeeds. What
    /// the pool has is made dirty in the page cache once more. A file that refuses that is kept.
    fn distrust_syncs(&self, names: &dyn NamesRecovery, targets: &mut Targets) {
        let is_handed_over = |target: &Arc<Target>| target.is_handed_over();
        if !targets.found.values().any(is_handed_over) {
            return;
        }
        let mut dirty = Vec::new();
        self.blocks_without(&|_| false, |block| dirty.push(block));
        dirty.sort_unstable();
        let block_bytes = self.volume.block_size() as u64;
        for (segment, Owner { id, part }) in &self.owned {
            let Some(target) = targets
                .found
                .get(id)
                .filter(|target| is_handed_over(target))
            else {
                continue;
            };
            let first = u64::from(*segment) << SEGMENT_BLOCKS_SHIFT;
            let segment_blocks = 1 << SEGMENT_BLOCKS_SHIFT;
            let held = dirty.partition_point(|block| *block < first)
                ..dirty.partition_point(|block| *block < first + segment_blocks);
            // Where the block lies in the file.
            let place = |block: u64| (part * segment_blocks + block - first) * block_bytes;
            let file = target.descriptor();
            let runs = dirty[held].chunk_by(|one, next| one + 1 == *next);
            let redirtied = runs
                .map(|run| place(run[0])..place(run[0]) + run.len() as u64 * block_bytes)
                .try_for_each(|bytes| redirty(&file, bytes));
            if let Err(error) = redirtied {
                targets.found.remove(id);
                self.keep_all(*id);
                targets.kept.insert(*id, refused(&names.name(*id), &error));
            }
        }
    }

    /// The pool keeps what it has of the file.
    fn keep_all(&self, id: FileId) {
        // In this order: a segment that stands for nothing swallows what is written to it.
        self.each_segment(id, |segment, _| self.store.keep(segment));
        self.each_segment(id, |segment, _| self.store.unmap(segment));
    }

    /// Writes what the pool has to the files, durably. A file that cannot be written is kept.
    fn write_back(
        &self,
        names: &dyn NamesRecovery,
        targets: &mut Targets,
        report: &mut FilesRecovery,
    ) {
        let mut dirty = Vec::new();
        let is_kept = |id: &FileId| targets.kept.contains_key(id);
        let blocks = self.blocks_without(&is_kept, |block| dirty.push(block));
        report.blocks_written = dirty.len() as u64;
        let synced = |target: &Arc<Target>| target.sync_all();
        let flushed = self.volume.flush_blocks(blocks).map_err(from_pool);
        if flushed.is_ok() && targets.found.values().try_for_each(synced).is_ok() {
            return;
        }
        // What one file refuses holds up the others: each for itself.
        if let Err(error) = self.trust_no_page_cache(targets) {
            let kept = std::mem::take(&mut targets.found).into_iter();
            let why = |id| refused(&names.name(id), &error);
            targets.kept.extend(kept.map(|(id, _)| (id, why(id))));
            return;
        }
        let by_file = self.by_file(&dirty);
        for (number, row) in &self.rows {
            let Some(target) = targets.found.get(&row.id) else {
                continue;
            };
            let blocks = by_file.get(&row.id).map_or(&[][..], Vec::as_slice);
            let Err(error) = self.write_back_one(target, blocks) else {
                continue;
            };
            targets.found.remove(&row.id);
            let why = refused(&names.name(row.id), &error);
            targets.saved.insert(row.id);
            let saved = self.lost_target(*number, row, why, report);
            let saved = saved.and_then(|target| {
                self.each_segment(row.id, |segment, part| {
                    let target = target.clone();
                    self.store.remap(segment, Mapping { target, part });
                });
                self.write_back_one(&target, blocks)
            });
            if let Err(why) = saved {
                self.keep_all(row.id);
                targets.kept.insert(row.id, why);
            }
        }
    }

    /// A sync has failed: what was handed over may be in the page cache no more, and the next sync would
    /// not tell. From now on, and for good, it goes to the files from the pool.
    fn trust_no_page_cache(&self, targets: &Targets) -> io::Result<()> {
        let handed_over = |(_, row): &&(u32, Row)| row.handed_over != PageCache::NONE;
        for (number, row) in self.rows.iter().filter(handed_over) {
            let mut transaction = self.volume.begin();
            let (sizes, none) = (self.sizes, PageCache::NONE);
            let added = sizes.write_handed_over(&mut transaction, *number, none);
            added
                .and_then(|()| transaction.commit())
                .map_err(from_pool)?;
            if let Some(target) = targets.found.get(&row.id) {
                target.handed_over_to(0);
            }
        }
        Ok(())
    }

    /// Writes blocks of one file to it, durably.
    fn write_back_one(&self, target: &Target, blocks: &[u64]) -> io::Result<()> {
        let flushed = self.volume.flush_blocks(blocks.iter().copied());
        flushed.map_err(from_pool)?;
        target.sync_all()
    }

    fn by_file(&self, blocks: &[u64]) -> HashMap<FileId, Vec<u64>> {
        let owner = |(segment, owner): &(u32, Owner)| (u64::from(*segment), owner.id);
        let owners: HashMap<u64, FileId> = self.owned.iter().map(owner).collect();
        let mut by_file: HashMap<FileId, Vec<u64>> = HashMap::new();
        for block in blocks {
            if let Some(id) = owners.get(&(block >> SEGMENT_BLOCKS_SHIFT)) {
                by_file.entry(*id).or_default().push(*block);
            }
        }
        by_file
    }

    fn each_segment(&self, id: FileId, mut visit: impl FnMut(u32, u64)) {
        let owned = self.owned.iter().filter(|(_, owner)| owner.id == id);
        owned.for_each(|(segment, owner)| visit(*segment, owner.part));
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
        // What was reserved behind the end, and no process knows of any more.
        target.give_room_back(target.size_bytes());
        Ok(())
    }

    /// No row and no segment belongs to any but the files that are kept.
    fn free_tables(&self, is_kept: &dyn Fn(&FileId) -> bool) -> io::Result<()> {
        let owned = self.owned.iter().filter(|(_, owner)| !is_kept(&owner.id));
        let owned: Vec<&(u32, Owner)> = owned.collect();
        let transaction_blocks =
            self.volume.transaction_limit_bytes() / self.volume.block_size() as u64;
        let at_once = transaction_blocks.clamp(1, FREED_AT_ONCE) as usize;
        for part in owned.chunks(at_once) {
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
        for part in rows.chunks(at_once) {
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

/// Whether the page cache has all that the pool has of the file.
fn is_handed_over(row: &Row, file: &OwnedFd) -> bool {
    row.handed_over != PageCache::NONE
        && (row.handed_over == PageCache::of(file) || mutated(Mutant::FilesPageCacheTrusted))
}

/// What to say of a file that is nowhere.
fn gone(name: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::NotFound,
        format!(
            "{name}: the pool has acknowledged data of this file, but it is gone, and was not removed \
             through Forebay; put it back under this name, or {SAVE_LOST}"
        ),
    )
}

/// What to do with data that has no place.
const SAVE_LOST: &str = "have its data saved beside the pool: forebay recover --save-lost POOL";

/// What to say of a file that does not take what is its own.
fn refused(name: &str, error: &io::Error) -> io::Error {
    let cure = match error.raw_os_error() {
        Some(libc::ETXTBSY) => "end the programs that run from it",
        Some(libc::EPERM) => "take away what protects it (chattr -ai)",
        Some(libc::ENOSPC | libc::EDQUOT) => "make room",
        Some(libc::EROFS) => "make its file system writable",
        _ => "remove the cause",
    };
    io::Error::other(format!(
        "{name}: the pool has acknowledged data of this file, but it cannot be written ({error}); \
         {cure} and recover again, or {SAVE_LOST}"
    ))
}

/// What to say of all files that were kept.
fn told_of(kept: HashMap<FileId, io::Error>) -> io::Error {
    let others = kept.len() - 1;
    let first = kept.into_iter().min_by_key(|(id, _)| *id);
    let (_, first) = first.expect("there is one");
    match others {
        0 => first,
        _ => io::Error::new(
            first.kind(),
            format!("{first} (and {others} more; all other files have their data)"),
        ),
    }
}

/// A file beside the pool for the data of one that cannot have it. Only its owner may read it, and it
/// belongs to this user: beside a pool, any user may be allowed to make files.
fn save_to(lost_and_found: &Path, id: FileId) -> io::Result<(PathBuf, OwnedFd)> {
    let mut path = lost_and_found.to_path_buf().into_os_string();
    path.push(format!(".lost-{}", id.0));
    let path = PathBuf::from(path);
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(&path);
    let whole =
        |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    let file = file.map_err(whole)?;
    let found = file.metadata()?;
    let is_ours = found.uid() == rustix::process::geteuid().as_raw() && found.nlink() == 1;
    if !is_ours || !found.is_file() || found.mode() & 0o077 != 0 {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            format!(
                "{}: a file that is not ours is there; move it away",
                path.display()
            ),
        ));
    }
    Ok((path, file.into()))
}

#[cfg(test)]
#[path = "recovery_tests.rs"]
mod tests;
