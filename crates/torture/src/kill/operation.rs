//! What a program is asked to do with files, one at a time, and its answer.

use std::hash::{DefaultHasher, Hasher};

use fastrand::Rng;
use serde::{Deserialize, Serialize};

pub const SLOTS: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    Plain,
    DataSync,
    Append,
}

/// One call. Paths are relative to the directory under test; bytes are drawn from a seed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operation {
    Create {
        slot: usize,
        path: String,
        mode: u32,
        kind: Kind,
    },
    Open {
        slot: usize,
        path: String,
        kind: Kind,
    },
    Close {
        slot: usize,
    },
    /// With [`Kind::Append`] it goes to the end, wherever `offset` is.
    Write {
        slot: usize,
        offset: u64,
        len: usize,
        seed: u64,
    },
    Truncate {
        slot: usize,
        size: u64,
    },
    Sync {
        slot: usize,
        is_data_only: bool,
    },
    /// The answer is the checksum of what was read.
    Read {
        slot: usize,
        offset: u64,
        len: usize,
    },
    MakeDirectory {
        path: String,
        mode: u32,
    },
    RemoveDirectory {
        path: String,
    },
    SyncDirectory {
        path: String,
    },
    Rename {
        from: String,
        to: String,
    },
    Exchange {
        from: String,
        to: String,
    },
    Link {
        from: String,
        to: String,
    },
    Unlink {
        path: String,
    },
    MakeLink {
        path: String,
        target: String,
    },
}

/// What came of it: a number that means something for reads only, or the error in words.
pub type Answer = std::result::Result<u64, String>;

pub fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    Rng::with_seed(seed).fill(&mut bytes);
    bytes
}

pub fn checksum(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}
