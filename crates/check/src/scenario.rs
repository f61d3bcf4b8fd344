//! What a run is made of: the shape of a cache, and for each actor a script. All of it is drawn
//! from a seed: for Forebay's pools here and in [`crate::load`], in [`crate::engine_scenario`] for engines.

use crate::engine_shape::EngineShape;
use crate::harm::Harm;
use forebay_pmem::shadow::ShadowModel;

/// A cache and what lies behind it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Bytes of a block.
    pub block_bytes: usize,
    /// Two fences a commit.
    pub strict: bool,
    /// Without, the pool is strict.
    pub checksums: bool,
    /// Page granularity instead of cache lines.
    pub pages: bool,
    /// Members of the pool.
    pub members: usize,
    /// Slots that the pool has, about.
    pub slots: usize,
    /// Volumes, each with a backing of its own.
    pub volumes: usize,
    /// Blocks of each backing, and of its volume once that has grown.
    pub volume_blocks: usize,
    /// Blocks of each volume while it has not grown.
    pub first_blocks: usize,
    /// Bytes that each backing lacks of its last block, and so many its volume lacks while it has not
    /// grown.
    pub odd_bytes: (usize, usize),
    /// Lanes.
    pub lanes: u32,
    /// Bytes of a lane's log.
    pub lane_bytes: u64,
    /// Reads bring blocks into the pool.
    pub fill_on_read: bool,
    /// Reads that follow one another pass the pool by once they have come to more blocks than these; 0 if none do.
    pub cutoff_blocks: usize,
    /// Blocks that are read ahead of such reads.
    pub ahead_blocks: usize,
    /// The backings prefer long rounds of write-back.
    pub long_rounds: bool,
    /// Equal blocks share slots.
    pub shares: bool,
    /// Blocks that differ little are stored as what differs.
    pub compares: bool,
    /// Reads compare what they find with its check.
    pub verifies: bool,
    /// Least recently used blocks leave first, to begin with.
    pub is_lru: bool,
    /// Per mille of the slots that may be dirty, and that are to be free, before background threads do
    /// something.
    pub watermarks: (u32, u32),
    /// Bits of a CRC by which the pool looks for equal blocks.
    pub duplicate_bits: u32,
    /// The volumes are attached before the first incarnation.
    pub starts_attached: bool,
    /// There is room for the pool to grow.
    pub grows: bool,
    /// The pool keeps its entry table in DRAM while it is open.
    pub entries_in_dram: bool,
    /// The members hold the same: each block two of them.
    pub mirrored: bool,
    /// Of those: what one transaction writes may share a parity.
    pub has_rows: bool,
    /// Lines of the table have seals, and one copy.
    pub sealed: bool,
    /// An engine and not a pool: of the above only the sizes of blocks, slots and disk and
    /// `fill_on_read` say something then.
    pub engine: Option<EngineShape>,
}

impl Shape {
    /// A shape drawn from `rng`: mostly tiny, for tiny pools reuse everything soonest.
    pub fn random(rng: &mut fastrand::Rng) -> Shape {
        let pages = rng.u8(..10) == 0;
        let block_bytes = match rng.u8(..16) {
            0 if rng.u8(..6) == 0 => 65536,
            0 => 4096,
            1..=3 => 512,
            _ if pages => 512,
            _ => 128,
        };
        let checksums = rng.u8(..12) > 0;
        let slots = match block_bytes {
            65536 => 8,
            4096 => 9,
            _ => rng.usize(8..28),
        };
        let lanes = rng.u32(1..=3);
        let lane_bytes = if pages {
            16384
        } else {
            [512, 768, 1024, 2048][rng.usize(..4)]
        };
        let volumes = [1, 1, 1, 2, 2, 2, 3][rng.usize(..7)];
        let volume_blocks = rng.usize(3..=(slots * 3 / 2 / volumes).min(20));
        let starts_attached = rng.u8(..4) > 0;
        let odd_bytes = |rng: &mut fastrand::Rng| match rng.u8(..4) {
            0 => rng.usize(1..block_bytes),
            _ => 0,
        };
        let has_small_volumes = starts_attached && rng.u8(..3) == 0;
        Shape {
            block_bytes,
            strict: !checksums || rng.u8(..4) == 0,
            checksums,
            pages,
            members: [1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 3][rng.usize(..12)],
            slots,
            volumes,
            volume_blocks,
            first_blocks: if has_small_volumes {
                rng.usize(1..volume_blocks)
            } else {
                volume_blocks
            },
            odd_bytes: (odd_bytes(rng), odd_bytes(rng)),
            lanes,
            // Two deltas of a big block would not fit a record otherwise.
            lane_bytes: if block_bytes > 128 {
                lane_bytes.max(2048)
            } else {
                lane_bytes
            },
            fill_on_read: rng.bool(),
            cutoff_blocks: 0,
            ahead_blocks: 0,
            long_rounds: false,
            shares: rng.u8(..4) > 0,
            compares: rng.u8(..4) > 0,
            verifies: rng.u8(..4) > 0,
            is_lru: rng.u8(..3) == 0,
            watermarks: (
                [0, 250, 500][rng.usize(..3)],
                [20, 200, 400][rng.usize(..3)],
            ),
            duplicate_bits: [u32::BITS, u32::BITS, 1, 3][rng.usize(..4)],
            starts_attached,
            grows: rng.u8(..6) == 0,
            entries_in_dram: false,
            mirrored: false,
            has_rows: false,
            sealed: false,
            engine: None,
        }
    }

