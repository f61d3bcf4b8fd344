//! A running transaction: blocks collected in DRAM until the engine commits them, as in every one of
//! the papers.

use std::collections::HashMap;
use std::ops::Range;

use crate::{Engine, EngineTransaction};
use forebay::{ErrorKind, Result};

use super::check_blocks;

/// A block that a transaction changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChangedBlock {
    /// Its number on the disk.
    pub(crate) number: u64,
    /// All its new bytes.
    pub(crate) bytes: Box<[u8]>,
    /// For metadata, the ranges that differ from what the engine holds; none for data.
    pub(crate) changed: Option<Vec<Range<usize>>>,
}

/// What an engine adds: the commit itself.
pub(crate) trait CommitBlocks: Engine {
    /// Makes all of these blocks durable or none. No number comes twice; there is at least one.
    fn commit_blocks(&self, blocks: &[ChangedBlock]) -> Result<()>;
}

/// Refuses a block outside the engine's disk, or bytes that are not one block.
fn check_block(engine: &impl Engine, block: u64, len: usize) -> Result<()> {
    let block_bytes = engine.block_bytes();
    if len != block_bytes {
        return Err(ErrorKind::OutOfRange {
            volume: 0,
            what: format!("{len} bytes for block {block}, which has {block_bytes}"),
        }
        .into());
    }
    check_blocks(engine, block, len)
}

/// A transaction of an engine that commits everything at once.
pub(crate) struct BufferedTransaction<'e, E> {
    engine: &'e E,
    blocks: Vec<ChangedBlock>,
    places: HashMap<u64, usize>,
}

impl<'e, E: CommitBlocks> BufferedTransaction<'e, E> {
    /// An empty transaction.
    pub(crate) fn new(engine: &'e E) -> BufferedTransaction<'e, E> {
        BufferedTransaction {
            engine,
            blocks: Vec::new(),
            places: HashMap::new(),
        }
    }

    fn put(&mut self, block: u64, data: &[u8], changed: Option<&[Range<usize>]>) -> Result<()> {
        check_block(self.engine, block, data.len())?;
        if let Some(&place) = self.places.get(&block) {
            let there = &mut self.blocks[place];
            there.bytes.copy_from_slice(data);
            // Bytes that were all new stay all new, whatever is changed in them later.
            there.changed = match (there.changed.take(), changed) {
                (Some(mut ranges), Some(more)) => {
                    ranges.extend_from_slice(more);
                    Some(ranges)
                }
                _ => None,
            };
            return Ok(());
        }
        let blocks_max = self.engine.transaction_blocks_max();
        if self.blocks.len() == blocks_max {
            let block_bytes = data.len() as u64;
            return Err(ErrorKind::TransactionTooLarge {
                asked_bytes: (blocks_max as u64 + 1) * block_bytes,
                limit_bytes: blocks_max as u64 * block_bytes,
            }
            .into());
        }
        self.places.insert(block, self.blocks.len());
        self.blocks.push(ChangedBlock {
            number: block,
            bytes: data.into(),
            changed: changed.map(<[Range<usize>]>::to_vec),
        });
        Ok(())
    }
}

impl<E: CommitBlocks> EngineTransaction for BufferedTransaction<'_, E> {
    fn write(&mut self, block: u64, data: &[u8]) -> Result<()> {
        self.put(block, data, None)
    }

    fn update(&mut self, block: u64, data: &[u8], changed: &[Range<usize>]) -> Result<()> {
        let is_outside = |range: &&Range<usize>| data.get((*range).clone()).is_none();
        if let Some(range) = changed.iter().find(is_outside) {
            return Err(ErrorKind::OutOfRange {
                volume: 0,
                what: format!("bytes {range:?} of a block of {} bytes", data.len()),
            }
            .into());
        }
        self.put(block, data, Some(changed))
    }

    fn read(&self, block: u64, out: &mut [u8]) -> Result<()> {
        check_block(self.engine, block, out.len())?;
        match self.places.get(&block) {
            Some(&place) => out.copy_from_slice(&self.blocks[place].bytes),
            None => self.engine.read(block, out)?,
        }
        Ok(())
    }

    fn commit(self: Box<Self>) -> Result<()> {
        if self.blocks.is_empty() {
            return Ok(());
        }
        self.engine.commit_blocks(&self.blocks)
    }

    fn abort(self: Box<Self>) {}
}
