//! Pages that the medium loses while a pool opens or works, played by a model: what is lost is said to
//! be lost, and nothing else suffers.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use crate::fixtures::{BLOCK, block, get, put, quiet, tiny};
use forebay::{
    Backing, BackingCounters, BackingIdentity, BackingStore, Error, ErrorKind, MemoryStore, Pool,
    Region, WriteRun,
};
use forebay_pmem::shadow::{Shadow, ShadowModel};
use forebay_pmem::{PAGE_BYTES, Pause, set_yield_hook};

const MEMBER_BYTES: u64 = 16 * PAGE_BYTES as u64;
const BLOCKS: u64 = 6;

/// A store under whose writes the medium loses the pages with the pool's table.
struct LosingTable {
    store: MemoryStore,
    shadow: Arc<Shadow>,
}

impl BackingStore for LosingTable {
    fn size_bytes(&self) -> u64 {
        self.store.size_bytes()
    }
    fn identity(&self) -> BackingIdentity {
        self.store.identity()
    }
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.store.read_at(offset, out)
    }
    fn write_runs(&self, runs: &[WriteRun<'_>]) -> Vec<io::Result<()>> {
        (0..4).for_each(|page| self.shadow.lose_page(page * PAGE_BYTES as u64));
        self.store.write_runs(runs)
    }
    fn zero_range(&self, offset: u64, len_bytes: u64) -> io::Result<()> {
        self.store.zero_range(offset, len_bytes)
    }
    fn sync(&self) -> io::Result<()> {
        self.store.sync()
    }
    fn counters(&self) -> BackingCounters {
        self.store.counters()
    }
    fn transport(&self) -> String {
        self.store.transport()
    }
}

fn pool_on(shadow: &Arc<Shadow>) -> Pool {
    let regions = vec![Region::on_shadow(shadow.clone())];
    Pool::create_on(regions, &tiny()).expect("create")
}

#[test]
fn an_entry_that_is_lost_while_its_block_is_written_back_ends_no_thread() {
    let shadow = Arc::new(Shadow::new(MEMBER_BYTES, ShadowModel::Lines));
    let pool = pool_on(&shadow);
    let store = Arc::new(LosingTable {
        store: MemoryStore::new(BLOCKS * BLOCK as u64),
        shadow: shadow.clone(),
    });
    let volume = pool
        .attach(Backing::from_store(store.clone()))
        .expect("attach");
    for number in 0..BLOCKS {
        put(&volume, number, &block(number, 1));
    }
    // The round itself may say what it met, or not.
    let _ = pool.write_back_once();
    for number in 0..BLOCKS {
        let error = get(&volume, number).expect_err("its entry is lost");
        assert!(matches!(error.kind(), ErrorKind::Damaged { .. }), "{error}");
    }
    assert!(volume.flush().is_err(), "the dirty blocks cannot be found");
}

#[test]
fn a_pool_that_meets_a_lost_page_is_not_called_foreign_old_or_worth_overwriting() {
    let shadow = Arc::new(Shadow::new(MEMBER_BYTES, ShadowModel::Lines));
    let pool = pool_on(&shadow);
    let store = Arc::new(MemoryStore::new(BLOCKS * BLOCK as u64));
    let attach = |pool: &Pool| pool.attach(Backing::from_store(store.clone()));
    let volume = attach(&pool).expect("attach");
    for number in 0..BLOCKS {
        put(&volume, number, &block(number, 1));
    }
    let image = crate::fixtures::view(&shadow);
    let mut refused = 0;
    for page in (0..MEMBER_BYTES).step_by(PAGE_BYTES) {
        let damaged = Arc::new(Shadow::from_image(&image, ShadowModel::Lines));
        damaged.lose_page(page);
        for options in [quiet(), crate::fixtures::lenient()] {
            let opened = Pool::open_on(vec![Region::on_shadow(damaged.clone())], options);
            match opened.map_err(Error::into_kind) {
                Ok(pool) => drop(attach(&pool)),
                Err(ErrorKind::Media(error)) => {
                    let said = error.to_string();
                    assert!(said.contains(&format!("failed at byte {page} ")), "{said}");
                    refused += 1;
                }
                Err(error) => panic!("page {page} is lost: {error}"),
            }
        }
    }
    assert!(refused >= 2, "the first page is needed by every open");
}

/// A store that says when it is asked to write, and then waits.
struct SlowToWrite {
    store: MemoryStore,
    is_asked: Mutex<Sender<()>>,
    may_go_on: Mutex<Receiver<()>>,
}

