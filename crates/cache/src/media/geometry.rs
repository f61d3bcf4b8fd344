//! Where everything lies, computed from the superblock's numbers alone.
//!
//! Every member has the same plan: superblock, two incarnation lines, two checkpoint lines, commit words,
//! volume table, entry table and of a mirror its seals, lanes, slots. Metadata is live on member 0 only; the same room on
//! the others waits for mirrors of it. Slots are striped over the members, block by block; those of a mirror, which has
//! metadata on every member, each have two places, on two members that follow each other. Of a pool of rows further numbers
//! name the same places as columns of rows (`media::row_places`).

use std::ops::Range;

use crate::error::{ErrorKind, Result};
use crate::media::entry::SLOTS_MAX;
use crate::media::layout::{
    ENTRY_BYTES, FLAG_MIRROR, FLAG_ROWS, FLAG_SEALED, INCARNATION_BYTES, LINE_BYTES, SEAL_BYTES,
    SUPERBLOCK_BYTES, Superblock, VOLUME_BYTES,
};
use crate::options::{FormatOptions, Redundancy};

/// The smallest and largest block.
pub(crate) const BLOCK_BYTES_MIN: u32 = 128;
pub(crate) const BLOCK_BYTES_MAX: u32 = 65536;
/// Lanes: more than the threads that can usefully commit at once.
const LANES_DEFAULT: u64 = 16;
/// The log gets this share of the pool: long enough that a checkpoint's line flushes merge.
const LOG_SHARE: u64 = 64;
const LOG_BYTES_MIN: u64 = 512 << 10;
const LOG_BYTES_MAX: u64 = 64 << 20;
/// A lane must hold the largest record, see `Geometry::transaction_limit_bytes`.
const LANE_BYTES_MIN: u64 = 64 << 10;
/// Lanes of pools that a plain file may hold consist of whole pages: records start on fresh ones.
const PAGE_BYTES: u64 = 4096;
/// The largest transaction, whatever the pool's size.
const TRANSACTION_BYTES_MAX: u64 = 4 << 20;

/// Sizes and offsets of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Geometry {
    pub block_bytes: u32,
    pub unit_bytes: u32,
    pub members: u32,
    /// Every member has all metadata, and two of them each block that the backing lacks.
    pub is_mirrored: bool,
    /// Of a mirror: what one transaction writes may be in rows with parity.
    pub has_rows: bool,
    /// The table has one copy, whose lines have seals.
    pub has_lone_seals: bool,
    /// And each of its lines has one, also those that were never sent: a line without one is damage.
    pub has_all_seals: bool,
    pub member_bytes: u64,
    pub volumes: u32,
    pub lanes: u32,
    pub lane_bytes: u64,
    pub entries: u32,
    pub slots_per_member: u32,
    pub volume_table: u64,
    pub commit_words: u64,
    pub entry_table: u64,
    /// Where lines of the table have seals: one for each.
    pub seals: u64,
    pub lane_area: u64,
    pub slot_area: u64,
}

/// Where the two halves of a slot of a mirror are: on two members that follow each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pair {
    /// The number of the member that has the first half.
    pub first: u32,
    /// And of the one that has the second.
    pub second: u32,
    /// Of the first half. The second one is in the row behind it.
    pub first_offset: u64,
    pub second_offset: u64,
}

/// The most members that a mirror has: the word that says which of them count has room for so many.
pub(crate) const MIRROR_MEMBERS_MAX: u32 = 8;

/// What of a plan changes when a pool grows. Incarnation and checkpoint lines carry it, so that the switch
/// to a new incarnation is also the switch to a larger plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sizes {
    pub member_bytes: u64,
    pub entries: u32,
    pub slots_per_member: u32,
    pub lane_lines: u32,
    /// Each line of a table of one copy has a seal.
    pub has_all_seals: bool,
}

impl Geometry {
    /// No numbers yet, and no offsets.
    const UNPLACED: Geometry = Geometry {
        block_bytes: 0,
        unit_bytes: 0,
        members: 0,
        is_mirrored: false,
        has_rows: false,
        has_lone_seals: false,
        has_all_seals: false,
        member_bytes: 0,
        volumes: 0,
        lanes: 0,
        lane_bytes: 0,
        entries: 0,
        slots_per_member: 0,
        volume_table: 0,
        commit_words: 0,
        entry_table: 0,
        seals: 0,
        lane_area: 0,
        slot_area: 0,
    };

