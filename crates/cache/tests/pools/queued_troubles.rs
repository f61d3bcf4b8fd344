//! Reads that wait for the backing together, where the same block is read twice, the kernel gives up or takes none, or a spot of
//! the backing hangs.

use std::fs::File;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use crate::rig::{self, BLOCK, Rig, rig_with, wait_until};
use forebay::internals::QueuedReads;
use forebay::{Backing, BackingCounters, BackingIdentity, BackingStore, Volume, WriteRun};

const BLOCKS: u64 = 512;
const READS_MAX: usize = 32;

type Answer = Box<dyn FnOnce(forebay::Result<&[u8]>) + Send>;
/// Block, and its bytes, in the order of the answers.
type Answers = Arc<Mutex<Vec<(u64, Vec<u8>)>>>;

/// A file of telling blocks, which it reads by itself, and perhaps another one on which reads are queued.
struct PlayedStore {
    file: File,
    queue: File,
    inner: Backing,
    reads: AtomicUsize,
    /// Reads of the store itself hang.
    hangs: Mutex<bool>,
    goes_on: Condvar,
    _named: tempfile::NamedTempFile,
}

impl PlayedStore {
    fn new(queue: impl FnOnce(&File) -> File) -> Arc<PlayedStore> {
        let named = tempfile::NamedTempFile::new().unwrap();
        let file = named.reopen().unwrap();
        for block in 0..BLOCKS {
            let offset = block * BLOCK as u64;
            file.write_all_at(&rig::bytes_of(block, 0), offset).unwrap();
        }
        Arc::new(PlayedStore {
            queue: queue(&file),
            file,
            inner: Backing::file(named.path()).unwrap(),
            reads: AtomicUsize::new(0),
            hangs: Mutex::new(false),
            goes_on: Condvar::new(),
            _named: named,
        })
    }

    fn plain() -> Arc<PlayedStore> {
        PlayedStore::new(|file| file.try_clone().unwrap())
    }

    fn go_on(&self) {
        *self.hangs.lock().unwrap() = false;
        self.goes_on.notify_all();
    }
}

impl BackingStore for PlayedStore {
    fn size_bytes(&self) -> u64 {
        BLOCKS * BLOCK as u64
    }
    fn identity(&self) -> BackingIdentity {
        self.inner.identity()
    }
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        let hangs = self.hangs.lock().unwrap();
        // Not for ever: a test that fails ends.
        let patience = Duration::from_secs(20);
        drop(
            self.goes_on
                .wait_timeout_while(hangs, patience, |hangs| *hangs),
        );
        self.file.read_exact_at(out, offset)
    }
    fn direct_file(&self) -> Option<&File> {
        Some(&self.queue)
    }
    fn write_runs(&self, runs: &[WriteRun<'_>]) -> Vec<io::Result<()>> {
        let write = |run: &WriteRun<'_>| self.file.write_all_at(run.bytes, run.offset);
        runs.iter().map(write).collect()
    }
    fn zero_range(&self, offset: u64, len_bytes: u64) -> io::Result<()> {
        self.file.write_all_at(&vec![0; len_bytes as usize], offset)
    }
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
    fn counters(&self) -> BackingCounters {
        self.inner.counters()
    }
    fn transport(&self) -> String {
        "played".into()
    }
}

struct Queued {
    rig: Rig,
    store: Arc<PlayedStore>,
    volume: Volume,
    reads: QueuedReads<Answer>,
    answers: Answers,
}

fn queued(store: Arc<PlayedStore>) -> Queued {
    // By the library's defaults no run is known, nor passes by.
    let rig = rig_with(16 << 20, |options| options.background(false));
    let backing = Backing::from_store(store.clone());
    let volume = rig.pool.attach(backing).unwrap();
    Queued {
        reads: volume.queued_reads(READS_MAX).unwrap(),
        rig,
        store,
        volume,
        answers: Answers::default(),
    }
}

impl Queued {
    fn begin(&self, block: u64, count: usize) {
        let answers = Arc::clone(&self.answers);
        let answer = move || -> Answer {
            Box::new(move |read| {
                let read = read.unwrap().to_vec();
                answers.lock().unwrap().push((block, read));
            })
        };
        let offset = block * BLOCK as u64;
        assert!(self.reads.begin(offset, count * BLOCK, answer));
    }

    fn finish(&self) {
        self.reads.submit();
        self.reads.close();
        self.reads.work(|| {});
    }

