//! A pool grows between two incarnations and keeps its volumes, and everything that was acknowledged.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::fixtures::{BLOCK, MEMBER_BYTES, Rig, block, get, open, put, quiet, tiny};
use forebay::{
    Backing, BackingStore, Error, ErrorKind, MemoryStore, Pool, PoolOptions, Redundancy, Region,
    Result, WriteRun,
};
use forebay_pmem::shadow::{FenceFailure, Shadow, ShadowModel};

const GROWN_BYTES: usize = 4 * MEMBER_BYTES;

fn enlarged(images: &[Vec<u8>]) -> Vec<Region> {
    let enlarge = |image: &Vec<u8>| {
        let mut image = image.clone();
        image.resize(GROWN_BYTES, 0xAA);
        Region::shadow_from(&image)
    };
    images.iter().map(enlarge).collect()
}

fn grow(images: &[Vec<u8>], store: &Arc<MemoryStore>, bytes: usize) -> Result<Pool> {
    let mut open_backing = |_: &Path| Ok(Backing::from_store(store.clone()));
    let regions = enlarged(images);
    let go_on = &mut |_: &_| ControlFlow::Continue(());
    Pool::grow_on(regions, bytes as u64, &mut open_backing, go_on, quiet())
}

#[test]
fn a_grown_pool_has_more_room_and_the_same_volumes() {
    let checksum = tiny().redundancy(Redundancy::Checksum);
    for (members, options) in [
        (1, tiny()),
        (1, tiny().strict(true)),
        (1, checksum),
        (3, tiny()),
    ] {
        let rig = Rig::new(&options, members);
        let volume = rig.attach();
        for number in 0..40 {
            put(&volume, number, &block(number, 1));
        }
        let slots = rig.pool.stats().slots;
        let pool = grow(&rig.images(), &rig.store, GROWN_BYTES).expect("grow");
        assert!(pool.stats().slots > 3 * slots);
        assert_eq!(pool.stats().cached_blocks, 0);
        let known = pool.volumes().remove(0);
        assert_eq!(
            (known.id(), known.size_bytes()),
            (volume.id(), volume.size_bytes())
        );
        let again = pool
            .attach(Backing::from_store(rig.store.clone()))
            .expect("attach");
        for number in 0..40 {
            assert!(get(&again, number).expect("read") == block(number, 1));
        }
        for number in 0..64 {
            put(&again, number, &block(number, 2));
        }
        for number in 0..64 {
            assert!(get(&again, number).expect("read") == block(number, 2));
        }
    }
}

#[test]
fn a_grown_pool_opens_with_its_new_size_and_not_when_it_is_cut_short() {
    let folder = tempfile::tempdir_in("/dev/shm").expect("/dev/shm");
    let options = PoolOptions::new(folder.path().join("0"), 4 << 20)
        .member(folder.path().join("1"))
        .member_bytes(4 << 20);
    let image = folder.path().join("disk.img");
    std::fs::write(&image, vec![0; 8 << 20]).expect("image");
    let pool = Pool::create(&options).expect("create");
    let slots = pool.stats().slots;
    let volume = pool
        .attach(Backing::file(&image).expect("backing"))
        .expect("attach");
    put(&volume, 5, &[5; 4096]);
    drop((volume, pool));
    let paths: &[PathBuf] = options.paths();
    let go_on = &mut |_: &_| ControlFlow::Continue(());
    assert!(Pool::grow(paths, 1 << 20, go_on).is_err(), "smaller");
    Pool::grow(paths, 16 << 20, go_on).expect("grow");
    Pool::grow(paths, 16 << 20, go_on).expect("nothing to do");
    assert_eq!(
        std::fs::read(&image).expect("image")[5 * 4096..6 * 4096],
        [5; 4096]
    );
    let pool = Pool::open_with(paths, quiet()).expect("open");
    assert!(pool.stats().slots > 3 * slots, "{}", pool.stats().slots);
    let volume = pool
        .attach(Backing::file(&image).expect("backing"))
        .expect("attach");
    assert!(get(&volume, 5).expect("read") == [5; 4096]);
    drop((volume, pool));
    let member = std::fs::File::options()
        .write(true)
        .open(&paths[1])
        .expect("open");
    member.set_len(8 << 20).expect("cut");
    let refused = Pool::open_with(paths, quiet()).expect_err("cut short");
    assert!(refused.to_string().contains("truncated"), "{refused}");
}

