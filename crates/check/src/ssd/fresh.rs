//! What a story begins with: volumes that were just attached, in front of disks that hold something.

use super::disk::DiskState;
use super::oracle::{Blocks, Oracle};
use super::rows::{Rows, path_of};
use super::script::{BLOCKS, VOLUMES};
use crate::content::noise;
use forebay_log::{Log, PAGE_BYTES, VolumeRow};
use std::sync::Arc;

/// Attaches all volumes of a pool that was just made, and lets go of it.
pub fn begin(log: Log, seed: u64) -> Result<(Oracle, Vec<DiskState>), String> {
    let rows: Vec<VolumeRow> = (1..=VOLUMES).map(|number| row_of(number, number)).collect();
    for row in &rows {
        log.write_volume(row).map_err(|error| error.to_string())?;
    }
    drop(log);
    let disk = |volume: u32| {
        let content = |block| Arc::new(noise(seed ^ u64::from(volume) << 32 ^ block, PAGE_BYTES));
        (0..BLOCKS as u64).map(content).collect::<Blocks>()
    };
    let disks: Vec<Blocks> = (1..=VOLUMES).map(disk).collect();
    let oracle = Oracle::new(disks.concat(), Rows::new(rows));
    Ok((oracle, disks.into_iter().map(DiskState::new).collect()))
}

/// The row of a volume that was just attached.
pub fn row_of(number: u32, id: u32) -> VolumeRow {
    VolumeRow {
        number,
        id,
        is_attached: true,
        path: path_of(id.into()),
        inode: u64::from(id),
        size_bytes: (BLOCKS * PAGE_BYTES) as u64,
        generation: 1,
        stage: 2,
    }
}