    fn answered(&self) -> Vec<u64> {
        let answers = self.answers.lock().unwrap();
        answers.iter().map(|(block, _)| *block).collect()
    }

    fn let_go(&self) {
        self.volume.flush().unwrap();
        while self.rig.pool.reclaim_once(64).unwrap() > 0 {}
    }
}

#[test]
fn a_block_of_two_reads_that_come_together_has_one_entry() {
    for counts in [[(5, 1), (5, 1)], [(4, 2), (5, 2)], [(5, 2), (4, 2)]] {
        let queued = queued(PlayedStore::plain());
        for (block, count) in counts {
            queued.begin(block, count);
        }
        queued.finish();
        let blocks: std::collections::BTreeSet<u64> = counts
            .iter()
            .flat_map(|(block, count)| *block..block + *count as u64)
            .collect();
        let fills = queued.rig.pool.stats().totals.fills;
        assert_eq!(fills, blocks.len() as u64, "{counts:?}");
        rig::put(&queued.volume, 5, 1);
        queued.let_go();
        assert!(!queued.volume.is_resident(5..6));
        assert!(rig::get(&queued.volume, 5) == rig::bytes_of(5, 1));
    }
}

/// The read end of a pipe with nothing in it: the kernel says that it would have to wait.
fn empty_pipe() -> (File, OwnedFd) {
    let mut ends = [0; 2];
    // SAFETY: two descriptors are stored.
    #[allow(unsafe_code)]
    let ends = unsafe {
        assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_NONBLOCK), 0);
        ends.map(|end| OwnedFd::from_raw_fd(end))
    };
    let [read, write] = ends;
    (File::from(read), write)
}

#[test]
fn a_read_that_the_kernel_gives_up_is_made_again() {
    let (pipe, _write) = empty_pipe();
    let queued = queued(PlayedStore::new(|_| pipe));
    queued.begin(5, 1);
    queued.begin(9, 2);
    queued.finish();
    let mut answers = std::mem::take(&mut *queued.answers.lock().unwrap());
    answers.sort();
    let second = [rig::bytes_of(9, 0), rig::bytes_of(10, 0)].concat();
    assert!(answers == [(5, rig::bytes_of(5, 0)), (9, second)]);
    assert_eq!(queued.store.reads.load(Ordering::SeqCst), 2);
}

#[test]
fn a_read_again_that_hangs_holds_back_no_other() {
    let queued = queued(PlayedStore::plain());
    let sent = AtomicUsize::new(0);
    let is_sent = |count| sent.load(Ordering::SeqCst) >= count;
    *queued.store.hangs.lock().unwrap() = true;
    queued.begin(8, 2);
    queued.begin(100, 1);
    // So that the backing is asked for the first one of two, by the store's own read.
    rig::put(&queued.volume, 9, 1);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let send = || sent.store(queued.answered().len(), Ordering::SeqCst);
            queued.reads.work(send);
        });
        queued.reads.submit();
        wait_until("its neighbour is answered", || is_sent(1));
        wait_until("it is brought in", || queued.volume.is_resident(100..101));
        for (number, block) in (200..500).step_by(50).enumerate() {
            queued.begin(block, 1);
            queued.reads.submit();
            wait_until("a later one is answered", || is_sent(number + 2));
        }
        queued.store.go_on();
        queued.reads.close();
    });
    assert_eq!(queued.answered(), [100, 200, 250, 300, 350, 400, 450, 8]);
    assert!(is_sent(8), "nothing was sent behind it");
    let bytes = [rig::bytes_of(8, 0), rig::bytes_of(9, 1)].concat();
    assert!(queued.answers.lock().unwrap().last().unwrap().1 == bytes);
}

#[test]
fn what_the_kernel_does_not_take_is_answered_and_said_to_be() {
    let write_only = tempfile::NamedTempFile::new().unwrap();
    let write_only = File::options().write(true).open(write_only.path()).unwrap();
    let queued = queued(PlayedStore::new(|_| write_only));
    let has_sent = AtomicBool::new(false);
    queued.begin(5, 1);
    queued.begin(7, 1);
    queued.reads.submit();
    assert_eq!(queued.answered(), [5, 7]);
    queued.begin(9, 1);
    queued.reads.close();
    queued
        .reads
        .work(|| has_sent.store(queued.answered() == [5, 7, 9], Ordering::SeqCst));
    assert!(has_sent.load(Ordering::SeqCst));
}
