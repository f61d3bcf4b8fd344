//! The volume table on the device: which backing each number stands for.
//!
//! A row has two pages. Both are written, one durable write after the other, and the newer one that holds counts: so a
//! crash leaves the old row or the new one, whole, and a page that goes bad later leaves the same in the other. A
//! number is free again only after a durable element took all blocks of its volume away.

use super::core::Log;
use super::join::{Class, Ready};
use super::volume_table::VolumeTable;
use crate::error::{LogError, Result};
use crate::media::{Element, Key, Shape, VolumeRow, volume_page, volumes_max};
use crate::mutants::{Mutant, mutated};
use crate::page::Pages;
use crate::transaction::check;
use std::sync::{Arc, MutexGuard, PoisonError};

/// What of some ranges is let go of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Gone {
    /// Whatever is there.
    All,
    /// What is clean, and nothing else is there.
    Clean,
}

impl Log {
    fn volume_table(&self) -> MutexGuard<'_, VolumeTable> {
        self.volumes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many volumes the pool can have; they are numbered from 1.
    pub fn volumes_max(&self) -> u32 {
        volumes_max(self.geometry)
    }

    /// Every row of the volume table, also of numbers that are free again.
    pub fn volumes(&self) -> Vec<VolumeRow> {
        self.volume_table().rows()
    }

    /// Writes a volume's row. When it returns it is durable, twice.
    ///
    /// # Errors
    /// There is no such number, the path is too long, or the device fails: then after a crash the row is the old one
    /// or this one, and it can be written again.
    pub fn write_volume(&self, row: &VolumeRow) -> Result<()> {
        let refuse = |why: String| Err(LogError::Transaction(why));
        if row.number == 0 || row.number > self.volumes_max() {
            let most = self.volumes_max();
            return refuse(format!(
                "volumes are numbered from 1 to {most}, not {}",
                row.number
            ));
        }
        if !row.fits() {
            let path = row.path.display();
            return refuse(format!(
                "{path}: the path is too long for a volume; use a shorter one"
            ));
        }
        let mut table = self.volume_table();
        let place = &mut table.places[row.number as usize - 1];
        place.last_version += 1;
        let version = place.last_version;
        let mut page = Pages::zeroed(1);
        row.encode(self.uuid, version, &mut page);
        let first = place.first_copy();
        if mutated(Mutant::SsdVolumeCopiesTogether) {
            let written = self
                .device
                .write_durable(volume_page(row.number, 0), &[&page, &page]);
            written.map_err(self.failed("write its volume table"))?;
            place.versions = [version; 2];
            place.row = Some(row.clone());
            return Ok(());
        }
        for copy in [first, first ^ 1] {
            // What it says after a failure is unknown, so it is the first to be written then.
            place.versions[copy] = 0;
            let at = volume_page(row.number, copy);
            // The first is durable before the second, whose row is the last one that holds, is touched.
            let written = match mutated(Mutant::SsdVolumeRowUnsynced) {
                true => self.device.write(at, &[&page]),
                false => self.device.write_durable(at, &[&page]),
            };
            written.map_err(self.failed("write its volume table"))?;
            place.versions[copy] = version;
        }
        place.row = Some(row.clone());
        Ok(())
    }

    /// Lets go of all blocks of a volume, durably: its backing has everything, synced, and nobody uses it any more.
    ///
    /// # Errors
    /// Something of it is not on its backing; or as those of [`Log::commit`].
    pub fn empty_volume(&self, number: u32) -> Result<()> {
        let mut maintained = self.maintain();
        let (_, dirty) = self.usage(number);
        if dirty > 0 {
            return Err(LogError::Transaction(format!(
                "{dirty} blocks of volume {number} are not on their backing; write it back first"
            )));
        }
        if mutated(Mutant::SsdVolumeFreedWithItsBlocks) {
            return Ok(());
        }
        self.forget_whole(&mut maintained, (number, Class::Detach))
    }

    /// Lets go of all blocks of a volume, dirty or not, durably: its backing is lost, and what was not written to it with it.
    ///
    /// # Errors
    /// As those of [`Log::commit`].
    pub fn discard_volume(&self, number: u32) -> Result<()> {
        self.forget_whole(&mut self.maintain(), (number, Class::Rescue))
    }

    /// Frees a number, of whose volume the pool has nothing any more: its next volume finds nothing of this one.
    ///
    /// # Errors
    /// As those of [`Log::write_volume`].
    ///
    /// # Panics
    /// The pool still has blocks of it.
    pub fn free_volume(&self, row: &VolumeRow) -> Result<()> {
        let is_empty = self.usage(row.number).0 == 0;
        assert!(
            is_empty || mutated(Mutant::SsdVolumeFreedWithItsBlocks),
            "volume {} is emptied before its number is free",
            row.number
        );
        self.write_volume(&VolumeRow {
            is_attached: false,
            ..row.clone()
        })?;
        self.release_backing(row.number);
        // The number's next volume has nothing that could be behind.
        self.maintain().note_gone(row.number);
        Ok(())
    }

    /// Lets go of blocks, dirty or not, durably: they are as their backing has them from then on. What was written to them
    /// and not written back is lost.
    ///
    /// # Errors
    /// As those of [`Log::commit`]; some of the ranges may be gone then. There are no such blocks, and none is gone.
    pub fn forget(&self, volume: u32, ranges: &[(u64, u64)]) -> Result<()> {
        for (block, count) in ranges {
            check(volume, *block, *count)?;
        }
        // Nothing is being written to the backing until they are gone.
        let _alone = self.maintain();
        self.forget_alone(volume, ranges, (Class::Usual, Gone::All), false)
    }

