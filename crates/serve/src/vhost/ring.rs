//! One queue of the guest's while it runs: requests are taken from it and answered into it.
//!
//! Guarantees: what the guest puts into the queue can stop this queue and nothing else; a queue that
//! was stopped has answered everything that it had taken; what is taken and not answered is never
//! more than the queue has entries.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Condvar, Mutex, MutexGuard};
use rustix::io::Errno;
use virtio_bindings::bindings::virtio_ring::VRING_AVAIL_F_NO_INTERRUPT;
use virtio_queue::{Error as QueueError, Queue, QueueOwnedT, QueueT};
use vm_memory::{Bytes, GuestAddress, GuestMemory as _, Permissions};

use crate::vhost::broken::Broken;
use crate::vhost::execute::{Executor, Status};
use crate::vhost::memory::GuestMemory;
use crate::vhost::order::AnswerOrder;
use crate::vhost::request::{Malformed, Request};
use crate::vhost::stats::count;
use crate::vhost::workers::Workers;

/// Requests answered before the guest is told at the latest, while there are more to do.
const ANSWERS_UNTOLD_MAX: usize = 8;

/// Longest queue that is served, in entries; the longest that QEMU has.
pub(crate) const QUEUE_SIZE_MAX: u16 = 1024;

/// Where a queue's parts are in the guest's memory, and how far it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) size: u16,
    pub(crate) descriptors: GuestAddress,
    pub(crate) available: GuestAddress,
    pub(crate) used: GuestAddress,
    /// The next entry to take, as the client says. Where the used ring says otherwise, that counts.
    pub(crate) next_available: u16,
    pub(crate) event_index: bool,
}

/// A queue that can run.
pub(crate) struct Ring {
    memory: Arc<GuestMemory>,
    progress: Mutex<Progress>,
    event_index: bool,
    /// What wakes the guest.
    call: Mutex<Option<OwnedFd>>,
    /// Signalled when the queue is malformed.
    error: Option<OwnedFd>,
    executor: Arc<Executor>,
    is_stopping: AtomicBool,
    is_broken: AtomicBool,
    /// Requests that are with workers.
    handed_over: Mutex<usize>,
    all_back: Condvar,
}

/// How far it is.
struct Progress {
    queue: Queue,
    order: AnswerOrder,
    /// Answers were published since it was last asked whether the guest wants to know.
    has_untold: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

impl Ring {
    /// A queue as the client described it; `call` wakes its guest, `error` is signalled when it is
    /// malformed.
    ///
    /// # Errors
    /// It is not in the memory, or its size is none.
    pub(crate) fn new(
        layout: &Layout,
        memory: Arc<GuestMemory>,
        executor: Arc<Executor>,
        [call, error]: [Option<OwnedFd>; 2],
    ) -> Result<Ring, Broken> {
        let mut queue = Queue::new(QUEUE_SIZE_MAX)?;
        queue.try_set_size(layout.size)?;
        queue.try_set_desc_table_address(layout.descriptors)?;
        queue.try_set_avail_ring_address(layout.available)?;
        queue.try_set_used_ring_address(layout.used)?;
        queue.set_event_idx(layout.event_index);
        queue.set_ready(true);
        if !queue.is_valid(&**memory) {
            return Err(Broken::Outside);
        }
        // Answers come in the order of their requests, so that the last one says what is next. Some
        // clients name the end of what is available after their server was killed, which would
        // leave out what it had taken.
        let next = queue.used_idx(&**memory, Ordering::Acquire)?.0;
        if memory.is_lost() {
            return Err(Broken::MemoryLost);
        }
        queue.set_next_used(next);
        queue.set_next_avail(next);
        if next != layout.next_available {
            let named = layout.next_available;
            tracing::debug!(next, named, "a guest's queue goes on after its last answer");
        }
        Ok(Ring {
            memory,
            progress: Mutex::new(Progress {
                queue,
                order: AnswerOrder::new(layout.size),
                has_untold: false,
            }),
            event_index: layout.event_index,
            call: Mutex::new(call),
            error,
            executor,
            is_stopping: AtomicBool::new(false),
            is_broken: AtomicBool::new(false),
            handed_over: Mutex::new(0),
            all_back: Condvar::new(),
        })
    }

