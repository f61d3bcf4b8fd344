//! A transaction of whole blocks that are all at hand: nothing is gathered, nothing copied.

use crate::change::{Action, Change, Outcome};
use crate::error::Result;
use crate::reclaim::Need;
use crate::volume::Volume;
use crate::workspace::NO_SLOT;

/// Commits whole blocks straight from the caller's memory.
pub(crate) fn write_blocks(volume: &Volume, block: u64, data: &[u8]) -> Result<()> {
    let core = &*volume.core;
    core.writable()?;
    volume.check_blocks(block, data.len())?;
    let mut transaction = volume.begin();
    core.check_transaction_bytes(data.len() as u64)?;
    let block_bytes = core.block_bytes();
    let work = &mut transaction.work;
    work.changes.extend(
        (block..)
            .zip((0..data.len()).step_by(block_bytes))
            .map(|(block, at)| {
                let key = volume.key(block);
                let place = core.place(key);
                core.prefetch(place, key);
                let action = Action::Fresh {
                    slot: NO_SLOT,
                    at,
                    valid_bytes: None,
                };
                Change {
                    key,
                    place,
                    action,
                    based_on: None,
                }
            }),
    );
    let blocks = work.changes.len() as u64;
    loop {
        let need = if transaction.give_slots_to_fresh() {
            let stock = transaction.stock.as_ref().expect("it gave the slots");
            let work = &mut *transaction.work;
            match core.commit(&work.changes, data, stock, &mut work.scratch) {
                Ok(Outcome::Done(_)) => break,
                Ok(_) => transaction.return_slots(),
                Err(error) => {
                    transaction.return_slots();
                    return Err(error.into());
                }
            }
            Need::Entry
        } else {
            Need::Slots(blocks)
        };
        transaction.stock = None;
        core.make_space(need)?;
    }
    let tallies = core.tallies.mine();
    tallies.commits(1);
    tallies.blocks_written(blocks);
    tallies.payload_bytes(data.len() as u64);
    Ok(())
}
