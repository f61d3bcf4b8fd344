//! How a disk is offered to a virtual machine.

/// How a disk is offered.
#[derive(Clone, Debug)]
pub struct VhostUserOptions {
    /// Queues offered (1 to 256), each with a thread of its own while a guest uses it.
    pub queues: u16,
    /// Entries of a queue that a guest can count on (a power of two from 4 to 1024): the segments of
    /// a request are told two less. Longer queues are served as well.
    pub queue_size: u16,
    /// What the guest can ask for as the disk's serial number. Where it is longer than 20 bytes, its
    /// end is replaced by a hash of it.
    pub serial: String,
    /// Refuses everything that would change the disk, and tells the guest so.
    pub read_only: bool,
    /// Threads that a client may have for requests that are long; they start as needed. With 0
    /// such requests hold up the others of their queue.
    pub workers: usize,
    /// Short requests of a client that wait for the backing at a time, each on a thread; with 0 they hold up the others, too.
    pub waiting_max: usize,
    /// The user and group that the socket belongs to from the moment it can be seen; without, the
    /// process's own.
    pub socket_owner: Option<(u32, u32)>,
}

impl Default for VhostUserOptions {
    fn default() -> VhostUserOptions {
        VhostUserOptions {
            queues: 1,
            queue_size: 128,
            serial: "forebay".into(),
            read_only: false,
            workers: 8,
            waiting_max: 128,
            socket_owner: None,
        }
    }
}

impl VhostUserOptions {
    /// Refuses what is out of its range.
    pub(crate) fn check(&self) -> Result<(), String> {
        if !(1..=256).contains(&self.queues) {
            return Err(format!("{} queues; there are 1 to 256", self.queues));
        }
        if !self.queue_size.is_power_of_two() || !(4..=1024).contains(&self.queue_size) {
            return Err(format!(
                "queues of {} entries; they have a power of two from 4 to 1024",
                self.queue_size
            ));
        }
        Ok(())
    }
}
