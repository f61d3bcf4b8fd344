//! A pool whose table has one copy with seals: nothing that its medium returns wrong is believed.

use std::ops::{ControlFlow, Range};
use std::sync::{Arc, Mutex};

use forebay::unstable::{MediumArea, medium_areas};
use forebay::{
    Backing, ErrorKind, MemoryStore, Pool, PoolOptions, Redundancy, Region, Result, RuntimeOptions,
    ScrubOptions, ScrubReport, Volume,
};
use forebay_pmem::shadow::{CrashState, Fault, Shadow, ShadowModel};

const BLOCK: usize = 512;
const BLOCKS: u64 = 64;
const IMAGES_OF_A_CRASH: usize = 8;

struct Sealed {
    shadow: Arc<Shadow>,
    store: Arc<MemoryStore>,
    pool: Pool,
    volume: Volume,
}

fn options() -> PoolOptions {
    PoolOptions::default()
        .block_bytes(BLOCK as u32)
        .volumes(2)
        .lanes(2)
        .lane_bytes(16 << 10)
        .background(false)
        .accept_stale(true)
        .redundancy(Redundancy::Checksum)
}

fn bytes_of(block: u64, version: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(block << 8 | version);
    (0..BLOCK).map(|_| random.u8(..)).collect()
}

impl Sealed {
    /// With all blocks in the table, of version 1.
    fn filled() -> Sealed {
        let shadow = Arc::new(Shadow::new(256 << 10, ShadowModel::Lines));
        let on = vec![Region::on_shadow(shadow.clone())];
        let pool = Pool::create_on(on, &options()).expect("create");
        let store = Arc::new(MemoryStore::new(BLOCKS * BLOCK as u64));
        let backing = Backing::from_store(store.clone());
        let volume = pool.attach(backing).expect("attach");
        let sealed = Sealed {
            shadow,
            store,
            pool,
            volume,
        };
        (0..BLOCKS).for_each(|block| sealed.put(block, 1));
        sealed.pool.checkpoint().expect("checkpoint");
        sealed
    }
    fn put(&self, block: u64, version: u64) {
        let written = self.volume.write(block, &bytes_of(block, version));
        written.expect("write");
    }
    fn area(&self, area: MediumArea) -> Range<u64> {
        let areas = medium_areas(&self.pool);
        let found = areas.into_iter().find(|(found, _)| *found == area);
        found.expect("it has one").1
    }
    /// The next write there is lost; no cache hides it.
    fn lose_write(&self, area: MediumArea) {
        let Range { start, end } = self.area(area);
        let (offset, len) = (start, end - start);
        self.shadow.inject(Fault::LostWrite { offset, len });
    }
    fn evict(&self, area: MediumArea) {
        let Range { start, end } = self.area(area);
        self.shadow.evict(start, end - start);
    }
    fn scrub(&self) -> ScrubReport {
        let mut go_on = |_| ControlFlow::Continue(());
        let report = self.pool.scrub(&ScrubOptions::default(), &mut go_on);
        report.expect("scrub")
    }
    fn durable(&self) -> Vec<u8> {
        self.shadow.crash_state().durable().to_vec()
    }
    fn open(&self, image: &[u8], runtime: RuntimeOptions) -> Result<(Pool, Volume)> {
        let pool = Pool::open_on(vec![Region::shadow_from(image)], runtime)?;
        let volume = pool.attach(Backing::from_store(self.store.clone()))?;
        Ok((pool, volume))
    }
    /// Which version each block has that this image holds.
    fn versions(&self, volume: &Volume) -> Vec<Option<u64>> {
        let mut out = vec![0; BLOCK];
        let mut version = |block| {
            volume.read(block, &mut out).expect("read");
            (1..4).find(|version| out == bytes_of(block, *version))
        };
        (0..BLOCKS).map(&mut version).collect()
    }
    fn reads(&self, image: &[u8], expected: impl Fn(u64) -> u64) {
        let (_pool, volume) = self.open(image, runtime()).expect("open");
        for (block, version) in (0..).zip(self.versions(&volume)) {
            assert_eq!(version, Some(expected(block)), "block {block}");
        }
    }
    fn is_refused(&self, image: &[u8]) {
        let Err(error) = self.open(image, runtime()) else {
            panic!("it opened");
        };
        let ErrorKind::Damaged { found, .. } = error.kind() else {
            panic!("{error}");
        };
        assert!(
            found.contains("is not what was stored there last"),
            "{found}"
        );
    }
}

