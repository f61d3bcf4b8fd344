//! The same calls write the same bytes as an earlier build: every kind of record, packed and shared
//! slots, large blocks, several volumes.
//!
//! `golden.rs` holds images that must be read for ever; here the images are made again and compared byte
//! for byte, so that no rewriting of the commit, of the records or of the tables changes the medium by
//! accident. An image that is missing is written by `FOREBAY_WRITE_GOLDEN=1 cargo test -p forebay --test
//! golden_written`; one that is there is never replaced: a format that changes on purpose gets new names.

mod fixtures;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use fixtures::{
    BLOCK, LINE, Plan, block, block_of, get, open, put, quiet, tiny, u32_at, u64_at, view,
};
use forebay::{Backing, MemoryStore, Pool, PoolOptions, Region, Volume};
use forebay_pmem::shadow::{Shadow, ShadowModel};

const LARGE_BLOCK: usize = 64 << 10;
const PAGE_BLOCK: usize = 4 << 10;

/// A pool that is made, used and left as a kill leaves it.
struct Case {
    name: &'static str,
    members: usize,
    member_bytes: u64,
    options: PoolOptions,
    fill: fn(&Made),
}

struct Made {
    shadows: Vec<Arc<Shadow>>,
    pool: Pool,
}

impl Made {
    fn attach(&self, bytes: usize) -> (Arc<MemoryStore>, Volume) {
        let store = Arc::new(MemoryStore::new(bytes as u64));
        let backing = Backing::from_store(store.clone());
        let volume = self.pool.attach(backing).expect("attach");
        (store, volume)
    }
}

fn comparing(block_bytes: usize, lane_bytes: u64) -> PoolOptions {
    tiny()
        .block_bytes(block_bytes as u32)
        .lane_bytes(lane_bytes)
        .always_compare(true)
}

fn cases() -> Vec<Case> {
    let case = |name, members, member_bytes, options, fill| Case {
        name,
        members,
        member_bytes,
        options,
        fill,
    };
    let small = fixtures::MEMBER_BYTES as u64;
    vec![
        case("records", 1, small, tiny(), records),
        case("records-strict", 1, small, tiny().strict(true), records),
        case(
            "records-unchecked",
            1,
            small,
            tiny().checksums(false),
            records,
        ),
        case("records-members", 2, small, tiny(), records),
        case("volumes", 1, small, tiny().volumes(4), volumes),
        case(
            "similar",
            1,
            128 << 10,
            comparing(PAGE_BLOCK, 4096),
            similar,
        ),
        case("large", 1, 640 << 10, comparing(LARGE_BLOCK, 8192), large),
    ]
}

/// Whole blocks, alone and many, deltas, appends in both ways, zeroes, evictions and a forgotten block;
/// the first of them below a checkpoint.
fn records(made: &Made) {
    let (_, volume) = made.attach(64 * BLOCK);
    for number in 0..8 {
        put(&volume, number, &block(number, 1));
    }
    volume.flush().expect("flush");
    made.pool.reclaim_once(2).expect("reclaim");
    made.pool.checkpoint().expect("checkpoint");
    volume.write(3, &block(3, 2)).expect("one block");
    let run = [block(12, 1), block(13, 1), block(14, 1)].concat();
    volume.write(12, &run).expect("three blocks");
    let mut transaction = volume.begin();
    transaction.write(1, &block(1, 2)).expect("write");
    transaction
        .write_at(4 * BLOCK as u64 + 20, b"delta")
        .expect("delta");
    transaction.append(9, 0, b"the beginning").expect("append");
    transaction.discard(6..7).expect("discard");
    transaction.commit().expect("commit");
    let word = Some((4 * BLOCK as u64 + 64, 25_u64.to_le_bytes()));
    assert!(
        volume
            .append_with_word(9, 13, b" and the end", word)
            .expect("append")
    );
    volume.forget_blocks([13]).expect("forget");
    made.pool.reclaim_once(1).expect("reclaim");
    put(&volume, 11, &block(11, 1));
    let mut out = vec![0; BLOCK];
    volume
        .read(20, &mut out)
        .expect("a miss that is brought in");
}

/// Three volumes, of which one has an odd end and grows and one goes again.
fn volumes(made: &Made) {
    let (first, one) = made.attach(10 * BLOCK - 40);
    let (_, two) = made.attach(8 * BLOCK);
    let (_, three) = made.attach(8 * BLOCK);
    for (volume, version) in [(&one, 1), (&two, 2), (&three, 3)] {
        put(volume, 2, &block(2, version));
    }
    let mut transaction = one.begin();
    transaction
        .write_at(9 * BLOCK as u64 + 10, b"in the odd end")
        .expect("write");
    transaction.commit().expect("commit");
    first.resize(16 * BLOCK as u64);
    made.pool.grow_volume(&one).expect("grow");
    put(&one, 15, &block(15, 1));
    made.pool.detach(two).expect("detach");
    put(&three, 7, &block(7, 3));
}

