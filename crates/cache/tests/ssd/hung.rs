//! A backing that does not answer: the others' blocks are written back, and their writers find room.

use std::io;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use forebay::{
    BackingCounters, BackingIdentity, BackingStore, MemoryStore, Pool, RuntimeOptions, WriteRun,
};

use crate::rig::*;

/// A store that answers nothing while it hangs.
struct Hanging {
    inner: MemoryStore,
    hangs: Mutex<bool>,
    goes_on: Condvar,
}

impl Hanging {
    fn set_hangs(&self, hangs: bool) {
        *self.hangs.lock().expect("no test panics with it") = hangs;
        self.goes_on.notify_all();
    }

    fn wait(&self) {
        let hangs = self.hangs.lock().expect("no test panics with it");
        let waited = self.goes_on.wait_while(hangs, |hangs| *hangs);
        drop(waited.expect("no test panics with it"));
    }
}

impl BackingStore for Hanging {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn identity(&self) -> BackingIdentity {
        self.inner.identity()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.wait();
        self.inner.read_at(offset, out)
    }

    fn write_runs(&self, runs: &[WriteRun<'_>]) -> Vec<io::Result<()>> {
        self.wait();
        self.inner.write_runs(runs)
    }

    fn zero_range(&self, offset: u64, len_bytes: u64) -> io::Result<()> {
        self.wait();
        self.inner.zero_range(offset, len_bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.wait();
        self.inner.sync()
    }

    fn counters(&self) -> BackingCounters {
        self.inner.counters()
    }

    fn transport(&self) -> String {
        self.inner.transport()
    }
}

#[test]
fn writers_of_other_disks_do_not_wait_for_one_that_answers_no_reader() {
    let Some(place) = Place::find("writers_of_other_disks_do_not_wait") else {
        return;
    };
    const WRITTEN: u64 = 50;
    let store = Arc::new(Hanging {
        inner: MemoryStore::new(1 << 20),
        hangs: Mutex::new(false),
        goes_on: Condvar::new(),
    });
    let options = RuntimeOptions::default()
        .throttle_deadline(Duration::from_secs(2))
        .answer_deadline(Duration::from_millis(10));
    let pool = Pool::create(&place.options().runtime(options)).expect("create");
    let hung = pool.attach(backing(&store)).expect("attach");
    let other = pool
        .attach(backing(&Arc::new(MemoryStore::new(8 << 20))))
        .expect("attach");
    for number in 0..WRITTEN {
        hung.write(number, &bytes(number)).expect("write");
    }
    store.set_hangs(true);
    let reader = {
        let hung = hung.clone();
        std::thread::spawn(move || read(&hung, WRITTEN))
    };
    while !pool.stats().volumes[0].degraded {
        std::thread::yield_now();
    }
    let recycled = || pool.stats().ssd.expect("on an SSD").recycled_segments;
    let mut written = 0;
    // A lap of the ring: the segments of both disks' blocks have gone.
    while recycled() < 12 {
        let done = other.write(written % 2000, &bytes(written));
        if let Err(error) = done {
            // So that the pool can be dropped.
            store.set_hangs(false);
            panic!("block {written}: {error}");
        }
        written += 1;
    }
    let usage = hung.usage();
    assert_eq!(
        (usage.cached_blocks, usage.dirty_blocks),
        (WRITTEN, WRITTEN)
    );
    store.set_hangs(false);
    assert_eq!(reader.join().expect("it is answered"), vec![0; BLOCK]);
    hung.flush().expect("flush");
    let snapshot = store.inner.snapshot();
    for number in 0..WRITTEN {
        assert_eq!(&snapshot[number as usize * BLOCK..][..BLOCK], bytes(number));
    }
}