    /// The smallest pool that does everything: for exhaustive runs.
    pub fn smallest(strict: bool) -> Shape {
        Shape {
            block_bytes: 128,
            strict,
            checksums: true,
            pages: false,
            members: 1,
            slots: 24,
            volumes: 1,
            volume_blocks: 4,
            first_blocks: 4,
            odd_bytes: (0, 0),
            lanes: 2,
            lane_bytes: 512,
            fill_on_read: false,
            cutoff_blocks: 0,
            ahead_blocks: 0,
            long_rounds: false,
            shares: true,
            compares: true,
            verifies: true,
            is_lru: false,
            watermarks: (500, 20),
            duplicate_bits: u32::BITS,
            starts_attached: true,
            grows: false,
            entries_in_dram: false,
            mirrored: false,
            has_rows: false,
            sealed: false,
            engine: None,
        }
    }

    /// The same on members that hold the same.
    pub fn mirrored_on(self, members: usize) -> Shape {
        Shape {
            mirrored: true,
            members,
            // Without them no half could be told from the other.
            checksums: true,
            ..self
        }
    }

    /// How crashes leave the pool.
    pub fn model(&self) -> ShadowModel {
        if self.pages {
            ShadowModel::Pages
        } else {
            ShadowModel::Lines
        }
    }

    /// Bytes between metadata lines.
    pub fn unit_bytes(&self) -> usize {
        match (self.pages, self.mirrored) {
            (true, _) => 4096,
            // With room for a list of bad places.
            (false, true) => 512,
            (false, false) => 256,
        }
    }

    /// Bytes of each member as the pool is made.
    pub fn member_bytes(&self) -> u64 {
        self.bytes_for(self.slots)
    }

    /// Bytes of each member's medium, which the pool may grow to.
    pub fn medium_bytes(&self) -> u64 {
        self.bytes_for(if self.grows {
            self.slots * 3 / 2
        } else {
            self.slots
        })
    }

    fn bytes_for(&self, slots: usize) -> u64 {
        let unit = self.unit_bytes() as u64;
        let round = |bytes: u64| bytes.next_multiple_of(unit);
        let slots = slots.next_multiple_of(self.members) as u64;
        let blocks = match self.has_rows {
            true => slots / self.members as u64 * 2 * (self.members as u64 - 1),
            false => slots,
        };
        let entries = (blocks + blocks / 8 + 4).next_multiple_of(4);
        let head_units = if self.mirrored { 7 } else { 5 };
        let has_seals = self.mirrored || self.sealed;
        let seals = if has_seals { entries * 2 } else { 0 };
        let fixed = round(unit * head_units + u64::from(self.lanes) * 64)
            + round(self.volumes as u64 * 1024)
            + round(entries * 16)
            + round(seals)
            + round(u64::from(self.lanes) * self.lane_bytes);
        let block = self.block_bytes as u64;
        let copies = if self.mirrored { 2 } else { 1 };
        (fixed.next_multiple_of(block) + copies * slots / self.members as u64 * block)
            .next_multiple_of(unit.max(block))
    }

    /// Bytes of each backing: the disk, and what the engine keeps there for itself.
    pub fn volume_bytes(&self) -> usize {
        let own_blocks = self.engine.map_or(0, |engine| engine.own_blocks());
        (self.volume_blocks + own_blocks) * self.block_bytes - self.odd_bytes.0
    }

    /// Bytes of each volume while it has not grown.
    pub fn first_bytes(&self) -> usize {
        let odd_bytes = match self.first_blocks == self.volume_blocks {
            true => self.odd_bytes.0,
            false => self.odd_bytes.1,
        };
        self.first_blocks * self.block_bytes - odd_bytes
    }

    /// How many bytes of a block lie within a volume of `size_bytes` bytes, or within the backing.
    pub fn bytes_of(&self, size_bytes: u64, block: usize) -> usize {
        let size_bytes = (size_bytes as usize).min(self.volume_bytes());
        let start = (block * self.block_bytes).min(size_bytes);
        (size_bytes - start).min(self.block_bytes)
    }