/// A block that is there already, and some that differ little from others.
fn similar(made: &Made) {
    let (_, volume) = made.attach(32 * PAGE_BLOCK);
    let base = block_of(PAGE_BLOCK, 1, 1);
    put(&volume, 1, &base);
    put(&volume, 2, &base);
    let mut near = base.clone();
    near[700..720].fill(7);
    put(&volume, 3, &near);
    near[3000..3010].fill(8);
    put(&volume, 3, &near);
    let mut sparse = vec![0; PAGE_BLOCK];
    sparse[64..164].fill(9);
    put(&volume, 4, &sparse);
    put(&volume, 5, &vec![0; PAGE_BLOCK]);
    made.pool.checkpoint().expect("checkpoint");
    put(&volume, 1, &block_of(PAGE_BLOCK, 1, 2));
}

/// Blocks of 64 KiB, mostly zeroes so that the image is small in the repository.
fn large(made: &Made) {
    let (_, volume) = made.attach(16 * LARGE_BLOCK);
    let some = |version: u64| {
        let mut bytes = vec![0; LARGE_BLOCK];
        for at in (0..LARGE_BLOCK).step_by(LARGE_BLOCK / 16) {
            bytes[at..at + LINE].copy_from_slice(&block_of(LINE, at as u64, version));
        }
        bytes
    };
    put(&volume, 0, &some(1));
    put(&volume, 1, &some(2));
    let mut transaction = volume.begin();
    transaction
        .write_at(LARGE_BLOCK as u64 + 65_000, b"delta")
        .expect("delta");
    transaction.commit().expect("commit");
    let mut transaction = volume.begin();
    transaction.append(2, 0, b"the beginning").expect("append");
    transaction.commit().expect("commit");
    put(&volume, 3, &some(1));
}

/// Runs the case's calls and takes what a kill leaves.
fn make(case: &Case, seed: u64) -> Vec<Vec<u8>> {
    forebay::unstable::set_random_seed(Some(seed));
    forebay::unstable::set_thread_hint(0);
    let shadows: Vec<Arc<Shadow>> = (0..case.members)
        .map(|_| Arc::new(Shadow::new(case.member_bytes, ShadowModel::Lines)))
        .collect();
    let regions = shadows.iter().cloned().map(Region::on_shadow).collect();
    let pool = Pool::create_on(regions, &case.options).expect("create");
    let made = Made { shadows, pool };
    (case.fill)(&made);
    forebay::unstable::set_random_seed(None);
    made.shadows.iter().map(view).collect()
}

fn path(name: &str, member: usize) -> PathBuf {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/golden");
    PathBuf::from(format!("{folder}/written-{name}-{member}.pool"))
}

/// What kinds of elements the records of the current incarnation have, by `docs/inside/format.md`.
fn kinds(image: &[u8]) -> BTreeSet<&'static str> {
    let plan = Plan::of(image);
    let mut kinds = BTreeSet::new();
    for (at, _) in plan.records(image, plan.salt(image)) {
        let count = u32_at(image, at + 28) & 0xFFFF;
        kinds.insert(if count > 1 { "many" } else { "one" });
        for element in (0..count).map(|number| at + fixtures::HEADER_BYTES + number * 24) {
            let slot = u64_at(image, element + 8);
            let kind = u64_at(image, element) & 3;
            kinds.insert(match (u32_at(image, element + 16) >> 30, kind) {
                (0, 2) => "zero",
                (0, 3) => "packed",
                (0, _) if slot >> 36 == 0 => "tombstone",
                (0, _) => "whole",
                (1, _) => "delta",
                _ => "append",
            });
        }
    }
    kinds
}

#[test]
fn the_same_calls_write_the_same_bytes() {
    let may_write = std::env::var_os("FOREBAY_WRITE_GOLDEN").is_some();
    for (number, case) in cases().iter().enumerate() {
        let images = make(case, number as u64 + 1);
        for (member, image) in images.iter().enumerate() {
            let path = path(case.name, member);
            if may_write && !path.exists() {
                std::fs::write(&path, image).expect("write the image");
            }
            let golden = std::fs::read(&path).expect("the image");
            let differs = (0..image.len()).find(|at| image.get(*at) != golden.get(*at));
            assert_eq!(
                (differs, image.len()),
                (None, golden.len()),
                "{}: the first byte that differs",
                path.display()
            );
        }
        let pool = open(&images, quiet()).expect("open");
        assert!(pool.recovery_report().damage.is_empty(), "{}", case.name);
        assert_eq!(pool.check(|_, _| {}).1, [], "{}", case.name);
    }
}

#[test]
fn the_images_have_every_kind_of_record() {
    let image = std::fs::read(path("records", 0)).expect("the image");
    let all = [
        "append",
        "delta",
        "many",
        "one",
        "tombstone",
        "whole",
        "zero",
    ];
    assert_eq!(kinds(&image), BTreeSet::from(all));
    let image = std::fs::read(path("similar", 0)).expect("the image");
    assert!(kinds(&image).contains("packed"), "{:?}", kinds(&image));
    let pool = open(&[image], quiet()).expect("open");
    assert!(pool.stats().shared_slots > 0, "{:?}", pool.stats());
    let volume = pool.volumes().remove(0);
    let mut near = block_of(PAGE_BLOCK, 1, 1);
    near[700..720].fill(7);
    near[3000..3010].fill(8);
    assert!(get(&volume, 3).expect("read") == near);
}
