//! A backing names the pool that has its newest data: lost pools, old pools and old backings are noticed.
//! The page is `docs/inside/marks.md`.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use forebay::internals::{FoundMark, Mark, MarkFiles, MarkState};
use forebay::{
    Backing, BackingCounters, BackingIdentity, BackingStore, Error, ErrorKind, MarkPlace,
    MemoryStore, Pool, PoolOptions, RuntimeOptions, Volume, WriteRun,
};
use forebay_pmem::Region;
use forebay_pmem::shadow::{FenceFailure, Shadow, ShadowModel};

const BLOCK: usize = 4096;
const POOL_BYTES: u64 = 4 << 20;

fn quiet() -> RuntimeOptions {
    RuntimeOptions::default().background(false)
}

/// A place with an image and pools in files.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        let folder = tempfile::tempdir().expect("a folder");
        let image = std::fs::File::create(folder.path().join("image")).expect("image");
        image.set_len(64 * BLOCK as u64).expect("size");
        Place(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn create(&self, name: &str) -> Pool {
        let options = PoolOptions::new(self.path(name), POOL_BYTES).runtime(quiet());
        Pool::create(&options).expect("create")
    }

    fn open(&self, name: &str) -> Pool {
        Pool::open_with(&[self.path(name)], quiet()).expect("open")
    }

    fn image(&self) -> Backing {
        Backing::file(self.path("image")).expect("image")
    }

    fn mark(&self) -> Mark {
        mark_of(&self.path("image"))
    }

    /// The pool's file as it is now, kept beside.
    fn copy(&self, name: &str, to: &str) {
        std::fs::copy(self.path(name), self.path(to)).expect("copy");
    }

    fn put_back(&self, copy: &str, name: &str) {
        std::fs::rename(self.path(copy), self.path(name)).expect("rename");
    }
}

fn mark_of(path: &Path) -> Mark {
    let place = MarkFiles::of_path(path).expect("a place");
    let found = FoundMark::of(&place.read().expect("read"));
    found.mark().expect("a mark").clone()
}

fn write(volume: &Volume, byte: u8) {
    volume.write(7, &[byte; BLOCK]).expect("write");
}

fn read(volume: &Volume) -> u8 {
    let mut block = [0; BLOCK];
    volume.read(7, &mut block).expect("read");
    block[0]
}

/// A killed process leaves the pool as it is: without its end.
fn kill(pool: Pool, volume: Volume) {
    drop(volume);
    drop(pool);
}