    /// The next entry that would be taken.
    pub(crate) fn next_available(&self) -> u16 {
        lock(&self.progress).queue.next_avail()
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Relaxed)
    }

    /// Wakes the guest in another way from now on. It is woken once, because the other way may have
    /// been used just before.
    pub(crate) fn set_call(&self, call: Option<OwnedFd>) {
        *lock(&self.call) = call;
        self.call_guest();
    }

    /// Nothing more is taken.
    pub(crate) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    /// Serves what is there until there is nothing more, or it is told to stop; the guest will say
    /// when there is more. `buffer` is kept for the next time.
    ///
    /// # Errors
    /// The queue is malformed. It is not to be served any more.
    pub(crate) fn serve(
        self: &Arc<Ring>,
        workers: &Workers,
        buffer: &mut Vec<u8>,
    ) -> Result<(), Broken> {
        self.want_kicks(false)?;
        let mut untold = 0;
        let mut is_sure_of_more = false;
        while !self.is_stopping() && !self.is_broken() {
            let Some(taken) = self.take()? else {
                if is_sure_of_more {
                    return Err(Broken::Unreadable);
                }
                self.tell_guest()?;
                untold = 0;
                is_sure_of_more = self.want_kicks(true)?;
                if !is_sure_of_more {
                    return Ok(());
                }
                self.want_kicks(false)?;
                continue;
            };
            is_sure_of_more = false;
            self.handle(taken, workers, buffer)?;
            untold += 1;
            if untold >= ANSWERS_UNTOLD_MAX {
                self.tell_guest()?;
                untold = 0;
            }
        }
        self.tell_guest()
    }

    /// Says whether the guest is to kick; true where there is something already.
    fn want_kicks(&self, is_wanted: bool) -> Result<bool, Broken> {
        let queue = &mut lock(&self.progress).queue;
        if is_wanted {
            return Ok(queue.enable_notification(&**self.memory)?);
        }
        queue.disable_notification(&**self.memory)?;
        Ok(false)
    }

    fn take(&self) -> Result<Option<Result<Request, Malformed>>, Broken> {
        let mut progress = lock(&self.progress);
        let next = progress
            .queue
            .iter(&**self.memory)
            .map(|mut all| all.next());
        // What looks malformed then may not be the guest's doing.
        self.check_memory()?;
        let Some(chain) = next? else {
            return Ok(None);
        };
        progress.order.take(chain.head_index())?;
        drop(progress);
        let request = Request::parse(chain, &self.memory);
        self.check_memory()?;
        Ok(Some(request))
    }

    /// # Errors
    /// What was read of the guest's memory may not be the guest's data.
    fn check_memory(&self) -> Result<(), Broken> {
        match self.memory.is_lost() {
            true => Err(Broken::MemoryLost),
            false => Ok(()),
        }
    }

    fn handle(
        self: &Arc<Ring>,
        taken: Result<Request, Malformed>,
        workers: &Workers,
        buffer: &mut Vec<u8>,
    ) -> Result<(), Broken> {
        let request = match taken {
            Ok(request) => request,
            Err(malformed) => return self.refuse(&malformed),
        };
        if !self.executor.is_quick(&request) {
            let is_short = self.executor.is_short(&request);
            if workers.are_there(is_short) {
                return self.hand_over(request, is_short, workers);
            }
        }
        let status = self.executor.execute(&request, &self.memory, buffer);
        self.answer(&request, status)
    }

    fn hand_over(
        self: &Arc<Ring>,
        request: Request,
        is_short: bool,
        workers: &Workers,
    ) -> Result<(), Broken> {
        // What was answered must not wait for a slow one.
        self.tell_guest()?;
        *lock(&self.handed_over) += 1;
        count(&self.executor.tallies.requests_in_flight, 1);
        let ring = Arc::clone(self);
        let job = Box::new(move |buffer: &mut Vec<u8>| ring.finish(&request, buffer));
        workers.hand_over(is_short, job);
        Ok(())
    }

