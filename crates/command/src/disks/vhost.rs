//! The disks that virtual machines can have over vhost-user, each at a socket of its own.
//!
//! When the daemon ends, no client can connect any more; a guest that has its disk keeps it until
//! it goes or the deadline comes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_serve::{VhostUserOptions, VhostUserServer, VhostUserStats};
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Value, json};

use super::Served;
use crate::{Failure, json_path};

/// Every queue is a thread while a guest uses it; more than a few do not make a memory faster.
const QUEUES_MAX: usize = 4;

/// The sockets, each with its disk's name.
#[derive(Default)]
pub struct VhostFrontEnds {
    front_ends: Mutex<Vec<(String, VhostUserServer)>>,
    /// Queues offered; by default as many as there are processors, up to a few.
    queues: Option<u16>,
    socket_owner: Option<(u32, u32)>,
}

impl VhostFrontEnds {
    /// No sockets yet; those to come offer so many queues and belong to that user and group.
    pub fn new(queues: Option<u16>, socket_owner: Option<(u32, u32)>) -> VhostFrontEnds {
        VhostFrontEnds {
            front_ends: Mutex::default(),
            queues,
            socket_owner,
        }
    }

    /// Offers a disk at a socket.
    ///
    /// # Errors
    /// The socket cannot be made there.
    pub fn open<T>(&self, served: &Served<T>, socket: &Path) -> Result<(), Failure> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let options = VhostUserOptions {
            queues: self.queues.unwrap_or(processors.min(QUEUES_MAX) as u16),
            serial: served.name.clone(),
            socket_owner: self.socket_owner,
            ..VhostUserOptions::default()
        };
        let server = VhostUserServer::start(Arc::clone(&served.disk) as _, socket, options)
            .map_err(|error| Failure::Failed(format!("{}: {error}", served.name)))?;
        self.front_ends.lock().push((served.name.clone(), server));
        Ok(())
    }

    /// The socket of a disk.
    pub fn path_of(&self, name: &str) -> Option<PathBuf> {
        let front_ends = self.front_ends.lock();
        let (_, server) = front_ends.iter().find(|(owner, _)| owner == name)?;
        Some(server.path().to_path_buf())
    }

    /// Whether a guest has this disk.
    pub fn is_in_use(&self, name: &str) -> bool {
        let front_ends = self.front_ends.lock();
        front_ends
            .iter()
            .any(|(owner, server)| owner == name && server.stats().connected > 0)
    }

    /// Removes the socket of a disk, if it has one; false where a guest has it, which keeps it.
    pub fn close_unused(&self, name: &str) -> bool {
        let mut front_ends = self.front_ends.lock();
        let Some(place) = front_ends.iter().position(|(owner, _)| owner == name) else {
            return true;
        };
        let is_closed = front_ends[place].1.close_unused();
        if is_closed {
            front_ends.remove(place);
        }
        is_closed
    }

    /// Removes the socket of a disk, if it has one, and cuts off its guest.
    pub fn close(&self, name: &str) {
        let mut front_ends = self.front_ends.lock();
        let place = front_ends.iter().position(|(owner, _)| owner == name);
        let server = place.map(|place| front_ends.remove(place));
        // Its end waits for what the guest had begun; others do not.
        drop(front_ends);
        drop(server);
    }

    /// No client can connect any more; connected ones are served on.
    pub fn begin_drain(&self) {
        let front_ends = self.front_ends.lock();
        front_ends
            .iter()
            .for_each(|(_, server)| server.begin_drain());
    }

    /// Removes those without a guest, after `begin_drain`; returns the others.
    pub fn remove_unused(&self) -> Vec<String> {
        let mut front_ends = self.front_ends.lock();
        front_ends.retain(|(_, server)| !server.is_drained());
        let describe = |(name, _): &(String, _)| format!("{name} (a guest over vhost-user)");
        front_ends.iter().map(describe).collect()
    }

    /// Cuts all guests off: what was begun is answered, the rest waits in their queues.
    pub fn cut(&self) {
        let front_ends = self.front_ends.lock();
        front_ends.iter().for_each(|(_, server)| server.cut());
    }

    /// Whether there are any.
    pub fn is_empty(&self) -> bool {
        self.front_ends.lock().is_empty()
    }

    /// Each of them, for the list of front ends.
    pub fn report(&self) -> Vec<Value> {
        let front_ends = self.front_ends.lock();
        front_ends.iter().map(describe).collect()
    }
}

#[derive(Serialize)]
struct VhostUserFrontEnd<'d> {
    kind: &'static str,
    volume: &'d str,
    #[serde(flatten)]
    stats: VhostUserStats,
}

fn describe((name, server): &(String, VhostUserServer)) -> Value {
    let front_end = json!(VhostUserFrontEnd {
        kind: "vhost-user",
        volume: name,
        stats: server.stats(),
    });
    json_path::with(front_end, "address", server.path())
}
