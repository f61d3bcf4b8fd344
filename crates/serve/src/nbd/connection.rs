//! The transmission: one thread receives many requests at once and answers the short ones itself,
//! into one buffer that goes out with one call; what may take long goes to workers and holds up
//! nothing else.
//!
//! Guarantees: a write is applied only once all of its data has come; a length is believed only as
//! far as [`PAYLOAD_BYTES_MAX`]; a connection that ends leaves nothing behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Scope;
use std::time::Duration;

use parking_lot::Mutex;

use crate::allocator::no_memory;
use crate::block_device::Access;
use crate::job_queue::JobQueue;
use crate::nbd::execute::{Executor, refusal_of};
use crate::nbd::handshake::Negotiated;
use crate::nbd::inbox::{INLINE_BYTES_MAX, Inbox, Taken};
use crate::nbd::memory::{Memory, Share};
use crate::nbd::reply::ReplyBuffer;
use crate::nbd::request::{Operation, Refusal, Request, Rights};
use crate::nbd::room::Room;
use crate::nbd::stats::count;
use crate::nbd::transport::Transport;
use crate::nbd::waiting::{READS_MAX, WaitingReads};

/// Bytes of a connection's jobs that count as its own; more are taken from the server's memory, so
/// that clients that exhaust that delay long requests, never the usual short ones.
const OWN_JOB_BYTES: u64 = 2 << 20;

/// Replies are sent at the latest when they have this many bytes.
const REPLIES_BYTES_MAX: usize = 256 << 10;

/// Times that a connection which is to end still looks for requests that came before it was told
/// so: a client that never pauses must not keep it alive.
const ENDING_RECEIVES_MAX: usize = 64;

/// Threads for short reads and writes that wait for a disk, or for room: as many as clients usually have under way at once. What
/// waits takes no processor, and a disk answers many at a time.
const WAITING_MAX: usize = 32;

/// How long such a thread stays for the next request.
const IDLE_MAX: Duration = Duration::from_secs(10);

/// A request for a worker.
struct Job {
    request: Request,
    operation: Operation,
    /// What a write brought.
    payload: Vec<u8>,
    /// What it holds of the server's memory.
    share: Option<Share>,
}

/// What the threads of a connection share.
struct Connection<'c> {
    transport: &'c dyn Transport,
    negotiated: &'c Negotiated,
    rights: Rights,
    executor: Executor<'c>,
    /// Those that are long in bytes, or change much: a few threads, which take memory while they work.
    long: JobQueue<Job>,
    short: JobQueue<Job>,
    room: Room,
    memory: &'c Arc<Memory>,
    /// Held while a whole number of replies is sent.
    sending: Mutex<()>,
    is_dead: &'c AtomicBool,
}

/// Serves what was negotiated until the client leaves, breaks the protocol, or is told to go. All
/// its requests have been carried out on return.
pub(crate) fn serve(
    transport: &dyn Transport,
    negotiated: &Negotiated,
    workers_max: usize,
    memory: &Arc<Memory>,
) {
    let is_dead = AtomicBool::new(false);
    let device = &*negotiated.export.device;
    let connection = Connection {
        transport,
        negotiated,
        rights: Rights {
            size_bytes: device.size_bytes(),
            structured: negotiated.structured,
            block_status: negotiated.block_status,
        },
        executor: Executor {
            device,
            structured: negotiated.structured,
            tallies: &negotiated.link.tallies,
            link: &negotiated.link,
            is_dead: &is_dead,
        },
        long: JobQueue::new(workers_max, None),
        short: JobQueue::new(WAITING_MAX, Some(IDLE_MAX)),
        room: Room::default(),
        memory,
        sending: Mutex::new(()),
        is_dead: &is_dead,
    };
    let Some(inbox) = Inbox::new(transport) else {
        // Nothing was requested yet; the client may connect again.
        return;
    };
    std::thread::scope(|scope| {
        let mut receiver = Receiver {
            connection: &connection,
            scope,
            inbox,
            replies: ReplyBuffer::default(),
            waiting: None,
        };
        receiver.run();
        receiver.close_waiting();
        connection.long.close();
        connection.short.close();
    });
}

