//! What a drill breaks: which block, or which line of a part that is in use, and whose lock keeps others from writing it.

use std::ops::Range;
use std::sync::MutexGuard;

use forebay_pmem::Region;

use super::kinds::{Drill, DrillStrike, refused};
use crate::engine::Engine;
use crate::engine::checkpoint::CheckpointState;
use crate::error::Result;
use crate::media::areas::MediumArea;
use crate::media::entry::{Entry, Key};
use crate::media::layout::{LINE_BYTES, PACKED_HEADER_BYTES};
use crate::media::volumes;

/// Choices that follow from a seed (SplitMix64).
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Dice {
        Dice(seed)
    }
    pub(super) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }
    /// A number below `count`, which is not 0.
    pub(super) fn below(&mut self, count: u64) -> u64 {
        self.bits() % count
    }
    pub(super) fn one_of<T: Copy>(&mut self, all: &[T]) -> Option<T> {
        let count = all.len() as u64;
        (count > 0).then(|| all[self.below(count) as usize])
    }
}

/// Bytes of a member.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) offset: u64,
    pub(super) bytes: u64,
    pub(super) key: Option<Key>,
}

impl Place {
    pub(super) fn of_block(key: Key, offset: u64, bytes: u64) -> Place {
        Place {
            offset,
            bytes,
            key: Some(key),
        }
    }
    pub(super) fn of_all(region: &Region) -> Place {
        Place {
            offset: 0,
            bytes: region.len(),
            key: None,
        }
    }
    pub(super) fn of_line(offset: u64) -> Place {
        Place {
            offset,
            bytes: LINE_BYTES,
            key: None,
        }
    }
    pub(super) fn struck(self, member: u32) -> DrillStrike {
        DrillStrike {
            member,
            offset: self.offset,
            bytes: self.bytes,
            bit: None,
            other_offset: None,
            block: self.key.map(|key| (key.volume(), key.block())),
            seed: 0,
        }
    }
}

/// Locks that keep other threads from writing a part.
pub(super) struct Held<'e> {
    lines: Option<MutexGuard<'e, CheckpointState>>,
    _volumes: Option<MutexGuard<'e, ()>>,
}

impl Held<'_> {
    /// Which of the two checkpoint lines counts.
    fn checkpoint_line(&self) -> Option<usize> {
        self.lines.as_ref().map(|state| state.next_line ^ 1)
    }
}