    /// As [`Log::forget`], durable as [`Log::commit_unsynced`] says: after a power cut before that the blocks may be there again, dirty
    /// where they were.
    ///
    /// # Errors
    /// As those of [`Log::forget`].
    pub fn forget_unsynced(&self, volume: u32, ranges: &[(u64, u64)]) -> Result<()> {
        for (block, count) in ranges {
            check(volume, *block, *count)?;
        }
        let _alone = self.maintain();
        self.forget_alone(volume, ranges, (Class::Usual, Gone::All), true)
    }

    fn forget_alone(
        &self,
        volume: u32,
        ranges: &[(u64, u64)],
        (class, what): (Class, Gone),
        is_unsynced: bool,
    ) -> Result<()> {
        for some in ranges.chunks(self.geometry.group_elements_max()) {
            let elements = some.iter().map(|(block, count)| Element {
                key: Key {
                    volume,
                    block: *block,
                },
                shape: Shape::Gone { count: *count },
                is_clean: true,
            });
            let ready = Ready {
                elements: elements.collect(),
                pages: Arc::new(Pages::zeroed(0)),
                is_fill: false,
                is_unsynced,
            };
            let mut state = self.lock();
            if what == Gone::Clean {
                // Under the lock under which it joins: what was written since these were looked at is not let go of.
                for element in &ready.elements {
                    if let Shape::Gone { count } = element.shape {
                        state.check_clean(element.key, count)?;
                    }
                }
            }
            let ticket = self.join(&mut state, ready, class)?;
            if let Some(rescue) = state.rescue.as_mut().filter(|_| class == Class::Rescue) {
                rescue.next_group();
            }
            drop(state);
            self.wait(&ticket)?;
        }
        Ok(())
    }

    /// Lets go of the clean blocks of a volume, as a rescue does (S8), for a backing that comes back and is to take what fills the ring.
    /// What takes several records leaves two segments free, and is asked first whether all of them have room: records that let go of
    /// some blocks alone would use up what a rescue needs.
    ///
    /// # Errors
    /// As those of [`Log::forget`]; where there is no room for all of it, nothing is gone.
    pub fn forget_clean(&self, volume: u32) -> Result<()> {
        let _alone = self.maintain();
        let ranges = clean_ranges(&self.spans(volume));
        let most = self.geometry.group_elements_max();
        if ranges.len() > most {
            let mut state = self.lock();
            let spare = state.free_segments(self.geometry).saturating_sub(2);
            let groups = ranges.chunks(most).map(|some| (some.len(), 0));
            if !state.begin_rescue(self.geometry, (groups.collect(), spare), None) {
                return Err(self.no_room());
            }
        }
        let gone = self.forget_alone(volume, &ranges, (Class::Rescue, Gone::Clean), false);
        self.lock().rescue = None;
        gone
    }

    /// What the pool has of a volume, in its order. A range of zeroes is one, however long.
    fn spans(&self, volume: u32) -> Vec<Span> {
        let state = self.lock();
        let entries = state.table.iter();
        let entries = entries.filter(|entry| entry.key().volume == volume);
        let blocks = entries.map(|entry| Span {
            first: entry.key().block,
            end: entry.key().block + 1,
            is_dirty: !entry.is_clean(),
        });
        let zeroed = state.zeroed.of_volume(volume).into_iter();
        let ranges = zeroed.map(|range| Span {
            first: range.first.block,
            end: range.end(),
            is_dirty: true,
        });
        let mut spans: Vec<Span> = blocks.chain(ranges).collect();
        spans.sort_unstable_by_key(|span| span.first);
        spans
    }
}

/// A block, or a range of zeroes, that the pool has.
struct Span {
    first: u64,
    end: u64,
    is_dirty: bool,
}

/// Ranges that have all clean blocks of a volume and none that is dirty, as few as there can be: between two clean blocks may be such
/// as the pool does not have, which are as their backing has them before and after. `spans` are all that it has, in their order.
fn clean_ranges(spans: &[Span]) -> Vec<(u64, u64)> {
    let runs = spans.chunk_by(|a, b| a.is_dirty == b.is_dirty);
    let clean = runs.filter(|run| !run[0].is_dirty);
    clean
        .map(|run| (run[0].first, run[run.len() - 1].end - run[0].first))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clean_blocks_go_by_as_few_ranges_as_dirty_ones_leave() {
        let (clean, dirty) = (false, true);
        let ranges = |blocks: &[(u64, bool)]| {
            let spans = blocks.iter().map(|(block, is_dirty)| Span {
                first: *block,
                end: *block + 1,
                is_dirty: *is_dirty,
            });
            clean_ranges(&spans.collect::<Vec<_>>())
        };
        assert_eq!(ranges(&[]), []);
        assert_eq!(ranges(&[(3, dirty)]), []);
        let blocks = [(1, clean), (2, clean), (9, clean), (10, dirty), (12, dirty)];
        assert_eq!(ranges(&blocks), [(1, 9)]);
        let blocks = [(0, dirty), (4, clean), (5, dirty), (6, clean), (8, clean)];
        assert_eq!(ranges(&blocks), [(4, 1), (6, 3)]);
    }
}
