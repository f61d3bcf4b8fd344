//! Misses that wait for the backing together, with no thread each: any thread begins some and tells the kernel of all with one call,
//! and one thread answers those that have come, then brings them in with one fence.
//!
//! Invariants, as of any miss: what the backing gave is answered, and brought in, only if nothing happened to the stripes of its blocks
//! since they were seen not to be cached, which was before the kernel was told; else the read is made again. An answer does not wait
//! for its blocks to be brought in, and a fill that a write has overtaken since then is given up under the stripe's lock. Of a block
//! that several reads of a batch have, the first brings it in: the others saw it missing as well, and it has one entry.
//!
//! The thread that answers waits for nothing but completions: a read that cannot go to the kernel, or not again, is made as any other
//! by a thread beside it, so that one spot that hangs holds back no other's answer.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::Scope;
use std::time::Duration;

use super::Missing;
use crate::api::volume::MemoryVolume;
use crate::backing::{AlignedBuffer, QueuedRead, ReadContext, ReadDone, Waiting};
use crate::error::Result;

/// Longest read that is queued: what databases read at a time. Longer ones are worth a thread.
const READ_BYTES_MAX: usize = 16 << 10;

/// Answers between two looks at what was begun.
const ANSWERS_MAX: usize = 8;

/// Times that a read which something overtook is queued again: what is overtaken so often is read as any other.
const TURNS_MAX: u32 = 4;

/// Threads beside the one that answers, for reads that are made as any other: where some of them hang, others go on.
const APART_MAX: usize = 16;

/// Pause before the kernel is asked again where it is short of memory for requests.
const RETRY_PAUSE: Duration = Duration::from_millis(1);

/// Reads of one volume that wait for its backing. `A` is called once with what was read or why it was not.
pub struct QueuedReads<A> {
    /// Before the slots, whose buffers are the kernel's as long as it has reads of them under way.
    context: ReadContext,
    slots: Box<[Mutex<Option<Pending<A>>>]>,
    queue: Mutex<Queue>,
    volume: MemoryVolume,
}

struct Queue {
    free: Vec<(usize, AlignedBuffer)>,
    /// Begun, and the kernel does not know yet.
    begun: Vec<usize>,
    /// To be read as any other.
    apart: VecDeque<usize>,
    /// Those, and those that threads are reading.
    apart_count: usize,
    apart_threads: usize,
    /// The thread that answers is not waiting: it tells the kernel of what is begun before it waits again.
    is_answering: bool,
    is_closed: bool,
}

/// A read under way.
struct Pending<A> {
    block: u64,
    missing: Vec<Missing>,
    buffer: AlignedBuffer,
    answer: A,
    waiting: Waiting,
    /// Times that it may still be queued again.
    turns: u32,
}

/// A read that was answered, to be brought in.
struct Answered {
    number: usize,
    block: u64,
    /// None where nothing is.
    missing: Vec<Missing>,
    buffer: AlignedBuffer,
}

