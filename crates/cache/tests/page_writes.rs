//! What a commit writes to the disk where the pool is a plain file: the pages that it changed, and not
//! the large folio around each. Alone in its program: the system counts what a process writes.

mod fixtures;

use std::fs;
use std::sync::Arc;

use fixtures::quiet;
use forebay::{Backing, MediaKind, MemoryStore, Pool, PoolOptions, Volume};

const BLOCK_BYTES: usize = 4096;
const PAGE_BYTES: u64 = 4096;
const POOL_BYTES: u64 = 64 << 20;
const BLOCKS: u64 = 4096;
const COMMITS: usize = 200;

/// Bytes that this process has made the system write so far, if it says.
fn written_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/io").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("write_bytes: "))?;
    line.parse().ok()
}

/// The median of the pages that one-block commits write.
fn pages_per_commit(volume: &Volume, random: &mut fastrand::Rng) -> u64 {
    let mut block = vec![0; BLOCK_BYTES];
    let mut pages = Vec::with_capacity(COMMITS);
    for _ in 0..COMMITS {
        random.fill(&mut block);
        let before = written_bytes().expect("it was there");
        volume.write(random.u64(..BLOCKS), &block).expect("write");
        pages.push((written_bytes().expect("still there") - before) / PAGE_BYTES);
    }
    pages.sort_unstable();
    pages[COMMITS / 2]
}

#[test]
fn a_one_block_commit_writes_its_pages_and_not_whole_huge_folios() {
    if written_bytes().is_none() {
        eprintln!("skipped page writes: /proc/self/io tells nothing here");
        return;
    }
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("build folder");
    let path = folder.path().join("pool");
    let options = PoolOptions::new(&path, POOL_BYTES).runtime(quiet());
    let mut random = fastrand::Rng::with_seed(1);
    let store = Arc::new(MemoryStore::new(BLOCKS * BLOCK_BYTES as u64));
    let mut pool = Pool::create(&options).expect("create");
    if !pool.survives().starts_with(MediaKind::PlainFile.survives()) {
        eprintln!("skipped page writes: the build folder is no plain file system");
        return;
    }
    for (limit, state) in [(10, "created"), (6, "reopened")] {
        let backing = Backing::from_store(store.clone());
        let volume = pool.attach(backing).expect("attach");
        let pages = pages_per_commit(&volume, &mut random);
        assert!(pages >= 1, "nothing counted");
        assert!(pages <= limit, "{state}: {pages} pages a commit");
        drop(volume);
        pool.close().expect("close");
        pool = Pool::open_with(&[&path], quiet()).expect("open");
    }
}
