//! Attach: a backing becomes the volume that it was before, or a new one. The table of volumes changes under the pool's lock.

use std::sync::Arc;

use forebay_log::{Log, PAGE_BYTES, VolumeRow};

use super::behind::Behind;
use super::known::{Known, identity_of};
use super::pool::SsdPool;
use super::volume::SsdVolume;
use crate::api::pool::{check_size, refuse_pool};
use crate::background::volume_state::VolumeState;
use crate::backing::{Backing, BackingIdentity};
use crate::error::{ErrorKind, Result};
use crate::marks::{Begin, classify_file, classify_size, may_be_marked, stale_error};

/// Bits of an id that are the volume's number.
const NUMBER_BITS: u32 = 7;
/// Ids that a number can have, one after the other.
const USES: u32 = 1 << 13;

/// The id that a number gets at its next use: no two volumes that had it lately are taken for each other.
fn next_id(number: u32, before: Option<&VolumeRow>) -> u32 {
    let uses = before.map_or(0, |row| ((row.id >> NUMBER_BITS) + 1) % USES);
    uses << NUMBER_BITS | number
}

impl SsdPool {
    pub(crate) fn attach(&self, backing: Backing, accept_stale: bool) -> Result<SsdVolume> {
        let _one_at_a_time = self.lock_table();
        let shared = self.shared();
        let log = shared.log()?;
        let identity = backing.identity();
        check_size(&identity, PAGE_BYTES)?;
        let rows = log.volumes();
        let is_it = |row: &&VolumeRow| row.is_attached && row.path == identity.path;
        if let Some(row) = rows.iter().find(is_it) {
            return self.attach_again(&log, row.clone(), (identity, backing), accept_stale);
        }
        refuse_pool(&backing, &identity)?;
        let row = self.new_row(&log, &rows, &identity)?;
        self.attach_new(&log, row, (identity, backing), accept_stale)
    }

    /// A row for a new volume, in a number that is free, and of which the log has no block: none may be taken for the new
    /// volume's.
    fn new_row(
        &self,
        log: &Log,
        rows: &[VolumeRow],
        identity: &BackingIdentity,
    ) -> Result<VolumeRow> {
        let of = |number: u32| rows.iter().find(|row| row.number == number);
        let mut numbers = 1..=log.volumes_max();
        let is_free = |number: &u32| {
            let is_attached = of(*number).is_some_and(|row| row.is_attached);
            !is_attached && log.usage(*number).0 == 0
        };
        let number = numbers.find(is_free).ok_or_else(|| {
            ErrorKind::Volume(format!(
                "{}: the pool's table of {} volumes is full; detach one",
                identity.path.display(),
                log.volumes_max()
            ))
        })?;
        Ok(VolumeRow {
            number,
            id: next_id(number, of(number)),
            is_attached: true,
            path: identity.path.clone(),
            inode: identity.inode,
            size_bytes: identity.size_bytes,
            generation: 0,
            stage: 0,
        })
    }

    fn attach_new(
        &self,
        log: &Log,
        mut row: VolumeRow,
        (identity, backing): (BackingIdentity, Backing),
        accept_stale: bool,
    ) -> Result<SsdVolume> {
        let shared = self.shared();
        let begin = self.classify_mark(log, (&backing, &row), accept_stale)?;
        let state = Arc::new(VolumeState::new(row.id, &identity));
        state.sync_unsynced(&backing)?;
        let begun = self.begin_mark(log, (&backing, &mut row), begin);
        if begun.is_err() {
            if may_be_marked(&backing, self.uuid(), row.id) {
                // As after a crash: the next attempt goes on from there.
                shared.set_known(row.number, Some(Known::new(row.clone(), state.clone())));
            } else {
                // The next attempt is to find the number free. If that fails too, the next process finds the volume, without
                // a block.
                let freed = VolumeRow {
                    is_attached: false,
                    ..row.clone()
                };
                drop(log.write_volume(&freed));
            }
        }
        begun?;
        let known = Known::new(row, state);
        self.use_backing(log, &known, backing, identity.size_bytes)?;
        shared.set_known(known.number, Some(known.clone()));
        Ok(SsdVolume::new(shared.clone(), known))
    }

