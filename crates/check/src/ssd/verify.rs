//! Recovers what a crash could leave, and compares; what a crash in the middle of the recovery leaves, too.

use super::disk::{Disk, DiskState};
use super::oracle::{Blocks, Oracle};
use super::room;
use super::script::{BLOCKS, VOLUMES};
use forebay_log::shadow::{ShadowDevice, ShadowState};
use forebay_log::{Log, Options, PAGE_BYTES, open};
use std::sync::{Arc, Mutex};

/// One in so many images is also crashed while it is recovered.
const CRASHED_ONE_IN: u32 = 4;
/// Depth of crashes in recoveries of crashes in recoveries.
const DEPTH_MAX: usize = 2;

/// Is told of each image, and whether a kill led to it; says whether to go on.
pub type Tally<'t> = &'t mut dyn FnMut(u64, bool) -> bool;

/// What verifies.
pub struct Verifier<'t> {
    pub rng: fastrand::Rng,
    pub tally: Tally<'t>,
    /// Of secrets: no two incarnations have the same.
    pub seed: u64,
    /// There are enough images.
    pub is_over: bool,
}

/// A device and its disks after a crash.
#[derive(Clone)]
pub struct Left {
    pub device: ShadowState,
    pub disks: Vec<DiskState>,
    pub is_killed: bool,
    /// No crash that led to it was a power cut: what was written is there.
    pub keeps_written: bool,
}

impl Left {
    /// Its disks, in use.
    pub fn open_disks(&self) -> Vec<Arc<Disk>> {
        let disks = self.disks.iter().cloned();
        disks.map(Disk::new).map(Arc::new).collect()
    }

    /// After a power cut, or a kill.
    pub fn of(
        device: &ShadowState,
        disks: &[DiskState],
        is_killed: bool,
        (rng, unit): (&mut fastrand::Rng, usize),
    ) -> Left {
        let disks = disks.iter();
        match is_killed {
            true => Left {
                device: device.killed(rng),
                disks: disks.cloned().collect(),
                is_killed,
                keeps_written: true,
            },
            false => Left {
                device: ShadowState::new(device.cut(rng), unit),
                disks: disks.map(|disk| disk.cut(rng)).collect(),
                is_killed,
                keeps_written: false,
            },
        }
    }
}

/// Opens a pool with its disks.
pub fn open_pool(
    device: &Arc<ShadowDevice>,
    disks: &[Arc<Disk>],
    options: Options,
) -> Result<Log, String> {
    let log = open(device.clone(), options).map_err(|error| format!("it did not open: {error}"))?;
    for (disk, volume) in disks.iter().zip(1..) {
        log.attach(volume, disk.clone());
    }
    Ok(log)
}

/// What all blocks read as. What the pool calls clean its disk has too, even if power fails now.
pub fn read_all(log: &Log, disks: &[Arc<Disk>]) -> Result<Blocks, String> {
    let mut blocks = Vec::new();
    for volume in 1..=VOLUMES {
        let disk = &disks[volume as usize - 1];
        let state = disk.state();
        for block in 0..BLOCKS as u64 {
            let mut bytes = vec![0; PAGE_BYTES];
            let read = log.read(volume, block, &mut bytes);
            read.map_err(|error| format!("block {block} of volume {volume}: {error}"))?;
            if log.is_clean(volume, block) == Some(true)
                && !state.has_durably(block as usize, &bytes)
            {
                return Err(format!(
                    "block {block} of volume {volume} is clean, and its disk lacks it"
                ));
            }
            blocks.push(Arc::new(bytes));
        }
    }
    Ok(blocks)
}

impl Verifier<'_> {
    /// A number for the secrets of an incarnation.
    fn next_seed(&mut self) -> u64 {
        self.seed += 1;
        self.seed
    }

    /// Recovers and compares.
    pub fn verify(
        &mut self,
        left: &Left,
        oracle: &Oracle,
        (unit, nested): (usize, usize),
    ) -> Result<(), String> {
        let device = Arc::new(ShadowDevice::new(left.device.clone()));
        let disks = left.open_disks();
        let moments = Arc::new(Mutex::new(Vec::new()));
        let is_crashed = nested < DEPTH_MAX && self.rng.u32(..CRASHED_ONE_IN) == 0;
        if is_crashed {
            let moments = moments.clone();
            let note =
                move |state: &ShadowState| moments.lock().expect("alone").push(state.clone());
            device.observe(Some(Box::new(note)));
        }
        let kind = if left.is_killed {
            "a kill"
        } else {
            "a power cut"
        };
        let (lost, kills) = (self.rng.u32(0..=VOLUMES), self.rng.u32(0..4));
        let mut seeds = (0..=kills).map(|_| self.next_seed()).collect::<Vec<_>>();
        let mut open = || {
            let options = Options {
                seed: seeds.pop(),
                ..Options::default()
            };
            open_pool(&device, &disks, options)
        };
        let found = open().and_then(|log| {
            oracle.rows.check(&log.volumes())?;
            let found = oracle.find(&read_all(&log, &disks)?, left.keeps_written)?;
            // What it changes is no part of the story, so nothing else of it may be crashed.
            if !is_crashed && room::is_scarce(&log) {
                let log = room::kill_in_carries(log, kills, &mut open)?;
                if read_all(&log, &disks)? != found {
                    return Err(format!(
                        "{kills} carries that were killed have changed what is read"
                    ));
                }
                room::make(&log, &disks, (lost > 0).then_some(lost))?;
            }
            Ok(found)
        });
        let hash = left.device.hash() ^ disks_hash(left);
        self.is_over |= !(self.tally)(hash, left.is_killed);
        let found = found.map_err(|error| format!("after {kind}: {error}"))?;
        device.observe(None);
        // Once it is open, what it found is what is there; on the way another prefix may be found.
        let only = Oracle::new(found, oracle.rows.clone());
        let mut moments = std::mem::take(&mut *moments.lock().expect("alone"));
        if is_crashed {
            moments.push(device.state());
        }
        let last = moments.len().saturating_sub(1);
        for (number, moment) in moments.into_iter().enumerate() {
            if self.is_over || self.rng.bool() {
                continue;
            }
            let is_killed = self.rng.bool();
            let keeps_written = left.keeps_written && is_killed;
            let left = Left {
                keeps_written,
                ..Left::of(&moment, &left.disks, is_killed, (&mut self.rng, unit))
            };
            let legal = if number == last { &only } else { oracle };
            self.verify(&left, legal, (unit, nested + 1))
                .map_err(|error| format!("in the recovery after {kind}: {error}"))?;
        }
        Ok(())
    }
}

/// What tells the disks of two images apart.
fn disks_hash(left: &Left) -> u64 {
    let blocks = left
        .disks
        .iter()
        .flat_map(|disk| (0..BLOCKS).map(|block| disk.visible(block)));
    blocks.fold(1, |hash: u64, bytes| {
        let word = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
        (hash ^ word)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15)
            .rotate_left(23)
    })
}
