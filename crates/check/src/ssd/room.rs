//! However full the ring is that a crash has left: where its disks take their blocks room is made in it, and where one of them is lost, once
//! its volume is given up, also after kills in the middle of what is carried forward.

use super::disk::Disk;
use super::script::VOLUMES;
use forebay_log::{Log, LogError};
use std::sync::Arc;

/// As many segments are free as a transaction wants, and one.
const FREE: u64 = 4;
/// Steps of recycling within which that is so: each frees a segment, or zeroes a piece of a range.
const STEPS_MAX: usize = 200;

/// Whether so few segments are free that it is worth asking.
pub fn is_scarce(log: &Log) -> bool {
    log.free_segments() < FREE - 1
}

/// So often something of the oldest segment, whose disks are not there, is carried forward, and the pool is killed before a record says that
/// the segment is gone.
pub fn kill_in_carries(
    mut log: Log,
    kills: u32,
    open: &mut impl FnMut() -> Result<Log, String>,
) -> Result<Log, String> {
    let told = |error: LogError| format!("without disks nothing can be carried: {error}");
    for _ in 0..kills {
        (1..=VOLUMES).for_each(|volume| log.release_backing(volume));
        if let Some(mut recycling) = log.begin_recycling().map_err(told)? {
            log.clean_segment(&mut recycling).map_err(told)?;
            match log.carry(&mut recycling) {
                Ok(None) | Err(LogError::NoRoom { .. }) => {}
                Ok(Some(carried)) => log.wait(&carried).map_err(told)?,
                Err(error) => return Err(told(error)),
            }
        }
        drop(log);
        log = open()?;
    }
    Ok(log)
}

/// Makes room; `lost` is a volume whose disk does not come back.
pub fn make(log: &Log, disks: &[Arc<Disk>], lost: Option<u32>) -> Result<(), String> {
    let told = |error: String| {
        let free = log.free_segments();
        Err(format!(
            "of a full ring, the disk of volume {lost:?} lost: {error} ({free} segments are free)"
        ))
    };
    for (disk, volume) in disks.iter().zip(1..=VOLUMES) {
        disk.set_fails(false);
        if Some(volume) == lost {
            log.release_backing(volume);
            if let Err(error) = log.discard_volume(volume) {
                return told(format!("it cannot be given up: {error}"));
            }
        }
    }
    for _ in 0..STEPS_MAX {
        if log.free_segments() >= FREE {
            return Ok(());
        }
        match log.recycle() {
            Ok(true) => {}
            Ok(false) => return told(String::from("there is nothing to recycle")),
            Err(error) => return told(format!("nothing comes free: {error}")),
        }
    }
    told(String::from("recycling has no end"))
}