impl Engine {
    /// Keeps other threads from writing lines of a part. Records and commit words have no such lock, and blocks have
    /// their keys'.
    pub(super) fn hold_writers(&self, area: MediumArea) -> Held<'_> {
        let is_free = matches!(
            area,
            MediumArea::Lanes | MediumArea::CommitWords | MediumArea::Slots
        );
        let lines = (!is_free).then(|| forebay_pmem::lock_or_yield(&self.checkpoint));
        let of_volumes = area == MediumArea::VolumeLines;
        Held {
            lines,
            _volumes: of_volumes
                .then(|| self.media().hold_volume_lines())
                .flatten(),
        }
    }

    /// The entry of a key that is cached.
    pub(super) fn cached(&self, key: Key) -> Option<Entry> {
        let (_, found) = self.table.peek(self.table.bucket(key), key);
        self.media().sound(found?.1)
    }

    /// Shows the half of a key's block that a member has, with the key's lock held.
    pub(super) fn with_half<T>(
        &self,
        key: Key,
        member: u32,
        change: impl FnOnce(Entry, &Region, u64) -> T,
    ) -> Option<T> {
        let bucket = self.table.bucket(key);
        self.table.index().lock(bucket.stripe);
        let found = self.table.find(bucket, key);
        let entry = found.and_then(|(_, raw)| self.media().sound(raw));
        let done = entry.filter(|entry| entry.key() == key).and_then(|entry| {
            let (region, base) = self.media().half_on(entry.slot()?, member)?;
            Some(change(entry, region, base))
        });
        self.table.index().unlock(bucket.stripe);
        done
    }

    /// How many bytes from the start of its slot a block's check covers.
    pub(super) fn bytes_that_count(&self, entry: Entry, region: &Region, base: u64) -> u64 {
        let whole = self.block_bytes();
        let counted = match (entry.is_packed(), entry.is_partial()) {
            (true, _) => PACKED_HEADER_BYTES,
            (_, true) => {
                let mut block = vec![0; whole];
                region.read(base, &mut block);
                crate::media::partial_len_of(&block).unwrap_or(whole)
            }
            _ => whole,
        };
        counted.max(1) as u64
    }

    /// The keys of the blocks of which a member has a half.
    fn keys_on(&self, member: u32) -> Vec<Key> {
        let indices = 0..self.media().geometry.entries;
        let entries = indices.filter_map(|index| {
            let raw = self.table.entries().load(index);
            self.media().sound(raw).filter(|_| !raw.is_free())
        });
        let has_half = |entry: &Entry| {
            let slot = entry.slot();
            slot.is_some_and(|slot| self.media().half_on(slot, member).is_some())
        };
        entries.filter(has_half).map(|entry| entry.key()).collect()
    }

    /// The block that a drill is about.
    pub(super) fn choose_key(&self, drill: &Drill, member: u32, dice: &mut Dice) -> Result<Key> {
        let Some((volume, block)) = drill.block else {
            return match dice.one_of(&self.keys_on(member)) {
                Some(key) => Ok(key),
                None => refused(format!("member {member} has no block; write one first")),
            };
        };
        let key = Key::new(volume, block);
        match self.with_half(key, member, |_, _, _| ()) {
            Some(()) => Ok(key),
            None => refused(format!(
                "member {member} has no copy of block {block}; write it first"
            )),
        }
    }

    /// Where another block's half is on a member, and its bytes.
    pub(super) fn another_half(
        &self,
        than: Key,
        member: u32,
        dice: &mut Dice,
    ) -> Option<(u64, Vec<u8>)> {
        let mut keys = self.keys_on(member);
        keys.retain(|key| *key != than);
        let key = dice.one_of(&keys)?;
        self.with_half(key, member, |_, region, base| {
            let mut bytes = vec![0; self.block_bytes()];
            region.read(base, &mut bytes);
            (base, bytes)
        })
    }

    /// A block's place, or a line of a part that is in use.
    pub(super) fn choose_place(
        &self,
        drill: &Drill,
        member: u32,
        region: &Region,
        dice: &mut Dice,
    ) -> Result<Place> {
        if drill.area != MediumArea::Slots {
            let held = self.hold_writers(drill.area);
            return self.choose_line(&held, drill.area, member, region, dice);
        }
        let key = self.choose_key(drill, member, dice)?;
        let bytes = self.block_bytes() as u64;
        let place = self.with_half(key, member, |_, _, base| Place::of_block(key, base, bytes));
        match place {
            Some(place) => Ok(place),
            None => refused("the block left the pool meanwhile; try again"),
        }
    }

    /// A line of a part that is in use. The caller holds its writers.
    pub(super) fn choose_line(
        &self,
        held: &Held<'_>,
        area: MediumArea,
        member: u32,
        region: &Region,
        dice: &mut Dice,
    ) -> Result<Place> {
        match dice.one_of(&self.lines_in_use(held, area, region)) {
            Some(offset) => {
                // The last line of a part may be half of it alone.
                let areas = self.media().geometry.areas();
                let mut ends = areas.iter().filter(|(_, bytes)| bytes.contains(&offset));
                let end = ends.next().map_or(u64::MAX, |(_, bytes)| bytes.end);
                Ok(Place {
                    bytes: LINE_BYTES.min(end - offset),
                    ..Place::of_line(offset)
                })
            }
            None => refused(format!(
                "nothing stands in that part of member {member}; write something first"
            )),
        }
    }

    /// The lines of a part whose bytes count.
    pub(super) fn lines_in_use(
        &self,
        held: &Held<'_>,
        area: MediumArea,
        region: &Region,
    ) -> Vec<u64> {
        let media = self.media();
        let geometry = &media.geometry;
        let is_set = |offset: &u64| {
            let line = region.line(*offset);
            (0..8).any(|word| line.word(word) != 0)
        };
        let lines = |bytes: Range<u64>| bytes.step_by(LINE_BYTES as usize);
        let areas = geometry.areas();
        let of_area = areas.into_iter().filter(|(found, _)| *found == area);
        match area {
            MediumArea::Lanes => {
                let positions = self.log.lanes().published_positions();
                let records = (0..).zip(positions).flat_map(|(lane, end)| {
                    let base = geometry.lane_offset(lane);
                    let positions = lines(self.log.lanes().tail(lane)..end);
                    positions.map(move |position| base + position % geometry.lane_bytes)
                });
                records.filter(is_set).collect()
            }
            MediumArea::VolumeLines => {
                let places = 0..geometry.volumes;
                let current = places.filter_map(|place| volumes::current_line(media, place));
                current.flat_map(lines).collect()
            }
            // Of two lines that are written in turn the one that counts.
            MediumArea::Incarnation => {
                let which = (self.log.incarnation() % 2) as usize;
                vec![geometry.incarnation_line(which)]
            }
            MediumArea::Checkpoint => {
                let current = held.checkpoint_line();
                current.map_or(Vec::new(), |which| vec![geometry.checkpoint_line(which)])
            }
            MediumArea::Roster => {
                let epoch = |bytes: &Range<u64>| region.line(bytes.start).word(2);
                let newest = of_area.map(|(_, bytes)| bytes).max_by_key(epoch);
                newest.into_iter().flat_map(lines).collect()
            }
            _ => of_area
                .flat_map(|(_, bytes)| lines(bytes))
                .filter(is_set)
                .collect(),
        }
    }
}