    /// Plans a new pool of `members` members of `member_bytes` each.
    pub(crate) fn plan(
        options: &FormatOptions,
        members: u32,
        member_bytes: u64,
    ) -> Result<Geometry> {
        check_units(options.block_bytes, options.unit_bytes)?;
        check_counts(members, options.lanes.unwrap_or(1), options.volumes)?;
        check_mirror(options.redundancy.is_mirrored(), members)?;
        check_rows(options.redundancy == Redundancy::Parity, members)?;
        if !options.checksums {
            options.redundancy.check_without_checksums()?;
        }
        let block = u64::from(options.block_bytes);
        let pool_bytes = member_bytes.saturating_mul(u64::from(members));
        let log = (pool_bytes / LOG_SHARE).clamp(LOG_BYTES_MIN, LOG_BYTES_MAX);
        let lanes = options
            .lanes
            .map_or((log / LANE_BYTES_MIN).clamp(1, LANES_DEFAULT), u64::from);
        let lane_bytes = options.lane_bytes.unwrap_or(log / lanes) / LINE_BYTES * LINE_BYTES;
        let lane_bytes = if u64::from(options.unit_bytes) >= PAGE_BYTES {
            lane_bytes / PAGE_BYTES * PAGE_BYTES
        } else {
            lane_bytes
        };
        // The most rows with which everything fits; of a mirror they come in twos.
        let step = match options.redundancy.is_mirrored() {
            true => 2,
            false => 1,
        };
        let with = |steps| {
            let rows = steps * step;
            Geometry::place(options, members, member_bytes, lanes, lane_bytes, rows)
        };
        let end = |steps| with(steps).slot_area.saturating_add(steps * step * block);
        let slots_a_step = match options.redundancy {
            Redundancy::Parity => 3 * u64::from(members) - 2,
            _ => u64::from(members),
        };
        let (mut steps, mut too_many) = (0, SLOTS_MAX / slots_a_step + 1);
        while steps + 1 < too_many {
            let middle = steps.midpoint(too_many);
            if end(middle) <= member_bytes {
                steps = middle;
            } else {
                too_many = middle;
            }
        }
        if steps == 0 {
            return Err(ErrorKind::Options(format!(
                "{member_bytes} bytes per member leave no room for a single block beside the log"
            ))
            .into());
        }
        let plan = with(steps);
        plan.check()?;
        Ok(plan)
    }

    fn place(
        options: &FormatOptions,
        members: u32,
        member_bytes: u64,
        lanes: u64,
        lane_bytes: u64,
        slots_per_member: u64,
    ) -> Geometry {
        // The most blocks that have slots of their own.
        let blocks = match options.redundancy {
            Redundancy::Mirror => slots_per_member / 2 * u64::from(members),
            Redundancy::Parity => slots_per_member * u64::from(members - 1),
            Redundancy::None | Redundancy::Checksum => slots_per_member * u64::from(members),
        };
        // A few more entries than that: zero entries have no slot, shared slots have several.
        let entries = (blocks + blocks / 8 + 4).next_multiple_of(LINE_BYTES / ENTRY_BYTES);
        Geometry {
            block_bytes: options.block_bytes,
            unit_bytes: options.unit_bytes,
            members,
            is_mirrored: options.redundancy.is_mirrored(),
            has_rows: options.redundancy == Redundancy::Parity,
            has_lone_seals: options.redundancy == Redundancy::Checksum,
            has_all_seals: options.redundancy == Redundancy::Checksum,
            member_bytes,
            volumes: options.volumes,
            lanes: lanes as u32,
            lane_bytes,
            entries: entries as u32,
            slots_per_member: slots_per_member as u32,
            ..Geometry::UNPLACED
        }
        .laid_out()
    }

    /// The plan that a superblock describes.
    pub(crate) fn from_superblock(superblock: &Superblock) -> Geometry {
        Geometry {
            block_bytes: superblock.block_bytes,
            unit_bytes: superblock.unit_bytes,
            members: superblock.members,
            is_mirrored: superblock.flags & FLAG_MIRROR != 0,
            has_rows: superblock.flags & FLAG_ROWS != 0,
            has_lone_seals: superblock.flags & FLAG_SEALED != 0,
            member_bytes: superblock.member_bytes,
            volumes: superblock.volumes,
            lanes: superblock.lanes,
            lane_bytes: superblock.lane_bytes,
            entries: superblock.entries,
            slots_per_member: superblock.slots_per_member,
            ..Geometry::UNPLACED
        }
        .laid_out()
    }

