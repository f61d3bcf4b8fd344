//! What an engine of the lab is, beside what every cache is: which one, and how its blocks are written.

#[cfg(test)]
use crate::faulty;
use forebay::Backing;
use forebay_lab::Engine;
use forebay_lab::engines::{self, EngineName, EngineOptions, Watermarks};
use forebay_pmem::Region;
use std::fmt;

/// What makes and opens an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Maker {
    /// The lab.
    Lab(EngineName),
    /// One of its engines, perhaps with a fault around it.
    #[cfg(test)]
    Faulty(faulty::Fault),
}

impl Maker {
    /// Whether the engine has a journal on the disk.
    pub fn has_journal(self) -> bool {
        self == Maker::Lab(EngineName::Classic)
    }

    /// Makes the engine anew, or opens it.
    pub fn start(
        self,
        (region, backing): (Region, Backing),
        options: &EngineOptions,
        is_new: bool,
    ) -> forebay::Result<Box<dyn Engine>> {
        match self {
            Maker::Lab(name) if is_new => engines::create(name, region, backing, options),
            Maker::Lab(name) => engines::open(name, region, backing, options),
            #[cfg(test)]
            Maker::Faulty(fault) => faulty::start(fault, region, backing, options, is_new),
        }
    }
}

impl fmt::Display for Maker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The name alone is the pool's, without the engine's trait before it.
            Maker::Lab(EngineName::Forebay) => f.write_str("forebay-engine"),
            Maker::Lab(name) => f.write_str(name.as_str()),
            #[cfg(test)]
            Maker::Faulty(fault) => write!(f, "faulty {fault:?}"),
        }
    }
}

/// What the shape of an engine has beside that of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EngineShape {
    /// Which engine.
    pub maker: Maker,
    /// Its paper's protocol exactly as printed.
    pub as_printed: bool,
    /// The marks of its cleaner, if it has one; actors do its threads' work.
    pub cleaner: Option<Watermarks>,
    /// Elements of its ring, if it has one.
    pub ring_elements: u64,
    /// Blocks of a set, if it has sets.
    pub set_blocks: usize,
    /// Blocks of its journal, if it has one on the disk.
    pub journal_blocks: usize,
    /// How each block is written.
    pub roles: Roles,
}

/// Which blocks are metadata: two bits a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Roles(pub u64);

/// How a block is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Whole.
    Data,
    /// In parts, as metadata.
    Metadata,
    /// Now so, now so.
    Both,
}

/// Bytes of an inode in every shape.
pub const INODE_BYTES: usize = 64;

impl Roles {
    /// How `block` is written.
    pub fn of(self, block: usize) -> Role {
        match self.0 >> (block * 2) & 3 {
            0 | 1 => Role::Data,
            2 => Role::Metadata,
            _ => Role::Both,
        }
    }
}

impl EngineShape {
    /// Blocks of the backing that the engine keeps from its users.
    pub fn own_blocks(&self) -> usize {
        if self.maker.has_journal() {
            self.journal_blocks
        } else {
            0
        }
    }
}