impl<A: FnOnce(Result<&[u8]>) + Send> QueuedReads<A> {
    /// For so many reads at a time; none where the backing or the kernel takes none.
    pub(crate) fn new(volume: &MemoryVolume, reads_max: usize) -> Option<QueuedReads<A>> {
        volume.state.backing().ok()?.direct_file()?;
        Some(QueuedReads {
            context: ReadContext::new(reads_max).ok()?,
            slots: (0..reads_max).map(|_| Mutex::new(None)).collect(),
            queue: Mutex::new(Queue {
                free: (0..reads_max)
                    .map(|number| (number, AlignedBuffer::new(0)))
                    .collect(),
                begun: Vec::new(),
                apart: VecDeque::new(),
                apart_count: 0,
                apart_threads: 0,
                is_answering: false,
                is_closed: false,
            }),
            volume: volume.clone(),
        })
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn slot(&self, number: usize) -> MutexGuard<'_, Option<Pending<A>>> {
        let slot = &self.slots[number];
        slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a read of bytes of which no block is cached, if it is one that can wait here; `answer` is made only then. If not, it is to
    /// be read as any other. The caller goes on with [`QueuedReads::submit`].
    ///
    /// # Panics
    /// After [`QueuedReads::close`].
    pub fn begin(&self, offset: u64, len: usize, answer: impl FnOnce() -> A) -> bool {
        let begun = self.begin_one(offset, len, answer);
        if let Some(number) = begun {
            self.queue().begun.push(number);
        }
        begun.is_some()
    }

    /// The same, and submits it; where no other is under way this thread reads it itself, which spares a wake-up.
    ///
    /// # Panics
    /// After [`QueuedReads::close`].
    pub fn read(&self, offset: u64, len: usize, answer: impl FnOnce() -> A) -> bool {
        let Some(number) = self.begin_one(offset, len, answer) else {
            return false;
        };
        let mut queue = self.queue();
        if queue.free.len() + 1 == self.slots.len() {
            drop(queue);
            self.read_alone(number);
        } else {
            queue.begun.push(number);
            drop(queue);
            self.submit();
        }
        true
    }

    /// What [`QueuedReads::begin`] says, but that the kernel will not hear of it; returns its slot.
    fn begin_one(&self, offset: u64, len: usize, answer: impl FnOnce() -> A) -> Option<usize> {
        let volume = &self.volume;
        let block_bytes = volume.block_size();
        let (block, count) = (offset / block_bytes as u64, len / block_bytes);
        let is_whole = (offset | len as u64) & (block_bytes as u64 - 1) == 0;
        if !is_whole || count == 0 || len > READ_BYTES_MAX {
            return None;
        }
        let limited = volume.state.limited.get()?;
        if !limited.takes_queued(offset, len) {
            return None;
        }
        let mut missing = volume.all_missing(block, count)?;
        let (number, buffer) = self.take_slot(len)?;
        // A read that goes on with a run is read with what was read ahead of that.
        let Some(passes_by) = volume.note_apart(block..block + count as u64) else {
            self.queue().free.push((number, buffer));
            return None;
        };
        for seen in &mut missing {
            *seen = seen.passing_by(passes_by);
        }
        *self.slot(number) = Some(Pending {
            block,
            missing,
            buffer,
            answer: answer(),
            waiting: limited.begin_queued(len),
            turns: TURNS_MAX,
        });
        Some(number)
    }

    /// None where all are taken, or the system has no memory.
    fn take_slot(&self, len: usize) -> Option<(usize, AlignedBuffer)> {
        let mut queue = self.queue();
        assert!(
            !queue.is_closed,
            "a front end closes it when its threads have ended"
        );
        let (number, buffer) = queue.free.pop()?;
        if buffer.len() >= len {
            return Some((number, buffer));
        }
        let longer = AlignedBuffer::try_new(len);
        if longer.is_none() {
            queue.free.push((number, buffer));
        }
        Some((number, longer?))
    }

    /// Carries a read out that nothing else knows of.
    fn read_alone(&self, number: usize) {
        let mut slot = self.slot(number);
        let pending = slot.as_mut().expect("it was begun");
        let block_bytes = self.volume.block_size();
        let len = pending.missing.len() * block_bytes;
        let read = self.volume.state.backing().map(|backing| {
            let offset = pending.block * block_bytes as u64;
            backing
                .direct_file()
                .map(|file| file.read_at(&mut pending.buffer[..len], offset))
        });
        drop(slot);
        // Without its file it is read as any other, as what came short is.
        let result = read.ok().flatten().unwrap_or(Ok(0));
        let Some(answered) = self.answer(ReadDone { number, result }) else {
            return self.read_here(number);
        };
        let answered = [answered];
        self.bring_in(&answered);
        self.give_back(answered);
    }

    /// Has the kernel told of all reads that were begun: now, or by the thread that answers before that waits. What the kernel does not
    /// take this thread reads; whether it answered any.
    ///
    /// # Panics
    /// Another thread's panic has lost a read.
    pub fn submit(&self) -> bool {
        let mut queue = self.queue();
        if queue.is_answering {
            return false;
        }
        let begun = std::mem::take(&mut queue.begun);
        drop(queue);
        let refused = self.tell_kernel(&begun);
        refused.iter().for_each(|number| self.read_here(*number));
        !refused.is_empty()
    }

    /// The same, for the thread that answers; returns what the kernel did not take.
    fn submit_meanwhile(&self) -> Vec<usize> {
        let begun = std::mem::take(&mut self.queue().begun);
        self.tell_kernel(&begun)
    }

    /// From now on other threads tell the kernel of what they begin.
    fn stop_answering(&self) -> Vec<usize> {
        let mut queue = self.queue();
        queue.is_answering = false;
        let begun = std::mem::take(&mut queue.begun);
        drop(queue);
        self.tell_kernel(&begun)
    }

    /// Returns those that the kernel did not take.
    fn tell_kernel(&self, begun: &[usize]) -> Vec<usize> {
        if begun.is_empty() {
            return Vec::new();
        }
        let backing = self.volume.state.backing().ok();
        let Some(file) = backing.and_then(|backing| backing.direct_file()) else {
            return begun.to_vec();
        };
        let read_of = |number: &usize| {
            let mut slot = self.slot(*number);
            let pending = slot.as_mut().expect("it was begun");
            let block_bytes = self.volume.block_size();
            QueuedRead {
                number: *number,
                file: file.as_raw_fd(),
                offset: pending.block * block_bytes as u64,
                buffer: pending.buffer.as_mut_ptr(),
                len: pending.missing.len() * block_bytes,
            }
        };
        let reads: Vec<QueuedRead> = begun.iter().map(read_of).collect();
        let (mut rest, mut refused) = (&reads[..], Vec::new());
        while !rest.is_empty() {
            // SAFETY: a slot's buffer lies on the heap and is touched by nothing until `work` has taken it, after the kernel has
            // named it; the slots go after the context.
            #[allow(unsafe_code)]
            let taken = unsafe { self.context.submit(rest) };
            match taken {
                Ok(taken) => rest = &rest[taken..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    std::thread::sleep(RETRY_PAUSE);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    refused.push(rest[0].number);
                    rest = &rest[1..];
                }
            }
        }
        refused
    }

    /// Carries out as any other a read that the kernel does not have.
    fn read_here(&self, number: usize) {
        let pending = self.slot(number).take().expect("it was begun");
        let answered = self.read_again(number, pending);
        self.give_back([answered]);
    }

    /// Answers what the backing gave, batch by batch, calls `after_batch` behind the answers of each, and brings it in then. Other threads
    /// call it, too, behind answers of theirs. Returns when the queue is closed and all that was begun is answered. One thread does it.
    ///
    /// # Panics
    /// The kernel does not name what is done.
    pub fn work(&self, after_batch: impl Fn() + Sync) {
        std::thread::scope(|scope| {
            let (mut done, mut answered) = (Vec::new(), Vec::new());
            let (mut overtaken, mut apart) = (Vec::new(), Vec::new());
            let mut may_come = true;
            while may_come || self.is_kernel_at_work() {
                // Its clients would wait for ever.
                let waited = self.context.wait(&mut done);
                may_come &= waited.expect("the kernel names what is done");
                self.queue().is_answering = true;
                while !done.is_empty() {
                    for done in done.drain(..done.len().min(ANSWERS_MAX)) {
                        let number = done.number;
                        match self.answer(done) {
                            Some(read) => answered.push(read),
                            None => overtaken.push(number),
                        }
                    }
                    // The backing is not to be idle meanwhile.
                    apart.extend(self.submit_meanwhile());
                }
                after_batch();
                apart.extend(self.submit_meanwhile());
                self.bring_in(&answered);
                self.give_back(answered.drain(..));
                let ended = overtaken.drain(..);
                apart.extend(ended.filter(|number| !self.begin_again(*number)));
                apart.extend(self.stop_answering());
                self.read_apart(scope, &mut apart, &after_batch);
            }
        });
    }

    /// Whether it has reads, or is yet to be told of some.
    fn is_kernel_at_work(&self) -> bool {
        let queue = self.queue();
        queue.free.len() + queue.apart_count < self.slots.len()
    }

    /// Queues a read again that something overtook, if it may be and none of it is cached now.
    fn begin_again(&self, number: usize) -> bool {
        let volume = &self.volume;
        let mut slot = self.slot(number);
        let pending = slot.as_mut().expect("it was begun");
        let count = pending.missing.len();
        let Some(limited) = volume.state.limited.get().filter(|_| pending.turns > 0) else {
            return false;
        };
        let Some(missing) = volume.all_missing(pending.block, count) else {
            return false;
        };
        let passes_by = pending.missing[0].passes_by;
        let missing = missing.into_iter().map(|seen| seen.passing_by(passes_by));
        pending.missing = missing.collect();
        pending.waiting = limited.begin_queued(count * volume.block_size());
        pending.turns -= 1;
        drop(slot);
        self.queue().begun.push(number);
        true
    }

    /// Has threads read these as any other; they end when there is none left.
    fn read_apart<'s>(
        &'s self,
        scope: &'s Scope<'s, '_>,
        numbers: &mut Vec<usize>,
        after_batch: &'s (impl Fn() + Sync),
    ) {
        let mut queue = self.queue();
        queue.apart_count += numbers.len();
        queue.apart.extend(numbers.drain(..));
        let threads = queue.apart.len().min(APART_MAX - queue.apart_threads);
        queue.apart_threads += threads;
        drop(queue);
        for _ in 0..threads {
            let thread = std::thread::Builder::new().name("forebay-reads".into());
            let started = thread.spawn_scoped(scope, move || self.work_apart(after_batch));
            if started.is_err() {
                // Slower without one, but answered.
                self.work_apart(after_batch);
            }
        }
    }