    fn refuse(&self, malformed: &Malformed) -> Result<(), Broken> {
        count(&self.executor.tallies.errors, 1);
        let mut written = 0;
        if let Some(status) = malformed.status
            && self.memory.check_range(status, 1, Permissions::Write)
        {
            let code = Status::IoError.code();
            written = u32::from(self.memory.write_obj(code, status).is_ok());
        }
        self.publish(malformed.head, written)
    }

    fn answer(&self, request: &Request, status: Status) -> Result<(), Broken> {
        // The request was validated to lie in memory; the memory of a running queue does not
        // change.
        let _ = self.memory.write_obj(status.code(), request.status);
        self.publish(request.head, request.writable_bytes)
    }

    /// Gives an answer to the guest, and those that waited for it; or keeps it until those before it
    /// are there.
    fn publish(&self, head: u16, written_bytes: u32) -> Result<(), Broken> {
        let mut progress = lock(&self.progress);
        progress.order.answer(head, written_bytes);
        while let Some((head, written_bytes)) = progress.order.next_answered() {
            progress.has_untold = true;
            let queue = &mut progress.queue;
            queue.add_used(&**self.memory, head, written_bytes)?;
        }
        self.check_memory()
    }

    /// A worker's part: carries the request out, answers it, and gives it back.
    pub(crate) fn finish(&self, request: &Request, buffer: &mut Vec<u8>) {
        let status = self.executor.execute(request, &self.memory, buffer);
        // Before the answer: with the last one in its hands, nothing of the guest's counts as in flight.
        self.executor
            .tallies
            .requests_in_flight
            .fetch_sub(1, Ordering::Relaxed);
        let told = self
            .answer(request, status)
            .and_then(|()| self.tell_guest());
        if let Err(broken) = told {
            self.give_up(&broken);
        }
        *lock(&self.handed_over) -= 1;
        self.all_back.notify_all();
    }

    /// Waits until the workers have nothing of this queue any more.
    pub(crate) fn wait_for_workers(&self) {
        let mut handed_over = lock(&self.handed_over);
        while *handed_over > 0 {
            self.all_back.wait(&mut handed_over);
        }
    }

    /// The queue is beyond repair: nothing more is taken, and the client is told.
    pub(crate) fn give_up(&self, broken: &Broken) {
        if !self.is_broken.swap(true, Ordering::Relaxed) {
            count(&self.executor.tallies.queues_broken, 1);
            if let Some(left_out) = self.executor.log_rate_limit.next() {
                tracing::warn!(
                    error = %broken,
                    left_out,
                    "a guest's queue is stopped"
                );
            }
            if let Some(error) = &self.error {
                let _ = rustix::io::write(error, &1_u64.to_ne_bytes());
            }
            if matches!(broken, Broken::MemoryLost) {
                self.memory.drop_client();
            }
        }
    }

    /// Interrupts the guest for answers, unless it has suppressed that.
    fn tell_guest(&self) -> Result<(), Broken> {
        if self.wants_call()? {
            self.call_guest();
        }
        Ok(())
    }

    fn wants_call(&self) -> Result<bool, Broken> {
        let mut progress = lock(&self.progress);
        if !std::mem::take(&mut progress.has_untold) {
            return Ok(false);
        }
        let queue = &mut progress.queue;
        let is_wanted = queue.needs_notification(&**self.memory)?;
        if self.event_index {
            return Ok(is_wanted);
        }
        let flags: u16 = self
            .memory
            .load(GuestAddress(queue.avail_ring()), Ordering::Relaxed)
            .map_err(QueueError::GuestMemory)?;
        Ok(u32::from(u16::from_le(flags)) & VRING_AVAIL_F_NO_INTERRUPT == 0)
    }

    /// Interrupts the guest, so that it takes its answers.
    pub(crate) fn call_guest(&self) {
        let call = lock(&self.call);
        let Some(call) = call.as_ref() else {
            return;
        };
        count(&self.executor.tallies.notifications, 1);
        // An event counter, or with User Mode Linux a socket. If it takes no more, the guest has
        // been told already; if it has gone, so has the guest.
        while rustix::io::write(call, &1_u64.to_ne_bytes()) == Err(Errno::INTR) {}
    }
}