    pub(crate) fn sizes(&self) -> Sizes {
        Sizes {
            member_bytes: self.member_bytes,
            entries: self.entries,
            slots_per_member: self.slots_per_member,
            lane_lines: (self.lane_bytes / LINE_BYTES) as u32,
            has_all_seals: self.has_all_seals,
        }
    }

    /// The plan of the same pool with these sizes. What lies before the entry table stays in place.
    pub(crate) fn with_sizes(&self, sizes: Sizes) -> Geometry {
        Geometry {
            member_bytes: sizes.member_bytes,
            entries: sizes.entries,
            slots_per_member: sizes.slots_per_member,
            lane_bytes: u64::from(sizes.lane_lines) * LINE_BYTES,
            has_all_seals: sizes.has_all_seals,
            ..*self
        }
        .laid_out()
    }

    /// The plan of the same pool with members of `member_bytes`. A log that was planned by default
    /// grows too.
    pub(crate) fn grown(&self, member_bytes: u64) -> Result<Geometry> {
        if member_bytes < self.member_bytes {
            return Err(ErrorKind::Options(format!(
                "{member_bytes} bytes a member; they have {} and a pool cannot shrink",
                self.member_bytes
            ))
            .into());
        }
        let plan = |member_bytes, lane_bytes| {
            let options = FormatOptions {
                block_bytes: self.block_bytes,
                lanes: Some(self.lanes),
                lane_bytes,
                volumes: self.volumes,
                unit_bytes: self.unit_bytes,
                redundancy: self.redundancy(),
                ..FormatOptions::default()
            };
            Geometry::plan(&options, self.members, member_bytes)
        };
        let by_default = plan(self.member_bytes, None);
        let is_default =
            by_default.is_ok_and(|by_default| by_default.lane_bytes == self.lane_bytes);
        let lane_bytes = (!is_default).then_some(self.lane_bytes);
        Ok(self.with_sizes(plan(member_bytes, lane_bytes)?.sizes()))
    }

    /// The same numbers with every offset in its place.
    fn laid_out(mut self) -> Geometry {
        let unit = u64::from(self.unit_bytes.max(1));
        let round = |offset: u64| offset.saturating_add(unit - 1) / unit * unit;
        let head_units = if self.is_mirrored { 7 } else { 5 };
        self.commit_words = unit.saturating_mul(head_units);
        let words = u64::from(self.lanes) * LINE_BYTES;
        self.volume_table = round(self.commit_words.saturating_add(words));
        let volumes = u64::from(self.volumes) * 2 * VOLUME_BYTES as u64;
        self.entry_table = round(self.volume_table.saturating_add(volumes));
        let table = u64::from(self.entries) * ENTRY_BYTES;
        self.seals = round(self.entry_table.saturating_add(table));
        let seals = match self.is_sealed() {
            true => table / LINE_BYTES * SEAL_BYTES,
            false => 0,
        };
        self.lane_area = round(self.seals.saturating_add(seals));
        let lanes = u64::from(self.lanes).saturating_mul(self.lane_bytes);
        let block = u64::from(self.block_bytes.max(1));
        self.slot_area =
            round(self.lane_area.saturating_add(lanes)).saturating_add(block - 1) / block * block;
        self
    }

    /// How what must not be lost is protected.
    pub(crate) fn redundancy(&self) -> Redundancy {
        match (self.is_mirrored, self.has_lone_seals) {
            (true, _) if self.has_rows => Redundancy::Parity,
            (true, _) => Redundancy::Mirror,
            (false, true) => Redundancy::Checksum,
            (false, false) => Redundancy::None,
        }
    }
    /// Whether lines of the table have seals.
    #[inline]
    pub(crate) fn is_sealed(&self) -> bool {
        self.is_mirrored || self.has_lone_seals
    }