    fn work_apart(&self, after_batch: &impl Fn()) {
        loop {
            let mut queue = self.queue();
            let Some(number) = queue.apart.pop_front() else {
                queue.apart_threads -= 1;
                return;
            };
            drop(queue);
            let pending = self.slot(number).take().expect("it was begun");
            let read = self.read_again(number, pending);
            after_batch();
            let mut queue = self.queue();
            queue.apart_count -= 1;
            queue.free.push((read.number, read.buffer));
        }
    }

    /// No thread begins or submits any more: what was begun is answered, and [`QueuedReads::work`] returns.
    pub fn close(&self) {
        self.submit();
        self.queue().is_closed = true;
        self.context.end();
    }

    /// None where it is to be read again: its slot has it still.
    fn answer(&self, done: ReadDone) -> Option<Answered> {
        let ReadDone { number, result } = done;
        let mut slot = self.slot(number);
        let pending = slot.as_mut().expect("it was under way");
        let len = pending.missing.len() * self.volume.block_size();
        let source = match result {
            Ok(count) if count == len => None,
            Ok(_) => {
                // The file is shorter than it was: any other read says so, and by its name.
                pending.turns = 0;
                return None;
            }
            // The kernel gave up, not the backing.
            Err(source)
                if matches!(
                    source.kind(),
                    ErrorKind::Interrupted | ErrorKind::WouldBlock
                ) =>
            {
                return None;
            }
            Err(source) => Some(source),
        };
        let mut seen = pending.missing.iter();
        let is_as_seen = seen.all(|seen| self.volume.is_as_seen(seen));
        let failed = match source {
            Some(source) => Some(self.volume.state.backing_error(source)),
            None => self.volume.check_answer().err(),
        };
        if failed.is_none() && !is_as_seen {
            return None;
        }
        let pending = slot.take().expect("it was under way");
        drop(slot);
        drop(pending.waiting);
        let missing = match failed {
            Some(error) => {
                (pending.answer)(Err(error));
                Vec::new()
            }
            None => {
                self.volume.count_misses(&pending.missing);
                (pending.answer)(Ok(&pending.buffer[..len]));
                pending.missing
            }
        };
        Some(Answered {
            number,
            block: pending.block,
            missing,
            buffer: pending.buffer,
        })
    }