impl BackingStore for SlowToWrite {
    fn size_bytes(&self) -> u64 {
        self.store.size_bytes()
    }
    fn identity(&self) -> BackingIdentity {
        self.store.identity()
    }
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.store.read_at(offset, out)
    }
    fn write_runs(&self, runs: &[WriteRun<'_>]) -> Vec<io::Result<()>> {
        self.is_asked.lock().unwrap().send(()).expect("a test");
        self.may_go_on.lock().unwrap().recv().expect("a test");
        self.store.write_runs(runs)
    }
    fn zero_range(&self, offset: u64, len_bytes: u64) -> io::Result<()> {
        self.store.zero_range(offset, len_bytes)
    }
    fn sync(&self) -> io::Result<()> {
        self.store.sync()
    }
    fn counters(&self) -> BackingCounters {
        self.store.counters()
    }
    fn transport(&self) -> String {
        self.store.transport()
    }
}

/// A block's slot is lost while the block is on its way to the backing, and the reader finds that. At its
/// look number `turn` the backing has the block. None if it did not look so often.
fn read_while_it_gets_clean(turn: u32) -> Option<forebay::Result<()>> {
    let options = tiny().block_bytes(PAGE_BYTES as u32);
    let shadow = Arc::new(Shadow::new(MEMBER_BYTES, ShadowModel::Lines));
    let regions = vec![Region::on_shadow(shadow.clone())];
    let pool = Pool::create_on(regions, &options).expect("create");
    let (asked, is_asked) = channel();
    let (go_on, may_go_on) = channel();
    let store = Arc::new(SlowToWrite {
        store: MemoryStore::new(PAGE_BYTES as u64),
        is_asked: Mutex::new(asked),
        may_go_on: Mutex::new(may_go_on),
    });
    let volume = pool.attach(Backing::from_store(store)).expect("attach");
    let written = crate::fixtures::block_of(PAGE_BYTES, 0, 1);
    put(&volume, 0, &written);
    let place = forebay::unstable::locate_block(&volume, 0).expect("cached");
    std::thread::scope(|scope| {
        let (done, is_done) = channel();
        let pool = &pool;
        scope.spawn(move || {
            pool.write_back_once().expect("write back");
            // No thread waits where the reader had looked last.
            let _ = done.send(());
        });
        is_asked.recv().expect("the block was copied");
        shadow.lose_page(place.bytes[0].1.start);
        let looks = Rc::new(Cell::new(0));
        let (seen, go_on_then) = (looks.clone(), go_on.clone());
        set_yield_hook(Some(Box::new(move |pause| {
            if pause == Pause::Look && seen.replace(seen.get() + 1) == turn {
                go_on_then.send(()).expect("a test");
                is_done.recv().expect("the round ends");
            }
        })));
        let read = get(&volume, 0);
        set_yield_hook(None);
        if looks.get() <= turn {
            go_on.send(()).expect("a test");
            return None;
        }
        Some(read.map(|bytes| assert_eq!(bytes, written)))
    })
}

#[test]
fn a_block_that_gets_clean_while_a_reader_finds_its_copy_lost_is_no_error() {
    let mut met = 0;
    for turn in 0..12 {
        if let Some(read) = read_while_it_gets_clean(turn) {
            read.unwrap_or_else(|error| panic!("look {turn}: {error}"));
            met += 1;
        }
    }
    assert!(met >= 2, "{met} moments");
}

#[test]
fn a_lost_table_of_volumes_is_not_said_to_have_none() {
    let shadow = Arc::new(Shadow::new(8 * MEMBER_BYTES, ShadowModel::Lines));
    let options = tiny()
        .unit_bytes(PAGE_BYTES as u32)
        .lane_bytes(PAGE_BYTES as u64);
    let pool = Pool::create_on(vec![Region::on_shadow(shadow.clone())], &options).expect("create");
    let store = Arc::new(MemoryStore::new(BLOCKS * BLOCK as u64));
    drop(pool.attach(Backing::from_store(store)).expect("attach"));
    let image = crate::fixtures::view(&shadow);
    let table = crate::fixtures::Plan::of(&image).volume_table as u64;
    let sides = |lost: Option<u64>| {
        let shadow = Arc::new(Shadow::from_image(&image, ShadowModel::Lines));
        lost.into_iter().for_each(|page| shadow.lose_page(page));
        Pool::sides_on(vec![Region::on_shadow(shadow)])
    };
    assert_eq!(sides(None).expect("a sound pool").len(), 1);
    let found = sides(Some(table));
    assert!(
        matches!(
            found.as_ref().map_err(Error::kind),
            Err(ErrorKind::Media(_))
        ),
        "{found:?}"
    );
}