impl Connection<'_> {
    fn has_workers(&self) -> bool {
        self.long.threads_max() > 0
    }

    /// Sends all replies in the buffer and empties it; false if the client no longer receives them.
    fn send(&self, replies: &mut ReplyBuffer) -> bool {
        if replies.used() > 0 && !self.is_dead.load(Ordering::Relaxed) {
            let sending = self.sending.lock();
            if self.transport.send(replies.filled()).is_err() {
                self.is_dead.store(true, Ordering::Relaxed);
                // Wakes the receiver, which may wait for a client that has closed one direction
                // only.
                self.negotiated.link.cut();
            }
            drop(sending);
        }
        replies.truncate(0);
        !self.is_dead.load(Ordering::Relaxed)
    }

    /// The threads of a job.
    fn workers_of(&self, job: &Job) -> &JobQueue<Job> {
        // A flush waits for the pool's device alone, and behind no request that waits for a backing.
        let is_short = match job.operation {
            Operation::Flush => true,
            Operation::Read | Operation::Write => job.request.length <= INLINE_BYTES_MAX,
            _ => false,
        };
        match is_short {
            true => &self.short,
            false => &self.long,
        }
    }

    fn work(&self, jobs: &JobQueue<Job>) {
        let mut replies = ReplyBuffer::default();
        jobs.work(|job| self.finish(job, &mut replies));
    }

    fn finish(&self, job: Job, replies: &mut ReplyBuffer) {
        let Job {
            request,
            operation,
            payload,
            share,
        } = job;
        // Reads that no client waits for are skipped; changes to the disk were requested and are
        // carried out.
        let is_wanted = !self.is_dead.load(Ordering::Relaxed) || operation != Operation::Read;
        if is_wanted {
            self.executor
                .execute(&request, operation, &payload, replies);
        }
        drop(payload);
        if let Some(share) = &share {
            share.wait_for_client(true);
        }
        self.send(replies);
        drop(share);
        let in_flight = &self.executor.tallies.requests_in_flight;
        self.room.release(job_bytes(&request), in_flight);
    }
}

/// Bytes that a job holds in memory.
fn job_bytes(request: &Request) -> u32 {
    use crate::nbd::protocol::command;
    match request.command {
        command::READ | command::WRITE => request.length,
        _ => 0,
    }
}

/// The thread that receives.
struct Receiver<'s, 'c> {
    connection: &'s Connection<'c>,
    scope: &'s Scope<'s, 'c>,
    inbox: Inbox<'c>,
    replies: ReplyBuffer,
    /// Made for the first read that is not quick; then there is none inside where the device, or the system, has no such reads.
    waiting: Option<Option<Arc<WaitingReads>>>,
}

/// Whether the connection goes on.
type GoesOn = bool;

