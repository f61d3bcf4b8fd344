//! What an operation takes per block besides its bytes: all that the library executes between the call
//! and its return, without the loops of `forebay-pmem` that copy and sum, and without copying the
//! payload. The runs differ by so many operations that the log is filled, and checkpointed, at least twice.

use std::collections::BTreeMap;

use forebay::Volume;
use forebay_harness::Result;

use super::callgrind::{self, FEW, Loop};
use crate::payload::{BLOCK_BYTES, Blocks, Payload};
use crate::pools::commit_one;
use crate::scratch::Scratch;

/// Functions that are not counted: the loops over bytes, the system library's copy with them.
const LOOPS_OVER_BYTES: [&str; 3] = ["forebay_pmem::arch::", "memcpy", "memmove"];

/// The functions below that call the library.
const COUNTED_FUNCTIONS: &str = "*forebay_bench::counts::bookkeeping::counted*";

/// Blocks of the larger transaction.
const BLOCKS: usize = 16;

/// What the longer run does more, in blocks: commits of one block fill the log twice.
const COUNTED_BLOCKS: u64 = 16 << 10;

/// An operation, by its row.
#[derive(Clone, Copy)]
pub(super) enum Operation {
    CommitOne,
    CommitSixteen,
    ReadHit,
}

impl Operation {
    const ALL: [Operation; 3] = [
        Operation::CommitOne,
        Operation::CommitSixteen,
        Operation::ReadHit,
    ];

    fn name(self) -> &'static str {
        match self {
            Operation::CommitOne => "commit_1x4k_bookkeeping",
            Operation::CommitSixteen => "commit_16x4k_bookkeeping",
            Operation::ReadHit => "read_hit_4k_bookkeeping",
        }
    }

    fn blocks(self) -> u64 {
        match self {
            Operation::CommitSixteen => BLOCKS as u64,
            Operation::CommitOne | Operation::ReadHit => 1,
        }
    }

    /// The operation of this name.
    pub(super) fn named(name: &str) -> Option<Operation> {
        Operation::ALL
            .into_iter()
            .find(|operation| operation.name() == name)
    }

    /// The counted process: the operation so many times.
    pub(super) fn repeat(
        self,
        times: u64,
        volume: &Volume,
        blocks: &mut Blocks,
        payload: &mut Payload,
    ) -> Result<()> {
        let mut bytes = vec![0; BLOCKS * BLOCK_BYTES];
        for _ in 0..times {
            match self {
                Operation::CommitOne => counted_commit(volume, blocks.next(), payload.next())?,
                Operation::CommitSixteen => {
                    for block in bytes.chunks_exact_mut(BLOCK_BYTES) {
                        block.copy_from_slice(payload.next());
                    }
                    counted_commits(volume, &blocks.next_distinct(), &bytes)?;
                }
                Operation::ReadHit => {
                    counted_read(volume, blocks.next(), &mut bytes[..BLOCK_BYTES])?
                }
            }
        }
        Ok(())
    }
}

#[inline(never)]
fn counted_commit(volume: &Volume, block: u64, data: &[u8]) -> Result<()> {
    commit_one(volume, block, data)
}

#[inline(never)]
fn counted_commits(volume: &Volume, blocks: &[u64; BLOCKS], data: &[u8]) -> Result<()> {
    let mut transaction = volume.begin();
    for (block, data) in blocks.iter().zip(data.chunks_exact(BLOCK_BYTES)) {
        transaction.write(*block, data)?;
    }
    Ok(transaction.commit()?)
}

#[inline(never)]
fn counted_read(volume: &Volume, block: u64, out: &mut [u8]) -> Result<()> {
    Ok(volume.read(block, out)?)
}

/// Counts all of them per block, into rows of their names.
pub(super) fn count(scratch: &Scratch, rows: &mut BTreeMap<String, u64>) -> Result<()> {
    for operation in Operation::ALL {
        let name = operation.name();
        let cost = |times| {
            let asked = Loop {
                operation: name,
                times,
                counted_function: Some(COUNTED_FUNCTIONS),
            };
            let profile = callgrind::run(scratch, &asked)?;
            let is_loop = |name: &str| LOOPS_OVER_BYTES.iter().any(|part| name.contains(part));
            Result::Ok(profile.of(|name| !is_loop(name)))
        };
        let more = match operation {
            // A record of sixteen is seven lines long, of which some fit no lane's end.
            Operation::CommitSixteen => 4 * COUNTED_BLOCKS,
            Operation::CommitOne | Operation::ReadHit => COUNTED_BLOCKS,
        };
        let (few, many) = (cost(FEW)?, cost(FEW + more / operation.blocks())?);
        let per_block = |few: u64, many: u64| (many - few) / more;
        let instructions = per_block(few.instructions, many.instructions);
        let stores = per_block(few.stores, many.stores);
        rows.insert(format!("{name}_instructions"), instructions);
        rows.insert(format!("{name}_stores"), stores);
    }
    Ok(())
}
