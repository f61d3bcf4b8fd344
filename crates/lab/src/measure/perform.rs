//! Gives a workload's actions to an engine.

use crate::{Engine, EngineTransaction};
use forebay::{Counters, Result};
use forebay_pmem::thread_counters;

use crate::workload::{Action, BLOCK_BYTES, Workload};

/// Performs actions in order; they end with a commit if they change anything. Returns what this
/// thread persisted within reads: blocks brought in, and what had to leave for them.
///
/// # Errors
/// The engine's; the transaction that was not committed is dropped.
pub fn perform(engine: &dyn Engine, actions: &[Action]) -> Result<Counters> {
    let mut in_reads = Counters::default();
    let mut buffer = vec![0; BLOCK_BYTES];
    let mut transaction: Option<Box<dyn EngineTransaction + '_>> = None;
    for action in actions {
        match action {
            Action::Read { block, blocks } => {
                let len = *blocks as usize * BLOCK_BYTES;
                if buffer.len() < len {
                    buffer.resize(len, 0);
                }
                let before = thread_counters();
                engine.read(*block, &mut buffer[..len])?;
                in_reads += thread_counters() - before;
            }
            Action::Write { block, bytes } => transaction
                .get_or_insert_with(|| engine.begin())
                .write(*block, bytes)?,
            Action::Update {
                block,
                bytes,
                changed,
            } => transaction
                .get_or_insert_with(|| engine.begin())
                .update(*block, bytes, changed)?,
            Action::Commit => {
                if let Some(transaction) = transaction.take() {
                    transaction.commit()?;
                }
            }
        }
    }
    assert!(transaction.is_none(), "a commit follows every write");
    Ok(in_reads)
}

/// Commits what the workload still has in DRAM, reads every live block through the engine, and
/// returns those that do not hold what the workload says they must.
///
/// # Errors
/// The engine's.
pub fn wrong_blocks(engine: &dyn Engine, workload: &mut dyn Workload) -> Result<Vec<u64>> {
    let mut actions = Vec::new();
    workload.settle(&mut actions);
    perform(engine, &actions)?;
    let mut bytes = vec![0; BLOCK_BYTES];
    let mut wrong = Vec::new();
    for block in workload.live_blocks() {
        engine.read(block, &mut bytes)?;
        if !workload.is_right(block, &bytes) {
            wrong.push(block);
        }
    }
    Ok(wrong)
}
