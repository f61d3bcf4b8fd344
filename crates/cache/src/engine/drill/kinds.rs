//! What a drill is, and what it did.

use crate::error::{ErrorKind, Result};
use crate::media::areas::MediumArea;

/// What a drill breaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DrillKind {
    /// A bit of what stands there is turned over.
    BitFlip,
    /// The next write there is lost, behind a good fence.
    LostWrite,
    /// The next write there arrives elsewhere in the same part.
    MisdirectedWrite,
    /// For a moment loads of a block get another one.
    MisdirectedRead,
    /// Of a line of the next write there some words do not arrive.
    TornLine,
    /// A page fails under the next access, and its bytes are gone.
    Poison,
    /// All fences of the member fail from now on.
    DeadMember,
}

/// A drill.
#[derive(Clone, Debug)]
pub struct Drill {
    /// What it breaks.
    pub kind: DrillKind,
    /// The member that does it; by default that which is read first of the block, or the first one.
    pub member: Option<u32>,
    /// In which part.
    pub area: MediumArea,
    /// A volume's id and a block of it, where the part is the blocks; any that is cached by default.
    pub block: Option<(u32, u64)>,
    /// What is left to chance follows from it.
    pub seed: Option<u64>,
}

/// What a drill did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DrillStrike {
    /// The member.
    pub member: u32,
    /// The first byte of it that was meant; of a dead member 0.
    pub offset: u64,
    /// How many bytes; of a dead member all.
    pub bytes: u64,
    /// The bit of that byte.
    pub bit: Option<u8>,
    /// Where the bytes went, or came from, that were misdirected.
    pub other_offset: Option<u64>,
    /// The volume's id and the block that stands there.
    pub block: Option<(u32, u64)>,
    /// The drill's, or the one that was drawn for it.
    pub seed: u64,
}

pub(super) fn refused<T>(why: impl Into<String>) -> Result<T> {
    Err(ErrorKind::Options(why.into()).into())
}

impl Drill {
    pub(super) fn check(&self) -> Result<()> {
        use DrillKind::{LostWrite, MisdirectedRead, MisdirectedWrite, TornLine};
        let is_of_write = matches!(self.kind, LostWrite | MisdirectedWrite | TornLine);
        let is_written = !matches!(
            self.area,
            MediumArea::Superblock | MediumArea::Incarnation | MediumArea::Roster
        );
        if is_of_write && !is_written {
            return refused(
                "what a drill would wait for is not written there while a pool is served, or read back at once; \
                 flip a bit there instead",
            );
        }
        if self.kind == MisdirectedRead && self.area != MediumArea::Slots {
            return refused("a misdirected read is one of a block: leave the part out");
        }
        if self.block.is_some() && self.area != MediumArea::Slots {
            return refused("a block is in the part for blocks: leave either out");
        }
        Ok(())
    }
}