    /// Reads as any other read does.
    fn read_again(&self, number: usize, mut pending: Pending<A>) -> Answered {
        drop(pending.waiting);
        let len = pending.missing.len() * self.volume.block_size();
        let read = self.volume.read(pending.block, &mut pending.buffer[..len]);
        (pending.answer)(read.map(|()| &pending.buffer[..len]));
        Answered {
            number,
            block: pending.block,
            missing: Vec::new(),
            buffer: pending.buffer,
        }
    }

    /// Brings blocks in that were answered, with one fence for all. Each once: what is seen of the stripe of one that was brought in
    /// follows for all that come later, and of the same block it would not hold.
    fn bring_in(&self, answered: &[Answered]) {
        let may_fill = self.volume.may_fill();
        let block_bytes = self.volume.block_size();
        let (mut blocks, mut missing, mut streamed) = (Vec::new(), Vec::new(), Vec::new());
        for read in answered {
            let bytes = read.buffer.chunks_exact(block_bytes);
            for ((block, seen), bytes) in (read.block..).zip(&read.missing).zip(bytes) {
                if blocks.contains(&block) {
                    continue;
                }
                blocks.push(block);
                missing.push(*seen);
                streamed.push(self.volume.stream_fill(seen, bytes, may_fill));
            }
        }
        self.volume.fence_streamed(&mut streamed);
        self.volume.finish_fills(&blocks, &mut missing, streamed);
    }

    fn give_back(&self, answered: impl IntoIterator<Item = Answered>) {
        let slots = answered.into_iter().map(|read| (read.number, read.buffer));
        self.queue().free.extend(slots);
    }
}

impl<A> std::fmt::Debug for QueuedReads<A> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("QueuedReads")
            .field("volume", &self.volume)
            .field("reads_max", &self.slots.len())
            .finish()
    }
}