    /// The volume's blocks are read from the backing, and written to it, from now on.
    fn use_backing(
        &self,
        log: &Log,
        known: &Arc<Known>,
        backing: Backing,
        size_bytes: u64,
    ) -> Result<()> {
        // What an earlier process wrote and could not sync is dirty in the log, and written again.
        drop(backing.forget_cached());
        known.state.set_backing(backing, size_bytes)?;
        let tallies = self.shared().tallies.clone();
        let answer_deadline = self.shared().options.answer_deadline;
        let behind = Behind::new(known.state.clone(), tallies, answer_deadline);
        log.attach(known.number, Arc::new(behind));
        Ok(())
    }

    fn attach_again(
        &self,
        log: &Log,
        mut row: VolumeRow,
        (identity, backing): (BackingIdentity, Backing),
        accept_stale: bool,
    ) -> Result<SsdVolume> {
        let stale = |refusal| stale_error(&identity.path, refusal);
        let known_identity = identity_of(&row);
        classify_size(&known_identity, &identity).map_err(stale)?;
        let is_same_file = match classify_file(&known_identity, &identity) {
            Err(refusal) if !accept_stale => return Err(stale(refusal)),
            found => found.is_ok(),
        };
        let shared = self.shared();
        let is_it = |known: &Arc<Known>| known.number == row.number;
        let Some(known) = shared.known().into_iter().find(is_it) else {
            let path = identity.path.display();
            return Err(ErrorKind::Volume(format!("{path}: it is being detached")).into());
        };
        if known.state.backing.get().is_some() {
            return Err(known.state.attached_already());
        }
        // Of the volume's size still, until it is grown.
        row.inode = identity.inode;
        // Its refusals first: they let go of nothing.
        let begin = self.classify_mark(log, (&backing, &row), accept_stale)?;
        if !is_same_file {
            // They are the other file's. Gone durably, before the row says that this file is the volume's.
            self.forget_clean(log, (row.number, &identity.path))?;
        }
        known.state.sync_unsynced(&backing)?;
        if begin != Begin::AsItIs || !is_same_file {
            let begun = self.begin_mark(log, (&backing, &mut row), begin);
            known.set_row(row.clone());
            begun?;
        }
        self.use_backing(log, &known, backing, row.size_bytes)?;
        // Its dirty blocks were passed over while it had no backing.
        known.state.health.forget();
        shared.work.note_change();
        Ok(SsdVolume::new(shared.clone(), known))
    }

    pub(crate) fn volumes(&self) -> Vec<SsdVolume> {
        let shared = self.shared();
        let known = shared.known().into_iter();
        known
            .map(|known| SsdVolume::new(shared.clone(), known))
            .collect()
    }

    pub(crate) fn volume(&self, id: u32) -> Option<SsdVolume> {
        self.volumes().into_iter().find(|volume| volume.id() == id)
    }

    /// Whether a volume is one of this pool, and still there.
    pub(super) fn check_known(&self, volume: &SsdVolume) -> Result<()> {
        let is_here = Arc::ptr_eq(self.shared(), volume.shared())
            && self
                .shared()
                .known()
                .iter()
                .any(|known| Arc::ptr_eq(known, volume.known()));
        match is_here {
            true => Ok(()),
            false => Err(ErrorKind::Volume(format!(
                "Volume {} ({}) is not attached to this pool",
                volume.id(),
                volume.path().display()
            ))
            .into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::backing::MemoryStore;
    use crate::options::{Medium, PoolOptions};

    #[test]
    fn a_number_of_which_the_log_has_blocks_is_no_new_volumes() {
        let directory = tempfile::tempdir().expect("a directory");
        let options = PoolOptions::new(directory.path().join("pool"), 12 << 20).medium(Medium::Ssd);
        let pool = match SsdPool::create(&options) {
            Ok(pool) => pool,
            Err(error) => {
                eprintln!("skipped a_number_of_which_the_log_has_blocks: {error}");
                return;
            }
        };
        let mut left = forebay_log::Transaction::new();
        left.write(1, 5, &[7; PAGE_BYTES]).expect("a block");
        let log = pool.shared().log().expect("it is open");
        log.commit(left).expect("commit");
        drop(log);
        let store = Arc::new(MemoryStore::new(1 << 20));
        let attached = pool.attach(Backing::from_store(store), false);
        assert_eq!(attached.expect("attach").number(), 2);
    }
}