fn runtime() -> RuntimeOptions {
    options().runtime_options().clone()
}

#[test]
fn a_lost_write_of_the_table_is_refused_and_what_it_cost_is_told() {
    let sealed = Sealed::filled();
    sealed.lose_write(MediumArea::Table);
    sealed.put(0, 2);
    sealed.pool.checkpoint().expect("checkpoint");
    assert_eq!(sealed.shadow.struck(), 1);
    let image = sealed.durable();
    sealed.is_refused(&image);
    let opened = sealed.open(&image, runtime().accept_loss(true));
    let (pool, volume) = opened.expect("open");
    assert_eq!(pool.recovery_report().damage.len(), 1);
    let versions = sealed.versions(&volume);
    // What else is in that line is gone, too, and the backing has none of it.
    let lost = versions.iter().filter(|version| version.is_none()).count();
    assert!((1..=4).contains(&lost), "{versions:?}");
    assert!(!versions.contains(&Some(2)), "the old block came back");
    assert_eq!(versions[0], None, "the old block came back");
}

#[test]
fn a_flipped_bit_in_each_line_and_seal_is_put_right() {
    let sealed = Sealed::filled();
    let image = sealed.durable();
    let (table, seals) = (
        sealed.area(MediumArea::Table),
        sealed.area(MediumArea::Seals),
    );
    let lines = ((table.end - table.start) / 64) as usize;
    for in_seals in [false, true] {
        let mut flipped = image.clone();
        for line in 0..lines.min(64) {
            let (start, bytes) = match in_seals {
                true => (seals.start as usize + line * 8, 8),
                false => (table.start as usize + line * 64, 64),
            };
            flipped[start + line * 7 % bytes] ^= 1 << (line % 8);
        }
        sealed.reads(&flipped, |_| 1);
    }
}

#[test]
fn a_misdirected_line_and_a_lost_seal_are_refused() {
    let sealed = Sealed::filled();
    sealed.lose_write(MediumArea::Seals);
    sealed.put(0, 2);
    sealed.pool.checkpoint().expect("checkpoint");
    sealed.is_refused(&sealed.durable());
    let sealed = Sealed::filled();
    let mut image = sealed.durable();
    let Range { start, end } = sealed.area(MediumArea::Table);
    let is_used = |line: &u64| {
        let line = *line as usize;
        image[line..line + 64].iter().any(|byte| *byte != 0)
    };
    let used: Vec<u64> = (start..end).step_by(64).filter(is_used).collect();
    let (from, to) = (used[0] as usize, used[1] as usize);
    image.copy_within(from..from + 64, to);
    sealed.is_refused(&image);
}

/// A sector of the table that arrives over the seals of its own lines, which were never sent before, may leave zeroes
/// in both places.
#[test]
fn zeroes_in_the_place_of_a_line_and_of_its_seal_are_refused() {
    let sealed = Sealed::filled();
    let image = sealed.durable();
    let (table, seals) = (
        sealed.area(MediumArea::Table).start as usize,
        sealed.area(MediumArea::Seals).start as usize,
    );
    let is_used = |line: &usize| image[table + line * 64..][..64] != [0; 64];
    let zeroed = |line: usize, is_line: bool| {
        let mut image = image.clone();
        if is_line {
            image[table + line * 64..][..64].fill(0);
        }
        image[seals + line * 8..][..8].fill(0);
        image
    };
    let lines = (sealed.area(MediumArea::Table).end as usize - table) / 64;
    let (used, empty): (Vec<usize>, Vec<usize>) = (0..lines).partition(is_used);
    assert!(!used.is_empty() && !empty.is_empty());
    for line in used {
        sealed.is_refused(&zeroed(line, true));
    }
    // Nothing tells that this one was empty.
    sealed.is_refused(&zeroed(empty[0], false));
}

#[test]
fn a_scrub_puts_lines_and_seals_right() {
    for area in [MediumArea::Table, MediumArea::Seals] {
        let sealed = Sealed::filled();
        sealed.lose_write(area);
        sealed.put(0, 2);
        sealed.pool.checkpoint().expect("checkpoint");
        assert_eq!(sealed.shadow.struck(), 1);
        let report = sealed.scrub();
        assert_eq!((report.found, report.repaired, report.lost), (1, 1, 0));
        assert_eq!(sealed.scrub().found, 0);
        sealed.reads(&sealed.durable(), |block| if block == 0 { 2 } else { 1 });
    }
}