    /// Refuses numbers that no pool has: whatever a file says, nothing below indexes outside it.
    pub(crate) fn check(&self) -> Result<()> {
        check_units(self.block_bytes, self.unit_bytes)?;
        check_counts(self.members, self.lanes, self.volumes)?;
        check_mirror(self.is_mirrored, self.members)?;
        check_rows(self.has_rows, self.members)?;
        if self.has_rows && !self.is_mirrored {
            return impossible("rows without a mirror".into());
        }
        if !self.lane_bytes.is_multiple_of(LINE_BYTES)
            || self.lane_bytes < 4 * LINE_BYTES
            || self.lane_bytes > 1 << 30
            || (u64::from(self.unit_bytes) >= PAGE_BYTES
                && !self.lane_bytes.is_multiple_of(PAGE_BYTES))
        {
            return impossible(format!("lanes of {} bytes", self.lane_bytes));
        }
        // Recovery numbers the log's bytes with 32 bits.
        if u64::from(self.lanes) * self.lane_bytes > u64::from(u32::MAX) {
            return impossible(format!("{} lanes of {} bytes", self.lanes, self.lane_bytes));
        }
        let slots = self.total_slots();
        if slots == 0
            || slots > SLOTS_MAX
            || u64::from(self.entries) < self.total_places().max(self.total_columns())
            || self.entries > 1 << 30
            || !self.entries.is_multiple_of(4)
        {
            return impossible(format!("{slots} slots with {} entries", self.entries));
        }
        if self.is_mirrored && !self.slots_per_member.is_multiple_of(2) {
            return impossible(format!("{} rows of a mirror", self.slots_per_member));
        }
        let end = self
            .slot_area
            .saturating_add(u64::from(self.slots_per_member) * u64::from(self.block_bytes));
        if end > self.member_bytes {
            return impossible(format!(
                "the plan ends at byte {end}, a member has {} bytes",
                self.member_bytes
            ));
        }
        Ok(())
    }

    /// Blocks have `1 << block_shift()` bytes.
    #[inline]
    pub(crate) fn block_shift(&self) -> u32 {
        self.block_bytes.trailing_zeros()
    }
    pub(crate) fn slots(&self) -> u32 {
        self.total_slots() as u32
    }
    /// Blocks that there is surely room for, of whatever size the transactions were that wrote them.
    pub(crate) fn room(&self) -> u32 {
        self.total_places() as u32
    }
    /// May be more than any pool has, of numbers that were read and not checked.
    fn total_slots(&self) -> u64 {
        self.total_places() + self.total_columns()
    }
    /// The same of slots that are no columns of rows.
    fn total_places(&self) -> u64 {
        let rows = match self.is_mirrored {
            true => self.slots_per_member / 2,
            false => self.slots_per_member,
        };
        u64::from(rows) * u64::from(self.members)
    }
    /// And of columns of rows.
    fn total_columns(&self) -> u64 {
        match self.has_rows {
            true => u64::from(self.slots_per_member) * u64::from(self.members.saturating_sub(1)),
            false => 0,
        }
    }
    /// Offset of incarnation line 0 or 1.
    pub(crate) fn incarnation_line(&self, which: usize) -> u64 {
        (1 + which as u64) * u64::from(self.unit_bytes)
    }
    /// Offset of checkpoint line 0 or 1.
    pub(crate) fn checkpoint_line(&self, which: usize) -> u64 {
        (3 + which as u64) * u64::from(self.unit_bytes)
    }
    /// Offset of roster line 0 or 1 of a mirrored pool.
    pub(crate) fn roster_line(&self, which: usize) -> u64 {
        debug_assert!(self.is_mirrored);
        (5 + which as u64) * u64::from(self.unit_bytes)
    }
    pub(crate) fn volume_line(&self, volume_index: u32, which: u64) -> u64 {
        self.volume_table + (u64::from(volume_index) * 2 + which) * VOLUME_BYTES as u64
    }
    #[inline]
    pub(crate) fn entry_offset(&self, index: u32) -> u64 {
        debug_assert!(index < self.entries);
        self.entry_table + u64::from(index) * ENTRY_BYTES
    }
    /// Offset of the seal of a line of the table.
    #[inline]
    pub(crate) fn seal_offset(&self, line: u32) -> u64 {
        debug_assert!(self.is_sealed());
        self.seals + u64::from(line) * SEAL_BYTES
    }
    pub(crate) fn lane_offset(&self, lane: u32) -> u64 {
        self.lane_area + u64::from(lane) * self.lane_bytes
    }
    pub(crate) fn commit_word(&self, lane: u32) -> u64 {
        self.commit_words + u64::from(lane) * LINE_BYTES
    }
    /// Member and offset of a slot; of a mirror, of its first half.
    #[inline]
    pub(crate) fn slot_place(&self, slot: u32) -> (usize, u64) {
        debug_assert!(slot < self.slots());
        let (member, row) = if self.members == 1 {
            (0, slot)
        } else if self.is_mirrored {
            (slot % self.members, slot / self.members * 2)
        } else {
            (slot % self.members, slot / self.members)
        };
        (
            member as usize,
            self.slot_area + u64::from(row) * u64::from(self.block_bytes),
        )
    }
    /// Members and offsets of both halves of a slot of a mirror: for every number of members on two, and each member
    /// has as many first halves as second ones.
    #[inline]
    pub(crate) fn slot_pair(&self, slot: u32) -> Pair {
        debug_assert!(self.is_mirrored);
        let (first, first_offset) = self.slot_place(slot);
        let first = first as u32;
        let next = first + 1;
        Pair {
            first,
            second: if next == self.members { 0 } else { next },
            first_offset,
            second_offset: first_offset + u64::from(self.block_bytes),
        }
    }
    /// The slots of a mirror of which a half has bytes in a range of this member, which lies behind the metadata: the
    /// inverse of [`Geometry::slot_pair`].
    pub(crate) fn slots_at(&self, member: u32, bytes: &Range<u64>) -> Vec<u32> {
        debug_assert!(self.is_mirrored && bytes.start >= self.slot_area);
        let block = u64::from(self.block_bytes);
        let end = u64::from(self.slots_per_member) * block;
        let within = |offset: u64| (offset - self.slot_area).min(end);
        let rows = within(bytes.start) / block..within(bytes.end).div_ceil(block);
        let slot = |row: u64| {
            // Even rows have first halves, odd ones second halves, of slots that begin on the member before.
            let first = match row % 2 {
                0 => member,
                _ => member.checked_sub(1).unwrap_or(self.members - 1),
            };
            (row / 2) as u32 * self.members + first
        };
        rows.map(slot).collect()
    }
    /// The most payload one transaction can hold: 4 MiB or an eighth of the pool, and no more
    /// blocks than half a lane has elements for.
    pub(crate) fn transaction_limit_bytes(&self) -> u64 {
        let block = u64::from(self.block_bytes);
        let eighth = (u64::from(self.room()) / 8).max(1) * block;
        let elements = (self.lane_bytes / 2 - crate::media::layout::RECORD_HEADER_BYTES as u64)
            / crate::media::layout::ELEMENT_BYTES as u64;
        TRANSACTION_BYTES_MAX
            .min(eighth)
            .min(elements.max(1) * block)
            .max(block)
    }
}