impl<'s, 'c> Receiver<'s, 'c>
where
    'c: 's,
{
    fn run(&mut self) {
        let mut ending_receives = 0;
        loop {
            while let Some(header) = self.inbox.peek_request() {
                let Some(request) = Request::parse(header) else {
                    // Out of step: nothing that follows could be told from data.
                    count(&self.connection.executor.tallies.errors, 1);
                    self.connection.send(&mut self.replies);
                    return;
                };
                if !self.handle(&request) {
                    self.connection.send(&mut self.replies);
                    return;
                }
            }
            self.submit_waiting();
            if !self.connection.send(&mut self.replies) {
                return;
            }
            if self.connection.negotiated.link.is_ending() {
                ending_receives += 1;
                if ending_receives > ENDING_RECEIVES_MAX {
                    return;
                }
            }
            if !self.inbox.receive() {
                return;
            }
        }
    }

    fn handle(&mut self, request: &Request) -> GoesOn {
        let connection = self.connection;
        connection.negotiated.link.note_request();
        match request.classify(connection.rights) {
            Ok(Operation::Disconnect) => false,
            Ok(operation) if self.is_quick(request, operation) => {
                self.handle_now(request, operation)
            }
            Ok(Operation::Read) if self.take_waiting(request) => {
                self.inbox.consume_request(0);
                true
            }
            Ok(operation) => self.hand_over(request, operation),
            Err(refusal) => self.refuse(request, &refusal),
        }
    }

    fn is_quick(&self, request: &Request, operation: Operation) -> bool {
        let connection = self.connection;
        let access = match operation {
            // Where there is a volatile cache it waits for the device.
            Operation::Flush => {
                return !connection.has_workers()
                    || !connection.executor.device.has_volatile_cache();
            }
            Operation::Read => Access::Read,
            Operation::Write => Access::Write,
            _ => return !connection.has_workers(),
        };
        let is_short = request.length <= INLINE_BYTES_MAX;
        let device = connection.executor.device;
        is_short
            && (!connection.has_workers()
                || device.is_quick(access, request.offset, u64::from(request.length)))
    }

    /// Takes a read that is to wait for the device without a worker; false if a worker is to carry it out.
    fn take_waiting(&mut self, request: &Request) -> bool {
        if request.length > INLINE_BYTES_MAX || !self.connection.has_workers() {
            return false;
        }
        if self.waiting.is_none() {
            self.waiting = Some(self.start_waiting());
        }
        let waiting = self.waiting.as_ref().and_then(Option::as_ref);
        waiting.is_some_and(|waiting| waiting.take(request))
    }

    fn start_waiting(&self) -> Option<Arc<WaitingReads>> {
        let connection = self.connection;
        let reads = connection.executor.device.queued_reads(READS_MAX)?;
        let link = &connection.negotiated.link;
        let waiting = Arc::new(WaitingReads::new(reads, connection.rights.structured, link));
        let answering = Arc::clone(&waiting);
        let thread = std::thread::Builder::new().name("nbd-answers".into());
        // Where the client is gone its replies are dropped, and the receiver hears of it.
        let send = |replies: &mut ReplyBuffer| _ = connection.send(replies);
        thread
            .spawn_scoped(self.scope, move || answering.work(send))
            .ok()?;
        Some(waiting)
    }

    /// Before this thread waits for anything.
    fn submit_waiting(&self) {
        if let Some(Some(waiting)) = &self.waiting {
            let connection = self.connection;
            waiting.submit(|replies| _ = connection.send(replies));
        }
    }

    fn close_waiting(&self) {
        if let Some(Some(waiting)) = &self.waiting {
            waiting.close();
        }
    }

    fn handle_now(&mut self, request: &Request, operation: Operation) -> GoesOn {
        let payload_bytes = request.payload_bytes() as usize;
        if !self.wait_for(payload_bytes) {
            return false;
        }
        let payload = self.inbox.request_payload(payload_bytes);
        self.connection
            .executor
            .execute(request, operation, payload, &mut self.replies);
        self.inbox.consume_request(payload_bytes);
        self.replies.used() < REPLIES_BYTES_MAX || self.connection.send(&mut self.replies)
    }

    /// Waits until a request's data is there; what is answered is sent before.
    fn wait_for(&mut self, payload_bytes: usize) -> GoesOn {
        while !self.inbox.has_payload(payload_bytes) {
            self.submit_waiting();
            if !self.connection.send(&mut self.replies) || !self.inbox.receive() {
                return false;
            }
        }
        true
    }

    fn hand_over(&mut self, request: &Request, operation: Operation) -> GoesOn {
        let connection = self.connection;
        // Before waiting for room or data, so that finished answers and begun reads are not held back.
        self.submit_waiting();
        if !connection.send(&mut self.replies) {
            return false;
        }
        let in_flight = &connection.executor.tallies.requests_in_flight;
        let bytes = job_bytes(request);
        let is_own = connection.room.reserve(bytes, in_flight) <= OWN_JOB_BYTES;
        let link = &connection.negotiated.link;
        let share = match is_own {
            true => None,
            false => connection.memory.take(bytes.into(), link),
        };
        self.inbox.consume_request(0);
        let wait_for_client = |waits| {
            if let Some(share) = &share {
                share.wait_for_client(waits);
            }
        };
        wait_for_client(true);
        let taken = match is_own || share.is_some() {
            true => self.inbox.take(request.payload_bytes() as usize),
            false => Taken::Ended,
        };
        wait_for_client(false);
        let payload = match taken {
            Taken::All(payload) => payload,
            Taken::NoMemory => {
                drop(share);
                connection.room.release(bytes, in_flight);
                let refusal = refusal_of(&no_memory(bytes as usize).into());
                connection
                    .executor
                    .refuse(request, &refusal, &mut self.replies);
                let is_whole = !self.inbox.is_skipping();
                return is_whole || connection.send(&mut self.replies) && self.inbox.skip_rest();
            }
            Taken::Ended => {
                connection.room.release(bytes, in_flight);
                return false;
            }
        };
        let job = Job {
            request: *request,
            operation,
            payload,
            share,
        };
        if !connection.has_workers() {
            connection.finish(job, &mut self.replies);
            return !connection.is_dead.load(Ordering::Relaxed);
        }
        let (scope, jobs) = (self.scope, connection.workers_of(&job));
        let start = || {
            let worker = std::thread::Builder::new().name("nbd-worker".into());
            worker.spawn_scoped(scope, move || connection.work(jobs))?;
            Ok(())
        };
        // Slower without a worker, but served.
        let carry_out = |job| connection.finish(job, &mut self.replies);
        jobs.push(job, start, carry_out);
        true
    }

    /// Answers with an error, and passes over the data that comes with the request.
    fn refuse(&mut self, request: &Request, refusal: &Refusal) -> GoesOn {
        self.connection
            .executor
            .refuse(request, refusal, &mut self.replies);
        self.inbox.consume_request(0);
        let payload_bytes = request.payload_bytes();
        if self.inbox.skip(payload_bytes as usize) {
            return true;
        }
        // The rest has not come yet: the client is told of its mistake first.
        self.submit_waiting();
        self.connection.send(&mut self.replies) && self.inbox.skip_rest()
    }
}