/// What a crash may leave at each event of what is done.
fn crashes_of(sealed: &Sealed, run: impl FnOnce()) -> Vec<CrashState> {
    let crashes = Arc::new(Mutex::new(Vec::new()));
    let (seen, shadow) = (crashes.clone(), Arc::downgrade(&sealed.shadow));
    sealed.shadow.set_hook(Some(Arc::new(move |_| {
        let shadow = shadow.upgrade().expect("it is in use");
        seen.lock().expect("no panic").push(shadow.crash_state());
    })));
    run();
    sealed.shadow.set_hook(None);
    Arc::into_inner(crashes)
        .expect("the hook is gone")
        .into_inner()
        .expect("no panic")
}

#[test]
fn a_crash_in_a_checkpoint_is_no_damage() {
    let sealed = Sealed::filled();
    (0..BLOCKS).for_each(|block| sealed.put(block, 2));
    let crashes = crashes_of(&sealed, || sealed.pool.checkpoint().expect("checkpoint"));
    let mut random = fastrand::Rng::with_seed(1);
    for crash in &crashes {
        for _ in 0..IMAGES_OF_A_CRASH {
            sealed.reads(&crash.sample(&mut random), |_| 2);
        }
    }
}

/// What one checkpoint lost may be hidden by the next one's seal, if that came before what is right.
#[test]
fn a_crash_in_the_checkpoint_after_a_lost_write_brings_nothing_old_back() {
    crash_in_the_checkpoint_after_a_lost_write(true);
}

/// Or by a cache.
#[test]
fn a_crash_in_the_checkpoint_after_a_lost_write_that_a_cache_hides_brings_nothing_old_back() {
    crash_in_the_checkpoint_after_a_lost_write(false);
}

fn crash_in_the_checkpoint_after_a_lost_write(is_seen: bool) {
    let sealed = Sealed::filled();
    sealed.lose_write(MediumArea::Table);
    sealed.put(0, 2);
    sealed.pool.checkpoint().expect("checkpoint");
    if is_seen {
        sealed.evict(MediumArea::Table);
    }
    (1..BLOCKS).for_each(|block| sealed.put(block, 2));
    let crashes = crashes_of(&sealed, || sealed.pool.checkpoint().expect("checkpoint"));
    let mut random = fastrand::Rng::with_seed(1);
    let mut opened = 0;
    for crash in &crashes {
        for _ in 0..IMAGES_OF_A_CRASH {
            let image = crash.sample(&mut random);
            match sealed.open(&image, runtime()) {
                Ok((_pool, volume)) => {
                    let versions = sealed.versions(&volume);
                    assert!(
                        versions.iter().all(|version| *version == Some(2)),
                        "{versions:?}"
                    );
                    opened += 1;
                }
                Err(_) => sealed.is_refused(&image),
            }
        }
    }
    assert!(opened > 0);
    sealed.reads(&sealed.durable(), |_| 2);
}

/// A process is killed in the checkpoint after one that lost a line, which its caches hid, and the next one finds that line
/// under way.
#[test]
fn a_line_under_way_that_a_cache_hides_is_looked_at_as_the_medium_has_it() {
    let sealed = Sealed::filled();
    sealed.lose_write(MediumArea::Table);
    sealed.put(0, 2);
    sealed.pool.checkpoint().expect("checkpoint");
    let image = sealed.durable();
    sealed.is_refused(&image);
    // Nothing was flushed since: a process that maps the same memory sees what the medium has, too.
    let on = vec![Region::on_shadow(sealed.shadow.clone())];
    let Err(error) = Pool::open_on(on, runtime()) else {
        panic!("it opened");
    };
    assert!(matches!(error.kind(), ErrorKind::Damaged { .. }), "{error}");
}

/// Seals, lines, and S: the one mode in which a checkpoint waits three times. A commit waits once.
#[test]
fn fences_are_counted() {
    let sealed = Sealed::filled();
    let fences = || sealed.pool.counters().fences;
    let before = fences();
    sealed.put(0, 2);
    assert_eq!(fences() - before, 1);
    let before = fences();
    sealed.pool.checkpoint().expect("checkpoint");
    assert_eq!(fences() - before, 3);
}

