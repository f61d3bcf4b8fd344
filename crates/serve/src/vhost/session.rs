//! What one client has set up: its features, its memory, its queues.
//!
//! A queue runs from the moment that all of it is known until something of it changes; then it is
//! stopped, which waits for what it has taken, and started again.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use rustix::fs::{FileType, OFlags, fcntl_getfl, fcntl_setfl, fstat};
use virtio_bindings::bindings::virtio_ring::VIRTIO_RING_F_EVENT_IDX;
use vm_memory::GuestAddress;

use crate::vhost::config::{self, CONFIG_BYTES_MAX, WRITE_BACK_OFFSET};
use crate::vhost::execute::Executor;
use crate::vhost::memory::MemoryTable;
use crate::vhost::options::VhostUserOptions;
use crate::vhost::ring::{Layout, QUEUE_SIZE_MAX, Ring};
use crate::vhost::runner::Runner;
use crate::vhost::wire::invalid;
use crate::vhost::workers::Workers;

/// The bit among the driver's features that says that there are features of the protocol, too.
const FEATURE_PROTOCOL: u64 = 1 << 30;

/// Features of the protocol, by bit.
mod protocol {
    pub(super) const QUEUES: u64 = 1 << 0;
    pub(super) const REPLY_ACK: u64 = 1 << 3;
    pub(super) const BACKEND_REQUESTS: u64 = 1 << 5;
    pub(super) const CONFIG: u64 = 1 << 9;
    pub(super) const RESET_DEVICE: u64 = 1 << 13;
    pub(super) const MEMORY_SLOTS: u64 = 1 << 15;
}

/// One queue: what the client has said of it, and the queue itself while it runs.
#[derive(Default)]
struct QueueState {
    size: Option<u16>,
    /// Descriptors, available ring, used ring.
    places: Option<[GuestAddress; 3]>,
    next_available: u16,
    kick: Option<OwnedFd>,
    call: Option<OwnedFd>,
    error: Option<OwnedFd>,
    is_enabled: bool,
    runner: Option<Runner>,
}

/// One client's state.
pub(crate) struct Session {
    options: VhostUserOptions,
    executor: Arc<Executor>,
    workers: Arc<Workers>,
    features: u64,
    protocol_features: u64,
    table: MemoryTable,
    queues: Vec<QueueState>,
    /// The channel for requests to the client. Some clients take its end for that of the disk.
    channel: Vec<OwnedFd>,
    /// What the guest reads where it asks whether it has to flush. It need not, whatever it sets.
    write_back: u8,
}

impl QueueState {
    /// Stops it, if it runs. What it takes next is remembered.
    fn halt(&mut self) {
        if let Some(runner) = self.runner.take() {
            self.next_available = runner.end();
        }
    }

    /// Stops it and forgets what the guest's driver has said; where its interrupts go is set by the
    /// client, and stays.
    fn forget(&mut self) {
        self.halt();
        *self = QueueState {
            call: self.call.take(),
            error: self.error.take(),
            ..QueueState::default()
        };
    }
}

impl Session {
    pub(crate) fn new(
        options: VhostUserOptions,
        executor: Arc<Executor>,
        client: Arc<UnixStream>,
    ) -> Session {
        let workers = Arc::new(Workers::new(&options));
        let queues = (0..options.queues).map(|_| QueueState::default()).collect();
        Session {
            options,
            executor,
            workers,
            features: 0,
            protocol_features: 0,
            table: MemoryTable::new(client),
            queues,
            channel: Vec::new(),
            write_back: 0,
        }
    }

    /// The driver's features that there are.
    pub(crate) fn offered(&self) -> u64 {
        config::features(&self.options) | FEATURE_PROTOCOL
    }

    /// The protocol's features that there are.
    pub(crate) fn offered_of_protocol(&self) -> u64 {
        protocol::QUEUES
            | protocol::REPLY_ACK
            | protocol::BACKEND_REQUESTS
            | protocol::CONFIG
            | protocol::RESET_DEVICE
            | protocol::MEMORY_SLOTS
    }

    /// Whether the client may request an acknowledgement.
    pub(crate) fn has_reply_ack(&self) -> bool {
        self.protocol_features & protocol::REPLY_ACK != 0
    }

    pub(crate) fn keep_channel(&mut self, channel: Vec<OwnedFd>) {
        self.channel = channel;
    }

    pub(crate) fn queue_count(&self) -> u64 {
        self.options.queues.into()
    }

    fn queue(&mut self, index: u32) -> io::Result<&mut QueueState> {
        let count = self.queues.len();
        let queue = self.queues.get_mut(index as usize);
        queue.ok_or_else(|| invalid(format!("queue {index}; there are {count}")))
    }