fn impossible(what: String) -> Result<()> {
    Err(ErrorKind::Options(what).into())
}

fn check_units(block_bytes: u32, unit_bytes: u32) -> Result<()> {
    if !block_bytes.is_power_of_two() || !(BLOCK_BYTES_MIN..=BLOCK_BYTES_MAX).contains(&block_bytes)
    {
        return impossible(format!(
            "a block of {block_bytes} bytes; a power of two from {BLOCK_BYTES_MIN} to \
             {BLOCK_BYTES_MAX} is possible"
        ));
    }
    if !unit_bytes.is_power_of_two()
        || (unit_bytes as usize) < SUPERBLOCK_BYTES.max(INCARNATION_BYTES)
        || unit_bytes > 1 << 20
    {
        return impossible(format!("a metadata unit of {unit_bytes} bytes"));
    }
    Ok(())
}

fn check_mirror(is_mirrored: bool, members: u32) -> Result<()> {
    if is_mirrored && !(2..=MIRROR_MEMBERS_MAX).contains(&members) {
        return impossible(format!(
            "a mirror of {members} members; 2 to {MIRROR_MEMBERS_MAX} are possible"
        ));
    }
    Ok(())
}

fn check_rows(has_rows: bool, members: u32) -> Result<()> {
    if has_rows && !(3..=MIRROR_MEMBERS_MAX).contains(&members) {
        return impossible(format!(
            "rows with parity on {members} members; 3 to {MIRROR_MEMBERS_MAX} are possible"
        ));
    }
    Ok(())
}

fn check_counts(members: u32, lanes: u32, volumes: u32) -> Result<()> {
    if !(1..=64).contains(&members) {
        return impossible(format!("{members} members; 1 to 64 are possible"));
    }
    if !(1..=256).contains(&lanes) {
        return impossible(format!("{lanes} lanes; 1 to 256 are possible"));
    }
    if !(1..=64).contains(&volumes) {
        return impossible(format!("{volumes} volumes; 1 to 64 are possible"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
