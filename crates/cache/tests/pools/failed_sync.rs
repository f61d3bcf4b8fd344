//! A sync of a pool's plain file that fails: Linux leaves the pages clean in its cache, and the disk
//! without them. The next process reads them there, and must not take them for written.

use std::sync::Arc;

use crate::fixtures::{BLOCK, MEMBER_BYTES, block, get, open, put, quiet, tiny};
use forebay::{Backing, ErrorKind, MemoryStore, Pool, PoolOptions, Region, Volume};
use forebay_pmem::shadow::{Distribution, FenceFailure, Shadow, ShadowModel};

const BLOCKS: u64 = 64;
/// The block whose commit's sync fails.
const UNLUCKY: u64 = 9;

/// A pool on a plain file, and its backing.
struct Disk {
    shadow: Arc<Shadow>,
    store: Arc<MemoryStore>,
}

impl Disk {
    fn new(options: &PoolOptions) -> (Disk, Pool) {
        let bytes = 4 * MEMBER_BYTES as u64;
        let disk = Disk {
            shadow: Arc::new(Shadow::new(bytes, ShadowModel::Pages)),
            store: Arc::new(MemoryStore::new(BLOCKS * BLOCK as u64)),
        };
        let region = Region::on_shadow(disk.shadow.clone());
        let pool = Pool::create_on(vec![region], options).expect("create");
        (disk, pool)
    }

    /// The next process opens it: the page cache is as it was.
    fn open(&self) -> forebay::Result<Pool> {
        Pool::open_on(vec![Region::on_shadow(self.shadow.clone())], quiet())
    }

    fn attach(&self, pool: &Pool) -> Volume {
        let backing = Backing::from_store(self.store.clone());
        pool.attach(backing).expect("attach")
    }

    /// Cuts the power in every way, many times each, and looks whether `is_right` with what is left.
    fn cut_power(&self, what: &str, is_right: &dyn Fn(&Volume) -> bool) {
        let mut rng = fastrand::Rng::with_seed(7);
        let state = self.shadow.crash_state();
        let mut image = Vec::new();
        for distribution in Distribution::ALL {
            for _ in 0..20 {
                state.sample_from(distribution, &mut rng, &mut image);
                let region = Region::shadow_page_from(&image);
                let pool = Pool::open_on(vec![region], quiet()).expect("open after the cut");
                let volume = self.attach(&pool);
                assert!(is_right(&volume), "{what}, {distribution:?}");
            }
        }
    }
}

fn paged(strict: bool) -> PoolOptions {
    tiny()
        .strict(strict)
        // Each thing on a page of its own, as on every plain file.
        .unit_bytes(4096)
        .lane_bytes(8192)
}

/// Blocks 0 to 5 in their shapes: whole, patched, appended to, zero, overwritten, of a checkpoint.
fn write_all_shapes(pool: &Pool, volume: &Volume) {
    put(volume, 5, &block(5, 1));
    pool.checkpoint().expect("checkpoint");
    for number in [0, 1, 4] {
        put(volume, number, &block(number, 1));
    }
    let mut transaction = volume.begin();
    let at = BLOCK as u64 + 40;
    transaction.write_at(at, b"delta").expect("write");
    transaction.append(2, 0, b"some bytes").expect("append");
    transaction.commit().expect("commit");
    let mut transaction = volume.begin();
    transaction.append(2, 10, b" and more").expect("append");
    transaction.discard(3..4).expect("discard");
    transaction.commit().expect("commit");
    put(volume, 4, &block(4, 2));
}

fn contents(volume: &Volume) -> Vec<Vec<u8>> {
    let read = |number| get(volume, number).expect("read");
    (0..6).map(read).collect()
}

fn is_whole_or_absent(volume: &Volume) -> bool {
    let found = get(volume, UNLUCKY).expect("read");
    found == block(UNLUCKY, 1) || found == [0; BLOCK]
}