    fn halt_all(&mut self) {
        self.queues.iter_mut().for_each(QueueState::halt);
    }

    /// Runs the queue if all of it is known and it is to run.
    fn start_if_ready(&mut self, index: u32) -> io::Result<()> {
        let features = self.features;
        let (memory, executor) = (self.table.memory(), Arc::clone(&self.executor));
        let workers = Arc::clone(&self.workers);
        let queue = self.queue(index)?;
        let (Some(size), Some([descriptors, available, used]), Some(kick), true, None) = (
            queue.size,
            queue.places,
            &queue.kick,
            queue.is_enabled,
            &queue.runner,
        ) else {
            return Ok(());
        };
        let layout = Layout {
            size,
            descriptors,
            available,
            used,
            next_available: queue.next_available,
            event_index: features & (1 << VIRTIO_RING_F_EVENT_IDX) != 0,
        };
        let again =
            |descriptor: &Option<OwnedFd>| descriptor.as_ref().map(OwnedFd::try_clone).transpose();
        let kick = kick.try_clone()?;
        let ends = [again(&queue.call)?, again(&queue.error)?];
        let ring = Ring::new(&layout, memory, executor, ends)
            .map_err(|broken| invalid(format!("queue {index} is not started: {broken}")))?;
        queue.runner = Some(Runner::start(ring, kick, workers)?);
        Ok(())
    }

    /// Runs all that can run.
    ///
    /// # Errors
    /// Of the first that cannot.
    fn start_all(&mut self) -> io::Result<()> {
        let mut outcome = Ok(());
        for index in 0..u32::from(self.options.queues) {
            outcome = outcome.and(self.start_if_ready(index));
        }
        outcome
    }

    /// Stops the queue, changes it, and starts it again where it can run.
    fn change(&mut self, index: u32, change: impl FnOnce(&mut QueueState)) -> io::Result<()> {
        let queue = self.queue(index)?;
        queue.halt();
        change(queue);
        self.start_if_ready(index)
    }

    /// Stops all queues, changes the memory, and starts them again.
    ///
    /// # Errors
    /// Those of the change, or queues that are not in the memory any more.
    pub(crate) fn change_memory(
        &mut self,
        change: impl FnOnce(&mut MemoryTable) -> io::Result<()>,
    ) -> io::Result<()> {
        self.halt_all();
        let changed = change(&mut self.table);
        self.start_all()?;
        changed
    }

    /// The queues stop until they are enabled again.
    pub(crate) fn disable_all(&mut self) {
        self.halt_all();
        self.queues
            .iter_mut()
            .for_each(|queue| queue.is_enabled = false);
    }

    /// Whether the log may be told of something; how much was left out before.
    pub(crate) fn complaint(&self) -> Option<u64> {
        self.executor.log_rate_limit.next()
    }

    /// The queues stop and are forgotten, the memory and the protocol's features are not.
    pub(crate) fn reset(&mut self) {
        self.queues.iter_mut().for_each(QueueState::forget);
        self.features = 0;
        self.write_back = 0;
    }

    /// # Errors
    /// Features that were not offered.
    pub(crate) fn set_features(&mut self, features: u64) -> io::Result<()> {
        let unknown = features & !self.offered();
        if unknown != 0 {
            return Err(invalid(format!("features {unknown:#x} are not offered")));
        }
        if features != self.features {
            self.halt_all();
            self.features = features;
        }
        if features & FEATURE_PROTOCOL == 0 {
            // Such a client cannot say when a queue is to run.
            self.queues
                .iter_mut()
                .for_each(|queue| queue.is_enabled = true);
        }
        self.start_all()
    }

    /// # Errors
    /// Features that were not offered.
    pub(crate) fn set_protocol_features(&mut self, features: u64) -> io::Result<()> {
        let unknown = features & !self.offered_of_protocol();
        if unknown != 0 {
            return Err(invalid(format!(
                "protocol features {unknown:#x} are not offered"
            )));
        }
        self.protocol_features = features;
        Ok(())
    }

    /// # Errors
    /// No such queue, or no size for one.
    pub(crate) fn set_queue_size(&mut self, index: u32, size: u32) -> io::Result<()> {
        let size = match u16::try_from(size) {
            Ok(size @ 1..=QUEUE_SIZE_MAX) if size.is_power_of_two() => size,
            _ => {
                return Err(invalid(format!(
                    "a queue of {size} entries; it has a power of two up to {QUEUE_SIZE_MAX}"
                )));
            }
        };
        self.change(index, |queue| queue.size = Some(size))
    }