fn refusal(attached: forebay::Result<Volume>) -> String {
    match attached {
        Err(error) if matches!(error.kind(), ErrorKind::Stale { .. }) => error.to_string(),
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn a_lost_pool_that_was_made_anew_served_the_image_without_what_was_acknowledged() {
    let place = Place::new();
    let pool = place.create("pool");
    let volume = pool.attach(place.image()).expect("attach");
    write(&volume, 1);
    kill(pool, volume);
    std::fs::remove_file(place.path("pool")).expect("remove");
    let pool = place.create("pool");
    let why = refusal(pool.attach(place.image()));
    assert!(
        why.contains("open since") && why.contains("--accept-stale"),
        "{why}"
    );
    // Refused is refused again: nothing was changed.
    refusal(pool.attach(place.image()));
    let volume = pool.attach_stale(place.image()).expect("insisted");
    assert_eq!(read(&volume), 0);
    assert_eq!(place.mark().generation, 2);
}

#[test]
fn an_old_pool_that_was_put_back_was_replayed_over_what_happened_since() {
    let place = Place::new();
    let pool = place.create("pool");
    let volume = pool.attach(place.image()).expect("attach");
    write(&volume, 1);
    kill(pool, volume);
    place.copy("pool", "old");
    let pool = place.open("pool");
    let volume = pool.attach(place.image()).expect("its own pool");
    write(&volume, 2);
    kill(pool, volume);
    place.copy("pool", "current");
    place.put_back("old", "pool");
    let why = refusal(place.open("pool").attach(place.image()));
    assert!(why.contains("this pool is an old copy"), "{why}");
    place.put_back("current", "pool");
    let pool = place.open("pool");
    assert_eq!(read(&pool.attach(place.image()).expect("its own pool")), 2);
}

#[test]
fn a_pool_copied_in_use_was_taken_for_the_one_that_ended_in_order() {
    let place = Place::new();
    let pool = place.create("pool");
    let volume = pool.attach(place.image()).expect("attach");
    write(&volume, 1);
    pool.checkpoint().expect("checkpoint");
    place.copy("pool", "old");
    write(&volume, 2);
    volume.flush().expect("flush");
    drop(volume);
    pool.close().expect("close");
    assert_eq!(place.mark().state, MarkState::Whole);
    place.put_back("old", "pool");
    refusal(place.open("pool").attach(place.image()));
}

#[test]
fn an_old_image_under_a_newer_pool_is_refused() {
    let place = Place::new();
    let pool = place.create("pool");
    let volume = pool.attach(place.image()).expect("attach");
    write(&volume, 1);
    let older = place.mark();
    kill(pool, volume);
    let pool = place.open("pool");
    let volume = pool.attach(place.image()).expect("again");
    kill(pool, volume);
    let files = MarkFiles::of_path(&place.path("image")).expect("place");
    files.write(&older.encode()).expect("put back");
    let why = refusal(place.open("pool").attach(place.image()));
    assert!(why.contains("it is an old copy"), "{why}");
}

#[test]
fn a_mark_that_is_missing_or_damaged_is_refused_where_the_pool_has_a_generation() {
    let place = Place::new();
    let pool = place.create("pool");
    let volume = pool.attach(place.image()).expect("attach");
    write(&volume, 1);
    kill(pool, volume);
    let copy = place.path("copy");
    std::fs::write(&copy, std::fs::read(place.path("image")).expect("read")).expect("copy");
    // In its place, with its inode: as a backup that was written back into the file.
    let files = MarkFiles::of_path(&place.path("image")).expect("place");
    files.write(b"forebay mark 2\n").expect("damage");
    let why = refusal(place.open("pool").attach(place.image()));
    assert!(why.contains("damaged"), "{why}");
    let image = std::fs::File::open(place.path("image")).expect("open");
    let _ = rustix_remove(&image);
    let _ = std::fs::remove_file(place.path("image.forebay"));
    let why = refusal(place.open("pool").attach(place.image()));
    assert!(why.contains("lacks the mark"), "{why}");
    let pool = place.open("pool");
    let volume = pool.attach_stale(place.image()).expect("insisted");
    assert_eq!(read(&volume), 1, "what was dirty counts");
    // To another pool a copy without a mark is a new disk.
    let other = place.create("other");
    let copied = other.attach(Backing::file(copy).expect("copy"));
    assert_eq!(read(&copied.expect("a new disk")), 0);
}

fn rustix_remove(image: &std::fs::File) -> std::io::Result<()> {
    use std::os::fd::AsRawFd;
    // As `setfattr -x`; where there is no such program, an empty attribute would be a damaged mark.
    let path = format!("/proc/self/fd/{}", image.as_raw_fd());
    Ok(rustix::fs::removexattr(
        path,
        forebay::internals::USER_ATTRIBUTE,
    )?)
}

/// Another file at the image's name, full of this byte.
fn replace_image(place: &Place, byte: u8) {
    // Beside it first, so that its inode's number is not given out again.
    std::fs::rename(place.path("image"), place.path("image-before")).expect("rename");
    std::fs::write(place.path("image"), [byte; 64 * BLOCK]).expect("image");
}

#[test]
fn an_image_made_anew_was_no_stale_one_and_could_not_be_accepted() {
    for is_mark_copied in [false, true] {
        let place = Place::new();
        let pool = place.create("pool");
        let volume = pool.attach(place.image()).expect("attach");
        volume.write(3, &[9; BLOCK]).expect("write");
        volume.flush().expect("flush");
        pool.checkpoint().expect("checkpoint");
        write(&volume, 1);
        let mark = place.mark();
        kill(pool, volume);
        replace_image(&place, 5);
        if is_mark_copied {
            let files = MarkFiles::of_path(&place.path("image")).expect("place");
            files.write(&mark.encode()).expect("copy");
        }
        let pool = place.open("pool");
        let why = refusal(pool.attach(place.image()));
        assert!(
            why.contains("another file") && why.contains("--accept-stale"),
            "{why}"
        );
        let volume = pool.attach_stale(place.image()).expect("insisted");
        assert_eq!(read(&volume), 1, "what was dirty counts");
        let mut block = [0; BLOCK];
        volume.read(3, &mut block).expect("read");
        assert_eq!(block[0], 5, "what was clean is the new file's");
        kill(pool, volume);
        // From now on the new file is the volume's, and the old one another file.
        let pool = place.open("pool");
        let volume = pool.attach(place.image()).expect("its own");
        volume.flush().expect("flush");
        drop(volume);
        pool.close().expect("close");
        assert_eq!(place.mark().state, MarkState::Whole);
        place.put_back("image-before", "image");
        refusal(place.open("pool").attach(place.image()));
    }
}

#[test]
fn an_image_that_is_whole_takes_any_pool_that_holds_nothing_of_it() {
    let place = Place::new();
    let pool = place.create("pool");
    let volume = pool.attach(place.image()).expect("attach");
    write(&volume, 1);
    volume.flush().expect("flush");
    assert_eq!(place.mark().state, MarkState::Open, "still in use");
    drop(volume);
    pool.close().expect("close");
    assert_eq!(place.mark().state, MarkState::Whole);
    let other = place.create("other");
    let volume = other.attach(place.image()).expect("a new pool");
    assert_eq!(read(&volume), 1);
    write(&volume, 2);
    volume.flush().expect("flush");
    drop(volume);
    other.close().expect("close");
    // The first one still has the block, clean: it would serve what was there before.
    let why = refusal(place.open("pool").attach(place.image()));
    assert!(why.contains("another pool"), "{why}");
    let pool = place.open("pool");
    let volume = pool.attach_stale(place.image()).expect("insisted");
    assert_eq!(read(&volume), 2, "its clean blocks were dropped");
}

#[test]
fn a_close_with_dirty_blocks_leaves_the_mark_open_and_the_pool_goes_on() {
    let place = Place::new();
    let pool = place.create("pool");
    let volume = pool.attach(place.image()).expect("attach");
    write(&volume, 1);
    drop(volume);
    pool.close().expect("close");
    assert_eq!(place.mark().state, MarkState::Open);
    refusal(place.create("other").attach(place.image()));
    let pool = place.open("pool");
    assert_eq!(read(&pool.attach(place.image()).expect("its own")), 1);
}

#[test]
fn a_detached_image_is_whole_and_comes_back_to_any_pool() {
    let place = Place::new();
    let pool = place.create("pool");
    for round in 1..4 {
        let volume = pool.attach(place.image()).expect("attach");
        write(&volume, round);
        pool.detach(volume).expect("detach");
        assert_eq!(place.mark().state, MarkState::Whole);
    }
    let other = place.create("other");
    assert_eq!(read(&other.attach(place.image()).expect("another pool")), 3);
}

#[test]
fn a_volume_that_outlives_its_pool_writes_nothing_under_a_mark_that_says_whole() {
    let place = Place::new();
    let pool = place.create("pool");
    let volume = pool.attach(place.image()).expect("attach");
    pool.close().expect("close");
    assert_eq!(place.mark().state, MarkState::Whole);
    volume
        .write(7, &[1; BLOCK])
        .expect_err("the pool is closed");
}

#[test]
fn an_image_under_another_name_is_not_a_new_disk_of_the_pool_that_has_its_data() {
    let place = Place::new();
    let pool = place.create("pool");
    let volume = pool.attach(place.image()).expect("attach");
    write(&volume, 1);
    kill(pool, volume);
    std::fs::rename(place.path("image"), place.path("renamed")).expect("rename");
    let beside = place.path("image.forebay");
    if beside.exists() {
        std::fs::rename(beside, place.path("renamed.forebay")).expect("rename");
    }
    let renamed = Backing::file(place.path("renamed")).expect("open");
    let why = refusal(place.open("pool").attach(renamed));
    assert!(why.contains("another name"), "{why}");
}

#[test]
fn a_pool_that_is_only_looked_at_checks_and_writes_no_mark() {
    let place = Place::new();
    let pool = place.create("pool");
    let volume = pool.attach(place.image()).expect("attach");
    write(&volume, 1);
    kill(pool, volume);
    let before = place.mark();
    let look = |name: &str| {
        let region = Region::open_read_only(&place.path(name)).expect("a private view");
        let pool = Pool::open_on(vec![region], quiet()).expect("open");
        let attached = pool.attach(place.image());
        let attached = attached.map(|volume| read(&volume));
        pool.close().expect("close");
        attached
    };
    assert_eq!(look("pool").expect("its own"), 1);
    assert_eq!(place.mark(), before);
    place.create("other").close().expect("close");
    assert!(matches!(
        look("other").as_ref().map_err(Error::kind),
        Err(ErrorKind::Stale { .. })
    ));
    assert_eq!(place.mark(), before);
}

/// A store whose mark fails on command, and that remembers each mark.
struct Marked {
    inner: MemoryStore,
    marks: Marks,
}

#[derive(Default)]
struct Marks(Mutex<MarksInside>);

#[derive(Default)]
struct MarksInside {
    written: Vec<Vec<u8>>,
    /// So many more are written, then one fails after it was written, or before.
    fails: Option<(usize, bool)>,
}

impl MarkPlace for Marks {
    fn read(&self) -> std::io::Result<Vec<Vec<u8>>> {
        let marks = self.0.lock().expect("marks");
        Ok(marks.written.last().cloned().into_iter().collect())
    }

    fn write(&self, mark: &[u8]) -> std::io::Result<()> {
        let mut marks = self.0.lock().expect("marks");
        let fails = match &mut marks.fails {
            Some((0, is_written)) => Some(*is_written),
            Some((left, _)) => {
                *left -= 1;
                None
            }
            None => None,
        };
        if fails != Some(false) {
            marks.written.push(mark.to_vec());
        }
        match fails {
            Some(_) => {
                marks.fails = None;
                Err(std::io::Error::other("injected"))
            }
            None => Ok(()),
        }
    }
}

impl Marks {
    fn fail_after(&self, good: usize, is_written: bool) {
        self.0.lock().expect("marks").fails = Some((good, is_written));
    }

    fn newest(&self) -> FoundMark {
        FoundMark::of(&self.read().expect("read"))
    }
}

impl BackingStore for Marked {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }
    fn identity(&self) -> BackingIdentity {
        self.inner.identity()
    }
    fn read_at(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
        self.inner.read_at(offset, out)
    }
    fn write_runs(&self, runs: &[WriteRun<'_>]) -> Vec<std::io::Result<()>> {
        self.inner.write_runs(runs)
    }
    fn zero_range(&self, offset: u64, len_bytes: u64) -> std::io::Result<()> {
        self.inner.zero_range(offset, len_bytes)
    }
    fn sync(&self) -> std::io::Result<()> {
        self.inner.sync()
    }
    fn counters(&self) -> BackingCounters {
        self.inner.counters()
    }
    fn transport(&self) -> String {
        self.inner.transport()
    }
    fn mark_place(&self) -> Option<&dyn MarkPlace> {
        Some(&self.marks)
    }
}

fn marked() -> Arc<Marked> {
    Arc::new(Marked {
        inner: MemoryStore::new(64 * BLOCK as u64),
        marks: Marks::default(),
    })
}

fn shadow_pool() -> (Arc<Shadow>, Pool) {
    let shadow = Arc::new(Shadow::new(POOL_BYTES, ShadowModel::Lines));
    let options = PoolOptions::default().runtime(quiet());
    let pool = Pool::create_on(vec![Region::on_shadow(shadow.clone())], &options).expect("create");
    (shadow, pool)
}

fn reopen(shadow: &Arc<Shadow>) -> Pool {
    let image = shadow.crash_state().durable().to_vec();
    Pool::open_on(vec![Region::shadow_from(&image)], quiet()).expect("open")
}

#[test]
fn a_start_that_breaks_off_at_any_step_is_gone_through_again() {
    // The mark fails before it is written and after, and each fence of the attach fails.
    for is_written in [false, true] {
        let store = marked();
        let (shadow, pool) = shadow_pool();
        store.marks.fail_after(0, is_written);
        let attached = pool.attach(Backing::from_store(store.clone()));
        assert!(
            matches!(
                attached.as_ref().map_err(Error::kind),
                Err(ErrorKind::Mark { .. })
            ),
            "{attached:?}"
        );
        drop(pool);
        let pool = reopen(&shadow);
        let volume = pool
            .attach(Backing::from_store(store.clone()))
            .expect("again");
        write(&volume, 1);
        drop(volume);
        // In one process, too.
        let second = marked();
        store.marks.fail_after(0, is_written);
        second.marks.fail_after(0, is_written);
        pool.attach(Backing::from_store(second.clone()))
            .expect_err("injected");
        pool.attach(Backing::from_store(second)).expect("again");
    }
    for fence in 0..2 {
        let store = marked();
        let (shadow, pool) = shadow_pool();
        shadow.set_fence_failure(FenceFailure::After(fence));
        pool.attach(Backing::from_store(store.clone()))
            .expect_err("injected");
        drop(pool);
        shadow.set_fence_failure(FenceFailure::Never);
        let pool = reopen(&shadow);
        pool.attach(Backing::from_store(store)).expect("again");
    }
}

#[test]
fn the_mark_is_open_before_the_first_acknowledgement_and_whole_only_after_the_pool_is_clean() {
    let store = marked();
    let (_, pool) = shadow_pool();
    let volume = pool
        .attach(Backing::from_store(store.clone()))
        .expect("attach");
    assert!(matches!(store.marks.newest(), FoundMark::Mark(mark) if mark.state == MarkState::Open));
    write(&volume, 1);
    volume.flush().expect("flush");
    // Whole could not be written, or that is unknown: it says open again, and the volume goes on.
    for is_written in [false, true] {
        store.marks.fail_after(0, is_written);
        pool.detach(volume.clone()).expect_err("injected");
        let newest = store.marks.newest();
        assert_eq!(newest.mark().expect("a mark").state, MarkState::Open);
        write(&volume, 2);
    }
    volume.flush().expect("flush");
    pool.close().expect("close");
    assert_eq!(
        store.marks.newest().mark().expect("a mark").state,
        MarkState::Whole
    );
}

/// A whole image is changed without its pool, between a close and a power cut and the next start.
fn changed_while_it_was_whole(model: ShadowModel, is_killed_between: bool) {
    let store = marked();
    let shadow = Arc::new(Shadow::new(POOL_BYTES, model));
    let options = PoolOptions::default().runtime(quiet());
    let region = || vec![Region::on_shadow(shadow.clone())];
    let attach = |pool: &Pool| {
        let backing = Backing::from_store(store.clone());
        pool.attach(backing).expect("attach")
    };
    let mut pool = Pool::create_on(region(), &options).expect("create");
    let volume = attach(&pool);
    write(&volume, 1);
    pool.checkpoint().expect("checkpoint");
    volume.flush().expect("flush");
    drop(volume);
    if is_killed_between {
        drop(pool);
        shadow.end_threads();
        pool = Pool::open_on(region(), quiet()).expect("open");
        drop(attach(&pool));
    }
    pool.close().expect("close");
    let newest = store.marks.newest();
    assert_eq!(newest.mark().expect("a mark").state, MarkState::Whole);
    let changed = WriteRun {
        offset: 7 * BLOCK as u64,
        bytes: &[2; BLOCK],
    };
    store.write_runs(&[changed]).remove(0).expect("write");
    let pool = reopen(&shadow);
    let volume = attach(&pool);
    assert_eq!(pool.stats().dirty_blocks, 0, "{model:?}");
    volume.flush().expect("flush");
    let mut block = [0; BLOCK];
    store.read_at(7 * BLOCK as u64, &mut block).expect("read");
    assert_eq!(block[0], 2, "{model:?}");
}

#[test]
fn an_image_that_was_changed_while_it_was_whole_was_overwritten_after_a_power_cut() {
    for model in [ShadowModel::Lines, ShadowModel::Pages] {
        for is_killed_between in [false, true] {
            changed_while_it_was_whole(model, is_killed_between);
        }
    }
}
