//! The disks that this host's kernel has as block devices.
//!
//! When the daemon ends, an unused device is removed. One in use is served until the deadline and
//! then left to the kernel, where requests wait for the next daemon: a restart under a mounted file
//! system is a pause, not an error.

use std::path::PathBuf;
use std::sync::Arc;

use forebay_serve::ublk::{UblkOptions, UblkServer};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{Served, UblkNumber};
use crate::{Failure, json_path};

/// Every queue is a thread; more than a few do not make a memory faster.
const QUEUES_MAX: usize = 4;

/// The block devices, each with its disk's name.
#[derive(Default)]
pub struct UblkFrontEnds(Mutex<Vec<FrontEnd>>);

/// A disk's name and its device.
type FrontEnd = (String, Arc<UblkServer>);

impl UblkFrontEnds {
    /// Makes the kernel create a block device for a disk, or takes over the one that an earlier
    /// daemon left behind.
    ///
    /// # Errors
    /// No ublk here, or what the driver says.
    pub fn open<T>(&self, served: &Served<T>, number: UblkNumber) -> Result<(), Failure> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let options = UblkOptions {
            number: number.0,
            queues: processors.min(QUEUES_MAX) as u16,
            identity: served.ublk_identity,
        };
        let server = UblkServer::start(Arc::clone(&served.disk) as _, &options)
            .map_err(|error| Failure::Failed(format!("{}: {error}", served.name)))?;
        tracing::info!(
            volume = served.name,
            device = %server.path().display(),
            taken_over = server.was_taken_over(),
            "a block device of this host"
        );
        self.0.lock().push((served.name.clone(), Arc::new(server)));
        Ok(())
    }

    /// The block device of a disk.
    pub fn path_of(&self, name: &str) -> Option<PathBuf> {
        let front_ends = self.0.lock();
        let (_, server) = front_ends.iter().find(|(owner, _)| owner == name)?;
        Some(server.path().to_path_buf())
    }

    /// The number of the block device of a disk.
    pub fn number_of(&self, name: &str) -> Option<UblkNumber> {
        let front_ends = self.0.lock();
        let (_, server) = front_ends.iter().find(|(owner, _)| owner == name)?;
        Some(UblkNumber(Some(server.number())))
    }

    /// Whether the block device of this disk is in use.
    pub fn is_in_use(&self, name: &str) -> bool {
        let front_ends = self.0.lock();
        front_ends
            .iter()
            .any(|(owner, server)| owner == name && server.is_in_use())
    }

    /// Removes the block device of a disk, if it has one.
    ///
    /// # Errors
    /// The driver.
    pub fn remove(&self, name: &str) -> Result<(), Failure> {
        let found = {
            let front_ends = self.0.lock();
            let front_end = front_ends.iter().find(|(owner, _)| owner == name);
            front_end.map(|(_, server)| Arc::clone(server))
        };
        let Some(server) = found else {
            return Ok(());
        };
        // It waits for requests already taken; other callers do not.
        server
            .remove()
            .map_err(|error| Failure::Failed(error.to_string()))?;
        self.0
            .lock()
            .retain(|(_, other)| !Arc::ptr_eq(other, &server));
        Ok(())
    }

    /// Removes those not in use; returns the others.
    pub fn remove_unused(&self) -> Vec<String> {
        let mut in_use = Vec::new();
        let mut unused = Vec::new();
        self.0.lock().retain(|front_end| {
            let path = front_end.1.path().display();
            let is_kept = front_end.1.is_in_use();
            match is_kept {
                true => in_use.push(format!("{path} (its requests wait for the next daemon)")),
                false => unused.push(front_end.clone()),
            }
            is_kept
        });
        for (name, server) in unused {
            if let Err(error) = server.remove() {
                let path = server.path().display();
                tracing::error!(volume = name, device = %path, %error, "not removed");
            }
        }
        in_use
    }

    /// Whether there are any.
    pub fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// Each of them, for the list of front ends.
    pub fn report(&self) -> Vec<Value> {
        let front_ends = self.0.lock();
        let describe = |(name, server): &FrontEnd| {
            let front_end = json!({"kind": "ublk", "volume": name, "is_gone": server.is_gone()});
            json_path::with(front_end, "address", server.path())
        };
        front_ends.iter().map(describe).collect()
    }
}