    /// Descriptors, available ring and used ring are at these addresses of the client's.
    ///
    /// # Errors
    /// No such queue, or they are not in the guest's memory.
    pub(crate) fn place_queue(&mut self, index: u32, addresses: [u64; 3]) -> io::Result<()> {
        let mut places = [GuestAddress(0); 3];
        for (place, address) in places.iter_mut().zip(addresses) {
            *place = self.table.guest_address(address).ok_or_else(|| {
                invalid(format!("address {address:#x} is not in the guest's memory"))
            })?;
        }
        self.change(index, |queue| queue.places = Some(places))
    }

    /// The entry to take next, of which the lower 16 bits count.
    ///
    /// # Errors
    /// No such queue.
    pub(crate) fn set_queue_base(&mut self, index: u32, base: u32) -> io::Result<()> {
        self.change(index, |queue| queue.next_available = base as u16)
    }

    /// Stops a queue when what it has taken is answered; the entry that it would take next.
    ///
    /// # Errors
    /// No such queue.
    pub(crate) fn stop_queue(&mut self, index: u32) -> io::Result<u32> {
        let queue = self.queue(index)?;
        queue.halt();
        queue.kick = None;
        queue.call = None;
        Ok(queue.next_available.into())
    }

    /// # Errors
    /// No such queue, or one without kicks.
    pub(crate) fn set_kick(&mut self, index: u32, kick: Option<OwnedFd>) -> io::Result<()> {
        let Some(kick) = kick else {
            return Err(invalid(
                "a queue without kicks would have to be polled, which is not done",
            ));
        };
        set_nonblocking(&kick)?;
        self.change(index, |queue| queue.kick = Some(kick))
    }

    /// How the guest is woken, which it may change while its queue runs.
    ///
    /// # Errors
    /// No such queue.
    pub(crate) fn set_call(&mut self, index: u32, call: Option<OwnedFd>) -> io::Result<()> {
        call.as_ref().map(set_nonblocking).transpose()?;
        let queue = self.queue(index)?;
        if let Some(runner) = &queue.runner {
            let again = call.as_ref().map(OwnedFd::try_clone).transpose();
            runner.ring().set_call(again?);
        }
        queue.call = call;
        Ok(())
    }

    /// The descriptor signalled when a queue is malformed.
    ///
    /// # Errors
    /// No such queue.
    pub(crate) fn set_error(&mut self, index: u32, error: Option<OwnedFd>) -> io::Result<()> {
        error.as_ref().map(set_nonblocking).transpose()?;
        self.change(index, |queue| queue.error = error)
    }

    /// # Errors
    /// No such queue, or one that is not in the guest's memory.
    pub(crate) fn enable_queue(&mut self, index: u32, is_enabled: bool) -> io::Result<()> {
        if self.queue(index)?.is_enabled == is_enabled {
            return Ok(());
        }
        self.change(index, |queue| queue.is_enabled = is_enabled)
    }

    /// A part of the configuration space, if there is such a part.
    pub(crate) fn config(&self, offset: u32, bytes: u32) -> Option<Vec<u8>> {
        let space = config::space(&*self.executor.device, &self.options, self.write_back);
        let start = offset as usize;
        let end = start.checked_add(bytes as usize)?;
        space.get(start..end).map(<[u8]>::to_vec)
    }

    /// Only one byte can be set: whether the guest flushes. Some clients send all of the space.
    ///
    /// # Errors
    /// That byte is not among them, or has no meaning.
    pub(crate) fn set_config(&mut self, offset: u32, bytes: &[u8]) -> io::Result<()> {
        let start = offset as usize;
        let place = WRITE_BACK_OFFSET.checked_sub(start);
        match place.and_then(|place| bytes.get(place)) {
            Some(value @ (0 | 1)) if start + bytes.len() <= CONFIG_BYTES_MAX => {
                self.write_back = *value;
                Ok(())
            }
            _ => Err(invalid("only the write cache's mode can be set, to 0 or 1")),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.halt_all();
        self.workers.end();
    }
}

/// Makes a descriptor non-blocking.
///
/// # Errors
/// It is none of those that signals go through. A device or a file could be readable for ever.
fn set_nonblocking(descriptor: &OwnedFd) -> io::Result<()> {
    match FileType::from_raw_mode(fstat(descriptor)?.st_mode) {
        // Event counters have no type.
        FileType::Unknown | FileType::Fifo | FileType::Socket => {}
        other => {
            return Err(invalid(format!(
                "a descriptor to signal through is a {other:?}; it has to be an event counter, a \
                 pipe or a socket"
            )));
        }
    }
    let flags = fcntl_getfl(descriptor)? | OFlags::NONBLOCK;
    Ok(fcntl_setfl(descriptor, flags)?)
}
