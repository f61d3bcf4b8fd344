//! Writes that a medium loses, tears, or takes elsewhere.
//!
//! A drill remembers what a member has in a part, and looks until something there has changed and is behind a good fence.
//! Then it puts back what was there, wholly or in part, and perhaps what was written somewhere else: all that anything
//! can tell of a write that went wrong, since no cache stands between. Of a block it is behind its fence as soon as its
//! entry says so; of a record once every thread that held a lock has released it; of other lines as soon as their writers' lock
//! is free.

use std::ops::Range;

use forebay_pmem::Region;

use super::choice::{Dice, Held, Place};
use super::kinds::{Drill, DrillKind, DrillStrike, refused};
use crate::engine::Engine;
use crate::error::{ErrorKind, Result};
use crate::media::areas::MediumArea;
use crate::media::entry::{Key, RawEntry};
use crate::media::layout::LINE_BYTES;

/// A drill that waits for a write.
pub(crate) struct ArmedWrite {
    drill: Drill,
    member: u32,
    seed: u64,
    dice: Dice,
    /// What the table said.
    entries: Vec<RawEntry>,
    /// What the member had in the part: runs of whole lines, by their first byte.
    before: Vec<(u64, Vec<u8>)>,
}

impl ArmedWrite {
    fn before(&self, bytes: Range<u64>) -> Option<&[u8]> {
        let (start, run) = self
            .before
            .iter()
            .rev()
            .find(|(start, _)| *start <= bytes.start)?;
        run.get((bytes.start - start) as usize..(bytes.end - start) as usize)
    }
}

impl Engine {
    pub(super) fn arm_write(
        &self,
        drill: &Drill,
        member: u32,
        region: &Region,
        seed: u64,
        dice: Dice,
    ) -> Result<ArmedWrite> {
        let geometry = &self.media().geometry;
        // Before the bytes: what is published after this was written after it, too, or is compared in vain.
        let entries = match drill.area {
            MediumArea::Slots => (0..geometry.entries)
                .map(|index| self.table.entries().load(index))
                .collect(),
            _ => Vec::new(),
        };
        let areas = geometry.areas();
        let of_area = areas.into_iter().filter(|(area, _)| *area == drill.area);
        let before = of_area.map(|(_, bytes)| {
            let end = bytes.end.min(region.len());
            let mut run = Vec::new();
            let len = end.saturating_sub(bytes.start) as usize;
            if run.try_reserve_exact(len).is_err() {
                return Err(ErrorKind::Options(format!(
                    "there is no memory for the {len} bytes that the drill remembers; use a smaller test pool"
                ))
                .into());
            }
            run.resize(len, 0);
            region.read(bytes.start, &mut run);
            Ok((bytes.start, run))
        });
        let before = before.collect::<Result<Vec<_>>>()?;
        if before.iter().all(|(_, run)| run.is_empty()) {
            return refused("this pool has no such part");
        }
        Ok(ArmedWrite {
            drill: drill.clone(),
            member,
            seed,
            dice,
            entries,
            before,
        })
    }

    /// Strikes a write, if there was one since.
    ///
    /// # Errors
    /// The member's fence fails; the pool takes no more writes.
    pub(crate) fn strike_write(&self, armed: &mut ArmedWrite) -> Result<Option<DrillStrike>> {
        let Some(region) = self.media().member_at(armed.member) else {
            return refused(format!("member {} left meanwhile", armed.member));
        };
        let is_of_checkpoint = matches!(
            armed.drill.area,
            MediumArea::Table | MediumArea::Seals | MediumArea::Checkpoint
        );
        if is_of_checkpoint {
            // That part is written by nothing else.
            self.checkpoint()?;
        }
        let struck = match armed.drill.area {
            MediumArea::Slots => self.strike_block(armed),
            _ => self.strike_line(armed, region),
        };
        if struck.is_some() {
            region.fence()?;
        }
        let seed = armed.seed;
        Ok(struck.map(|struck| DrillStrike { seed, ..struck }))
    }

    fn strike_block(&self, armed: &mut ArmedWrite) -> Option<DrillStrike> {
        let only = armed
            .drill
            .block
            .map(|(volume, block)| Key::new(volume, block));
        for index in 0..self.media().geometry.entries {
            let raw = self.table.entries().load(index);
            if raw == armed.entries[index as usize] || raw.is_free() {
                continue;
            }
            let is_it = only.is_none_or(|key| key == raw.key());
            let struck = is_it.then(|| self.strike_key(armed, raw.key())).flatten();
            if struck.is_some() {
                return struck;
            }
            // What changed was no byte of that member.
            armed.entries[index as usize] = raw;
        }
        None
    }