#[test]
fn modes_that_rest_on_checksums_need_them() {
    for redundancy in [Redundancy::Checksum, Redundancy::Mirror] {
        let regions = || vec![Region::shadow(1 << 20), Region::shadow(1 << 20)];
        let options = options().redundancy(redundancy).checksums(false);
        let Err(error) = Pool::create_on(regions(), &options) else {
            panic!("it was made");
        };
        assert!(error.to_string().contains("checksums"), "{error}");
    }
}

/// Over the line of the incarnation before, all that was acknowledged since would be gone.
#[test]
fn the_incarnation_before_came_back_where_the_write_that_ended_it_was_lost() {
    let sealed = Sealed::filled();
    let image = sealed.durable();
    let shadow = Arc::new(Shadow::from_image(&image, ShadowModel::Lines));
    let areas = medium_areas(&sealed.pool).into_iter();
    // The next incarnation's line is one of the two.
    for (_, Range { start, end }) in areas.filter(|(area, _)| *area == MediumArea::Incarnation) {
        let (offset, len) = (start, end - start);
        shadow.inject(Fault::LostWrite { offset, len });
    }
    let pool = Pool::open_on(vec![Region::on_shadow(shadow.clone())], runtime());
    let pool = pool.expect("open");
    assert_eq!(shadow.struck(), 1);
    let backing = Backing::from_store(sealed.store.clone());
    let volume = pool.attach(backing).expect("attach");
    for block in 0..BLOCKS {
        volume.write(block, &bytes_of(block, 2)).expect("write");
    }
    sealed.reads(shadow.crash_state().durable(), |_| 2);
}

#[test]
fn a_volume_was_another_one_where_a_bit_of_its_line_had_turned_over() {
    let sealed = Sealed::filled();
    let image = sealed.durable();
    let Range { start, end } = sealed.area(MediumArea::VolumeLines);
    for at in (start as usize..end as usize).step_by(13) {
        let mut flipped = image.clone();
        flipped[at] ^= 1 << (at % 8);
        sealed.reads(&flipped, |_| 1);
    }
    let at = start as usize + 5;
    let byte = [image[at] ^ 1];
    sealed.shadow.inject(Fault::BitFlip {
        offset: at as u64,
        bit: 0,
    });
    sealed.shadow.evict(start, end - start);
    assert_eq!(sealed.durable()[at], byte[0]);
    let report = sealed.scrub();
    assert_eq!((report.found, report.repaired, report.lost), (1, 1, 0));
    assert_eq!(sealed.scrub().found, 0);
    sealed.reads(&sealed.durable(), |_| 1);
}

/// The commit word tells that it was acknowledged.
#[test]
fn a_strict_pool_opened_without_the_record_that_was_committed_last() {
    let shadow = Arc::new(Shadow::new(256 << 10, ShadowModel::Lines));
    let options = options().strict(true).lanes(1);
    let on = vec![Region::on_shadow(shadow.clone())];
    let pool = Pool::create_on(on, &options).expect("create");
    let store = Arc::new(MemoryStore::new(BLOCKS * BLOCK as u64));
    let attach = |pool: &Pool| pool.attach(Backing::from_store(store.clone()));
    let volume = attach(&pool).expect("attach");
    let lanes = medium_areas(&pool).into_iter();
    let (_, lanes) = lanes
        .into_iter()
        .find(|(area, _)| *area == MediumArea::Lanes)
        .expect("it has one");
    let open = |image: &[u8], accepts: bool| {
        let runtime = options.runtime_options().clone().accept_loss(accepts);
        Pool::open_on(vec![Region::shadow_from(image)], runtime)
    };
    for block in 0..BLOCKS {
        let before = shadow.crash_state().durable().to_vec();
        volume.write(block, &bytes_of(block, 1)).expect("write");
        let image = shadow.crash_state().durable().to_vec();
        drop(open(&image, false).expect("nothing is wrong"));
        let mut lost = image.clone();
        let lanes = lanes.start as usize..lanes.end as usize;
        lost[lanes.clone()].copy_from_slice(&before[lanes]);
        let Err(error) = open(&lost, false) else {
            panic!("block {block} is gone, and it opened");
        };
        assert!(error.to_string().contains("committed last"), "{error}");
        let pool = open(&lost, true).expect("loss is accepted");
        assert_eq!(pool.recovery_report().damage.len(), 1);
    }
}