/// Acknowledged blocks, and then a commit whose sync fails. Returns what was acknowledged.
fn until_a_sync_fails(options: &PoolOptions) -> (Disk, Vec<Vec<u8>>) {
    let (disk, pool) = Disk::new(options);
    let volume = disk.attach(&pool);
    write_all_shapes(&pool, &volume);
    let acknowledged = contents(&volume);
    disk.shadow.set_fence_failure(FenceFailure::After(0));
    let error = volume.write(UNLUCKY, &block(UNLUCKY, 1)).expect_err("EIO");
    assert!(matches!(error.kind(), ErrorKind::Media(_)), "{error}");
    let error = volume
        .write(UNLUCKY, &block(UNLUCKY, 2))
        .expect_err("refused");
    assert!(error.to_string().contains("open it again"), "{error}");
    (disk, acknowledged)
}

#[test]
fn a_block_acknowledged_before_a_failed_sync_is_not_lost_by_opening_the_pool_again() {
    for strict in [false, true] {
        let (disk, acknowledged) = until_a_sync_fails(&paged(strict));
        let is_right =
            |volume: &Volume| contents(volume) == acknowledged && is_whole_or_absent(volume);
        disk.cut_power("before it is opened", &is_right);
        let pool = disk.open().expect("open");
        let volume = disk.attach(&pool);
        assert!(is_right(&volume), "what the page cache has is right");
        let served = get(&volume, UNLUCKY).expect("read");
        let is_kept =
            |volume: &Volume| is_right(volume) && get(volume, UNLUCKY).expect("read") == served;
        disk.cut_power("opened again", &is_kept);
        drop(volume);
        pool.close().expect("close");
        disk.cut_power("closed", &is_kept);
    }
}

/// Recovery after it fails at each of its own syncs in turn, and is tried again until it succeeds.
#[test]
fn a_recovery_whose_sync_failed_is_not_believed_by_the_next_one() {
    for strict in [false, true] {
        for fences in 0.. {
            let (disk, acknowledged) = until_a_sync_fails(&paged(strict));
            let is_right =
                |volume: &Volume| contents(volume) == acknowledged && is_whole_or_absent(volume);
            disk.shadow.set_fence_failure(FenceFailure::After(fences));
            let is_through = disk.open().is_ok();
            disk.cut_power(&format!("{fences} syncs"), &is_right);
            disk.shadow.set_fence_failure(FenceFailure::Never);
            let pool = disk.open().expect("open again");
            let volume = disk.attach(&pool);
            put(&volume, 0, &block(0, 3));
            let mut expected = acknowledged.clone();
            expected[0] = block(0, 3);
            let is_right =
                |volume: &Volume| contents(volume) == expected && is_whole_or_absent(volume);
            disk.cut_power(&format!("{fences} syncs, then opened"), &is_right);
            if is_through {
                break;
            }
        }
    }
}

/// A sync that fails within a checkpoint, an attach or a close, each of which stores metadata only.
#[test]
fn metadata_of_a_failed_sync_is_not_believed_by_the_next_process() {
    for fences in 0..2 {
        let (disk, pool) = Disk::new(&paged(false));
        let volume = disk.attach(&pool);
        write_all_shapes(&pool, &volume);
        let acknowledged = contents(&volume);
        disk.shadow.set_fence_failure(FenceFailure::After(fences));
        pool.checkpoint().expect_err("EIO");
        drop((volume, pool));
        let pool = disk.open().expect("open");
        let volume = disk.attach(&pool);
        // More than one incarnation, so that every line was in use.
        let is_right = |volume: &Volume| contents(volume) == acknowledged;
        disk.cut_power(&format!("{fences} syncs"), &is_right);
        drop(volume);
        pool.close().expect("close");
        disk.cut_power(&format!("{fences} syncs, closed"), &is_right);
    }
}

/// The attach of the pool's first volume fails at its sync; the next process finds the volume's line.
#[test]
fn a_volume_line_of_a_failed_sync_is_not_believed_by_the_next_process() {
    let (disk, pool) = Disk::new(&paged(false));
    disk.shadow.set_fence_failure(FenceFailure::After(0));
    pool.attach(Backing::from_store(disk.store.clone()))
        .expect_err("EIO");
    drop(pool);
    let pool = disk.open().expect("open");
    let volume = disk.attach(&pool);
    put(&volume, 1, &block(1, 1));
    let is_right = |volume: &Volume| get(volume, 1).expect("read") == block(1, 1);
    disk.cut_power("attached", &is_right);
    // Images of other tests are opened in the same way.
    let image = disk.shadow.crash_state().durable().to_vec();
    open(&[image], quiet()).expect("the plain form opens it, too");
}
