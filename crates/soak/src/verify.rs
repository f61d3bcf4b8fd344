//! Every byte of a backing against what its volume's clients know.

use crate::model::{BLOCK_BYTES, Model, Runs};
use crate::place::Place;
use crate::stamp::SECTOR_BYTES;
use crate::tally::{Tally, lock};
use crate::worker::Volume;
use forebay_harness::Result;

/// Compares the file; differences go to the tally.
pub fn backing(place: &Place, tally: &Tally, volume: &Volume, found_by: &str) -> Result<()> {
    let models: Vec<_> = volume.models.iter().map(lock).collect();
    let runs = Runs {
        volume_bytes: std::fs::metadata(place.backing(&volume.name))?.len(),
        clients: models.len() as u64,
    };
    place.read_backing(&volume.name, |offset, piece| {
        let owner = |offset: u64| -> &Model { &models[runs.owner(offset) as usize] };
        let check = |model: &Model, offset: u64, bytes: &[u8]| {
            model.check(offset, bytes, |complaint| {
                tally.complain(complaint, found_by)
            });
        };
        for (index, block) in piece.chunks(BLOCK_BYTES as usize).enumerate() {
            let at = offset + index as u64 * BLOCK_BYTES;
            for (index, sector) in block.chunks(SECTOR_BYTES).enumerate() {
                let at = at + (index * SECTOR_BYTES) as u64;
                check(owner(at), at, sector);
            }
        }
    })
}