    /// Where a volume ends within a block until it grows: what is written there behind its end goes, and
    /// what the backing has there comes.
    pub fn odd_end(&self) -> Option<(usize, usize)> {
        let is_odd = self.first_blocks < self.volume_blocks && self.odd_bytes.1 > 0;
        is_odd.then(|| (self.first_blocks - 1, self.block_bytes - self.odd_bytes.1))
    }

    /// What the backings tear at.
    pub fn sector_bytes(&self) -> usize {
        if self.block_bytes < 512 { 64 } else { 512 }
    }

    /// Blocks of all volumes.
    pub fn blocks(&self) -> usize {
        self.volumes * self.volume_blocks
    }

    /// The number of a block among those of all volumes.
    pub fn block_index(&self, volume: usize, block: usize) -> usize {
        volume * self.volume_blocks + block
    }
}

/// A change to one block.
#[derive(Clone, Debug)]
pub struct Item {
    /// Which block of the volume.
    pub block: usize,
    /// What becomes of it.
    pub change: Change,
}

/// What becomes of a block.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    /// New bytes throughout.
    Whole(u64),
    /// One of a few contents that come up again and again, or one like them.
    Known(u64),
    /// The bytes that are there, but for a few.
    Similar(u64),
    /// `len` bytes from `offset` on.
    Part {
        offset: usize,
        len: usize,
        seed: u64,
    },
    /// New bytes after as many as the volume's appender wrote before.
    Append { len: usize, seed: u64 },
    /// Zeroes.
    Discard,
    /// Some ranges of a block of metadata, and the engine is told which.
    Update(u64),
    /// What another block of the volume holds, each as it is found.
    Copy(usize),
}

/// One step of an actor.
#[derive(Clone, Debug)]
pub enum Step {
    /// A transaction.
    Transaction {
        volume: usize,
        items: Vec<Item>,
        abort: bool,
    },
    /// A read.
    Read { volume: usize, block: usize },
    /// A read of several blocks at one moment.
    ReadAtomic {
        volume: usize,
        block: usize,
        count: usize,
    },
    /// A read of several blocks, each at some moment.
    ReadRange { block: usize, count: usize },
    /// Zeroes, not as a transaction.
    DiscardRange {
        volume: usize,
        block: usize,
        count: usize,
    },
    /// One round of write-back.
    WriteBack,
    /// Take a block out of the pool, written back or not, with no other actor at work.
    Forget { volume: usize, block: usize },
    /// An append and a word elsewhere with one call.
    AppendWord {
        volume: usize,
        block: usize,
        len: usize,
        word_at: usize,
        seed: u64,
    },
    /// What one of the background threads does.
    Background(u8),
    /// Evict this many clean blocks.
    Reclaim(usize),
    /// A checkpoint.
    Checkpoint,
    /// Drain a volume.
    Flush(usize),
    /// Detach a volume, and attach its backing again as a new one.
    Detach(usize),
    /// Let a volume have all of its backing.
    GrowVolume(usize),
    /// Change the replacement policy to the other one.
    SwitchReplacement,
    /// So many of the next writes and syncs of a backing fail.
    FailStore {
        volume: usize,
        writes: u32,
        syncs: u32,
    },
    /// After `after` fences that succeed, one fails, and the pool refuses writes.
    FailFence { after: u32 },
    /// A page of a member goes bad, and is met.
    LosePage { member: usize, page: u64 },
    /// The same of one among the slots of a mirrored pool's member, which `pick` chooses.
    LoseSlot { member: usize, pick: u64 },
    /// A member of a mirrored pool does something wrong, now or at its next occasion.
    Harm(Harm),
    /// Caches forget what they hold of the members.
    Evict,
    /// Everything is read and compared, and put right where it can be.
    Scrub,
    /// A member of a mirrored pool is taken out.
    FailMember(u32),
    /// And rebuilt where it was, or on something blank.
    ReplaceMember { member: u32, is_blank: bool },
}

impl Step {
    /// The next sync of the first volume's backing fails.
    pub const SYNC_FAILS: Step = Step::FailStore {
        volume: 0,
        writes: 0,
        syncs: 1,
    };
}

/// A transaction of such changes of blocks of the first volume.
pub fn write_all(items: impl IntoIterator<Item = (usize, Change)>) -> Step {
    let items = items.into_iter();
    Step::Transaction {
        volume: 0,
        items: items
            .map(|(block, change)| Item { block, change })
            .collect(),
        abort: false,
    }
}

/// A change of one block.
pub fn write(block: usize, change: Change) -> Step {
    write_all([(block, change)])
}

/// A read of one block.
pub fn read(block: usize) -> Step {
    Step::Read { volume: 0, block }
}

/// One block is zeroed, not as a transaction.
pub fn zero(block: usize) -> Step {
    Step::DiscardRange {
        volume: 0,
        block,
        count: 1,
    }
}

/// What each actor does.
pub type Script = Vec<Vec<Step>>;