    fn strike_key(&self, armed: &mut ArmedWrite, key: Key) -> Option<DrillStrike> {
        let len = self.block_bytes() as u64;
        let member = armed.member;
        let (place, written) = self
            .with_half(key, member, |_, region, base| {
                let before = armed.before(base..base + len)?.to_vec();
                let mut now = vec![0; before.len()];
                region.read(base, &mut now);
                (now != before).then(|| {
                    let bytes = spoil(armed, region, base, &before, &now);
                    let offset = base + bytes.start as u64;
                    (Place::of_block(key, offset, bytes.len() as u64), now)
                })
            })
            .flatten()?;
        let other = (armed.drill.kind == DrillKind::MisdirectedWrite)
            .then(|| self.another_half(key, member, &mut armed.dice))
            .flatten();
        let other_offset = other.and_then(|(at, _)| {
            let region = self.media().member_at(member)?;
            region.store(at, &written);
            region.flush(at, written.len());
            Some(at)
        });
        Some(DrillStrike {
            other_offset,
            ..place.struck(member)
        })
    }

    fn strike_line(&self, armed: &mut ArmedWrite, region: &Region) -> Option<DrillStrike> {
        let has_lock = !matches!(
            armed.drill.area,
            MediumArea::Lanes | MediumArea::CommitWords
        );
        let mut held = self.hold_writers(armed.drill.area);
        let changed = changed_lines(armed, region);
        let offset = armed.dice.one_of(&changed)?;
        let mut now = [0; LINE_BYTES as usize];
        region.read(offset, &mut now);
        if !has_lock {
            // Whoever wrote it has fenced it when all locks were free once.
            self.table.index().wait_for_holders();
            held = self.hold_writers(armed.drill.area);
        }
        let before = armed.before(offset..offset + LINE_BYTES)?.to_vec();
        let bytes = spoil(armed, region, offset, &before, &now);
        let other_offset = (armed.drill.kind == DrillKind::MisdirectedWrite)
            .then(|| self.line_elsewhere(&held, armed, region, offset))
            .flatten();
        if let Some(at) = other_offset {
            region.store(at, &now);
            region.flush(at, now.len());
        }
        let place = Place::of_line(offset + bytes.start as u64);
        Some(DrillStrike {
            other_offset,
            bytes: bytes.len() as u64,
            ..place.struck(armed.member)
        })
    }

    /// Another line of the part, one in use if there is one.
    fn line_elsewhere(
        &self,
        held: &Held<'_>,
        armed: &mut ArmedWrite,
        region: &Region,
        than: u64,
    ) -> Option<u64> {
        let mut lines = self.lines_in_use(held, armed.drill.area, region);
        lines.retain(|line| *line != than);
        if lines.is_empty() {
            let runs = armed.before.iter();
            let all = runs.flat_map(|(start, run)| {
                (*start..start + run.len() as u64).step_by(LINE_BYTES as usize)
            });
            lines = all.filter(|line| *line != than).collect();
        }
        armed.dice.one_of(&lines)
    }
}

/// Lines of the part that are not as they were.
fn changed_lines(armed: &ArmedWrite, region: &Region) -> Vec<u64> {
    let line = LINE_BYTES as usize;
    let mut now = Vec::new();
    let mut changed = Vec::new();
    for (start, run) in &armed.before {
        now.resize(run.len(), 0);
        region.read(*start, &mut now);
        let pairs = run.chunks_exact(line).zip(now.chunks_exact(line));
        let offsets = (*start..).step_by(line);
        let differ = offsets
            .zip(pairs)
            .filter(|(_, (before, now))| before != now);
        changed.extend(differ.map(|(offset, _)| offset));
    }
    changed
}

/// Puts back what was there: all of it, or of a torn line some words. Returns which of the bytes it changed.
fn spoil(
    armed: &mut ArmedWrite,
    region: &Region,
    offset: u64,
    before: &[u8],
    now: &[u8],
) -> Range<usize> {
    let (line, word) = (LINE_BYTES as usize, size_of::<u64>());
    if armed.drill.kind != DrillKind::TornLine {
        region.store(offset, before);
        region.flush(offset, before.len());
        return 0..before.len();
    }
    let differs = |bytes: &Range<usize>| before[bytes.clone()] != now[bytes.clone()];
    let pieces = |all: Range<usize>, size: usize| -> Vec<Range<usize>> {
        let starts = all.clone().step_by(size);
        let pieces = starts.map(|start| start..(start + size).min(all.end));
        pieces.filter(differs).collect()
    };
    let lines = pieces(0..before.len(), line);
    let chosen = lines[armed.dice.below(lines.len() as u64) as usize].clone();
    let words = pieces(chosen.clone(), word);
    // At least one word did not arrive, and of several one did.
    let first = armed.dice.below(words.len() as u64) as usize;
    let bits = armed.dice.bits();
    for (number, bytes) in words.iter().enumerate() {
        let is_lost =
            number == first || bits >> number & 1 == 1 && number != (first + 1) % words.len();
        if is_lost {
            region.store(offset + bytes.start as u64, &before[bytes.clone()]);
        }
    }
    region.flush(offset + chosen.start as u64, line);
    chosen
}