#[test]
fn what_cannot_be_drained_is_not_grown() {
    let rig = Rig::new(&tiny(), 1);
    let volume = rig.attach();
    put(&volume, 3, &block(3, 1));
    let images = rig.images();
    let go_on = &mut |_: &_| ControlFlow::Continue(());
    let missing =
        &mut |path: &Path| Err(ErrorKind::Volume(format!("{} is away", path.display())).into());
    let bytes = GROWN_BYTES as u64;
    let refused = Pool::grow_on(enlarged(&images), bytes, missing, go_on, quiet());
    assert!(
        refused
            .expect_err("no backing")
            .to_string()
            .contains("is away")
    );
    let stop = &mut |_: &_| ControlFlow::Break(());
    let there = &mut |_: &Path| Ok(Backing::from_store(rig.store.clone()));
    let stopped = Pool::grow_on(enlarged(&images), bytes, there, stop, quiet());
    assert!(matches!(
        stopped.as_ref().map_err(Error::kind),
        Err(ErrorKind::Cancelled { .. })
    ));
    let other = &mut |_: &Path| Ok(Backing::memory(64 * BLOCK as u64));
    let refused = Pool::grow_on(enlarged(&images), bytes, other, go_on, quiet());
    assert!(matches!(
        refused.as_ref().map_err(Error::kind),
        Err(ErrorKind::Volume(_))
    ));
    let short = Pool::grow_on(enlarged(&images), 2 * bytes, there, go_on, quiet());
    assert!(matches!(
        short.as_ref().map_err(Error::kind),
        Err(ErrorKind::Refused { .. })
    ));
    let pool = open(&images, quiet()).expect("as before");
    let again = pool
        .attach(Backing::from_store(rig.store.clone()))
        .expect("attach");
    assert!(get(&again, 3).expect("read") == block(3, 1));
}

/// A growth stops at each of its fences in turn, as when its process is killed there: what it stored is
/// seen by the next process, and not durable. What that one has written, a power cut must not take back.
#[test]
fn entries_that_a_killed_growth_had_zeroed_came_back() {
    for options in [tiny(), tiny().redundancy(Redundancy::Checksum)] {
        stop_growth_at_each_fence(&options);
    }
}

fn stop_growth_at_each_fence(options: &PoolOptions) {
    let mut rng = fastrand::Rng::with_seed(1);
    let rig = Rig::new(options, 1);
    let volume = rig.attach();
    for number in 0..40 {
        put(&volume, number, &block(number, 1));
    }
    let mut before = rig.images().remove(0);
    before.resize(GROWN_BYTES, 0);
    let behind = rig.store.snapshot();
    for fences in 0.. {
        let shadow = Arc::new(Shadow::from_image(&before, ShadowModel::Lines));
        let regions = || vec![Region::on_shadow(shadow.clone())];
        let (bytes, offset) = (&*behind, 0);
        rig.store.write_runs(&[WriteRun { offset, bytes }]);
        let backing = || Backing::from_store(rig.store.clone());
        let mut open_backing = |_: &Path| Ok(backing());
        shadow.set_fence_failure(FenceFailure::From(fences));
        let go_on = &mut |_: &_| ControlFlow::Continue(());
        let bytes = GROWN_BYTES as u64;
        let grown = Pool::grow_on(regions(), bytes, &mut open_backing, go_on, quiet());
        let is_grown = grown.is_ok();
        drop(grown);
        shadow.set_fence_failure(FenceFailure::Never);
        shadow.end_threads();
        let pool = Pool::open_on(regions(), quiet()).expect("open");
        let volume = pool.attach(backing()).expect("attach");
        for number in 40..50 {
            put(&volume, number, &block(number, 2));
        }
        for _ in 0..20 {
            let image = shadow.crash_state().sample(&mut rng);
            let pool = open(&[image], quiet()).unwrap_or_else(|error| panic!("{fences}: {error}"));
            let volume = pool.attach(backing()).expect("attach");
            for number in 0..50 {
                let version = 1 + u64::from(number >= 40);
                let found = get(&volume, number).expect("read");
                assert!(found == block(number, version), "{fences}: {number}");
            }
        }
        if is_grown {
            break;
        }
    }
}
