//! Two shadow devices that are written together, in any order, and the log on them.

use super::super::disk::Disk;
use forebay_log::shadow::{ShadowDevice, ShadowState};
use forebay_log::{Device, Log, LogError, MirrorDevice, Options, Request, Together, Way, open};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// Both devices.
pub type Pair = [Arc<ShadowDevice>; 2];

/// Begins a write on both before it ends on either, each in any order.
struct Interleaved {
    devices: Pair,
    rng: Mutex<fastrand::Rng>,
}

impl Interleaved {
    fn order(&self) -> [usize; 2] {
        let mut rng = self.rng.lock().expect("alone");
        [[0, 1], [1, 0]][usize::from(rng.bool())]
    }
}

impl Together for Interleaved {
    fn make(&self, _: [&dyn Device; 2], requests: [&Request<'_>; 2]) -> [io::Result<()>; 2] {
        let mut results = [Ok(()), Ok(())];
        let mut begun = [None, None];
        for number in self.order() {
            let device = &self.devices[number];
            match *requests[number] {
                Request::Flush => results[number] = device.flush(),
                Request::Write {
                    page,
                    parts,
                    is_durable,
                } => begun[number] = Some(device.begin(page, parts, is_durable)),
            }
        }
        for number in self.order() {
            if let Some(begun) = begun[number].take() {
                results[number] = self.devices[number].end(begun);
            }
        }
        results
    }
}

/// The way in which these two are written.
pub fn interleaved(devices: &Pair, seed: u64) -> Way {
    Way::Other(Box::new(Interleaved {
        devices: devices.clone(),
        rng: Mutex::new(fastrand::Rng::with_seed(seed)),
    }))
}

/// Devices in these states.
pub fn devices_of(states: [&ShadowState; 2]) -> Pair {
    states.map(|state| Arc::new(ShadowDevice::new(state.clone())))
}

/// Opens the log with the members that are `given`; the caller may say that the others are gone for good.
pub fn open_pair(
    devices: &Pair,
    (given, is_gone): ([bool; 2], bool),
    disks: &[Arc<Disk>],
    seed: u64,
) -> Result<Log, LogError> {
    let missing = || LogError::Device {
        path: PathBuf::from("shadow"),
        action: "open it",
        source: io::Error::from(io::ErrorKind::NotFound),
    };
    let named = (0..2).map(|number| match given[number] {
        true => Ok(devices[number].clone() as Arc<dyn Device>),
        false => Err(missing()),
    });
    let device = MirrorDevice::open(named.collect(), is_gone, interleaved(devices, seed))?;
    let options = Options {
        seed: Some(seed),
        ..Options::default()
    };
    let log = open(Arc::new(device), options)?;
    for (disk, volume) in disks.iter().zip(1..) {
        log.attach(volume, disk.clone());
    }
    Ok(log)
}

/// The members that a log serves.
pub fn served(log: &Log) -> [bool; 2] {
    let members = log.device().members().expect("it is a mirror");
    let mut served = [false; 2];
    for (number, _) in members.served() {
        served[number] = true;
    }
    served
}
