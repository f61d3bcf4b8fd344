//! What is no pool, or not this one, is refused: with the file's name, what was found, and what to do.
//! The refused file keeps every byte.

use std::path::{Path, PathBuf};

use crate::fixtures::{
    MEMBER_BYTES, Plan, Rig, SUPERBLOCK_BYTES, block, get, lenient, open, put, quiet, repair, tiny,
};
use forebay::{Backing, ErrorKind, Pool, PoolOptions};

/// Files in a directory of their own in /dev/shm.
struct Files {
    folder: tempfile::TempDir,
}

impl Files {
    fn new() -> Files {
        let folder = tempfile::tempdir_in("/dev/shm").expect("/dev/shm");
        Files { folder }
    }
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
    fn put(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, bytes).expect("write the file");
        path
    }
    /// A closed pool of `members` members.
    fn pool(&self, name: &str, members: usize) -> Vec<PathBuf> {
        let paths: Vec<PathBuf> = (0..members)
            .map(|member| self.path(&format!("{name}{member}")))
            .collect();
        let options = tiny().members(&paths).member_bytes(MEMBER_BYTES as u64);
        Pool::create(&options)
            .expect("create")
            .close()
            .expect("close");
        paths
    }
}

/// Opening is refused, says all of `words`, names the culprit, and changes nothing.
fn assert_refused(paths: &[PathBuf], culprit: &Path, words: &[&str]) {
    let before: Vec<Vec<u8>> = paths
        .iter()
        .map(|path| std::fs::read(path).expect("read"))
        .collect();
    for attempt in ["open", "dry run"] {
        let error = match attempt {
            "open" => Pool::open_with(paths, quiet()).expect_err("refused"),
            _ => Pool::dry_run(paths).expect_err("refused"),
        };
        let said = error.to_string();
        assert!(
            said.contains(&culprit.display().to_string()),
            "{attempt}: {said}"
        );
        for word in words {
            assert!(
                said.contains(word),
                "{attempt}: '{said}' does not say '{word}'"
            );
        }
        for (path, bytes) in paths.iter().zip(&before) {
            assert!(
                std::fs::read(path).expect("read") == *bytes,
                "{attempt} changed {}",
                path.display()
            );
        }
    }
}

#[test]
fn foreign_files() {
    let files = Files::new();
    let text = files.put("text", &b"dear diary, ".repeat(1000));
    assert_refused(
        std::slice::from_ref(&text),
        &text,
        &["Forebay superblock", "--force"],
    );
    let blank = files.put("blank", &[0; MEMBER_BYTES]);
    assert_refused(
        std::slice::from_ref(&blank),
        &blank,
        &["Forebay superblock"],
    );
    for bytes in [0, 1, 255, 4095] {
        let short = files.put("short", &vec![b'x'; bytes]);
        assert_refused(
            std::slice::from_ref(&short),
            &short,
            &[&format!("{bytes} bytes")],
        );
    }
    let error = Pool::open_with(&[files.path("missing")], quiet()).expect_err("missing");
    assert!(error.to_string().contains("missing"), "{error}");
    let error = Pool::open_with(&[files.folder.path()], quiet()).expect_err("a folder");
    assert!(
        error
            .to_string()
            .contains(&files.folder.path().display().to_string()),
        "{error}"
    );
    let none: [&Path; 0] = [];
    assert!(Pool::open(&none).is_err());
}

#[test]
fn truncated_members() {
    let files = Files::new();
    let paths = files.pool("pool", 2);
    let whole = std::fs::read(&paths[1]).expect("read");
    for bytes in [4096, MEMBER_BYTES / 2, MEMBER_BYTES - 1] {
        files.put("pool1", &whole[..bytes]);
        assert_refused(
            &paths,
            &paths[1],
            &["truncated", &bytes.to_string(), "restore"],
        );
    }
    files.put("pool1", &whole);
    Pool::open_with(&paths, quiet()).expect("whole again");
}

#[test]
fn newer_formats_and_unknown_features() {
    let files = Files::new();
    let paths = files.pool("pool", 1);
    let whole = std::fs::read(&paths[0]).expect("read");
    let mut newer = whole.clone();
    newer[8] = 2;
    repair(&mut newer[..SUPERBLOCK_BYTES]);
    files.put("pool0", &newer);
    assert_refused(
        &paths,
        &paths[0],
        &["format 2", "format 1", "release that wrote it"],
    );
    let mut featured = whole.clone();
    featured[20] |= 0x40;
    repair(&mut featured[..SUPERBLOCK_BYTES]);
    files.put("pool0", &featured);
    assert_refused(&paths, &paths[0], &["unknown features 0x40"]);
}

#[test]
fn members_of_different_pools() {
    let files = Files::new();
    let (one, other) = (files.pool("one", 2), files.pool("other", 2));
    let mixed = [one[0].clone(), other[1].clone()];
    assert_refused(
        &mixed,
        &other[1],
        &["another pool", &one[0].display().to_string()],
    );
}

#[test]
fn missing_and_doubled_members() {
    let files = Files::new();
    let paths = files.pool("pool", 3);
    assert_refused(
        &paths[..2],
        &paths[0],
        &["3 members", "2 were given", "all"],
    );
    assert_refused(
        &paths[1..],
        &paths[1],
        &["member 1 of 3", "member 0 is missing"],
    );
    assert_refused(
        &[paths[0].clone(), paths[2].clone()],
        &paths[2],
        &["member 1 is missing"],
    );
    let twin = files.put("twin", &std::fs::read(&paths[1]).expect("read"));
    let doubled = [paths[0].clone(), paths[1].clone(), twin.clone()];
    assert_refused(
        &doubled,
        &paths[1],
        &["member 1", &twin.display().to_string(), "once"],
    );
    let same = [paths[0].clone(), paths[0].clone()];
    let error = Pool::open_with(&same, quiet()).expect_err("one file twice");
    assert!(
        error.to_string().contains(&paths[0].display().to_string()),
        "{error}"
    );
    let mut shuffled = paths.clone();
    shuffled.reverse();
    Pool::open_with(&shuffled, quiet()).expect("any order will do");
}

#[test]
fn stale_members() {
    let files = Files::new();
    let paths = files.pool("pool", 2);
    for incarnations in [1, 2, 3] {
        for stale in [0, 1] {
            let old = std::fs::read(&paths[stale]).expect("read");
            for _ in 0..incarnations {
                Pool::open_with(&paths, quiet())
                    .expect("open")
                    .close()
                    .expect("close");
            }
            let current = std::fs::read(&paths[stale]).expect("read");
            std::fs::write(&paths[stale], &old).expect("write");
            assert_refused(&paths, &paths[stale], &["old copy", "last in use"]);
            std::fs::write(&paths[stale], &current).expect("write");
        }
    }
    Pool::open_with(&paths, quiet()).expect("the current ones are fine");
}

#[test]
fn a_pool_that_was_never_finished() {
    let mut image = Rig::new(&tiny(), 1).images().remove(0);
    let plan = Plan::of(&image);
    image[plan.unit..plan.volume_table].fill(0);
    let files = Files::new();
    let path = files.put("pool", &image);
    assert_refused(
        std::slice::from_ref(&path),
        &path,
        &["incarnation lines", "restore"],
    );
}

#[test]
fn every_two_flipped_bits_of_a_superblock() {
    let image = Rig::new(&tiny(), 1).images().remove(0);
    for bit in 0..SUPERBLOCK_BYTES * 8 {
        let mut flipped = image.clone();
        let other = (bit + 337) % (SUPERBLOCK_BYTES * 8);
        for bit in [bit, other] {
            flipped[bit / 8] ^= 1 << (bit % 8);
        }
        let error = open(&[flipped], lenient()).expect_err("refused");
        assert!(
            matches!(error.kind(), ErrorKind::Refused { .. }),
            "bit {bit}: {error}"
        );
    }
}

#[test]
fn impossible_plans_with_good_checksums() {
    let image = Rig::new(&tiny(), 1).images().remove(0);
    let words = (12..24).chain(56..96).step_by(4);
    for at in words {
        for value in [0, 1, 3, 64, 65, 0xFFFF, 1 << 28, 1 << 31, u32::MAX] {
            let mut changed = image.clone();
            changed[at..at + 4].copy_from_slice(&u32::to_le_bytes(value));
            repair(&mut changed[..SUPERBLOCK_BYTES]);
            // Most are refused; a plan that fits is a pool, though a strange one.
            drop(open(&[changed], lenient()).and_then(Pool::close));
        }
    }
}

#[test]
fn nothing_is_overwritten_without_force() {
    let files = Files::new();
    for bytes in [0, 10, MEMBER_BYTES] {
        let path = files.put("diary", &vec![b'd'; bytes]);
        let options = tiny()
            .member(files.path("fresh"))
            .member(&path)
            .member_bytes(MEMBER_BYTES as u64);
        let error = Pool::create(&options).expect_err("in the way");
        assert!(
            matches!(error.kind(), ErrorKind::Refused { path: culprit, .. } if *culprit == path),
            "{error}"
        );
        assert_eq!(std::fs::read(&path).expect("read"), vec![b'd'; bytes]);
        assert!(!files.path("fresh").exists(), "nothing is left behind");
        drop(Pool::create(&options.force(true)).expect("force"));
        std::fs::remove_file(files.path("fresh")).expect("remove");
    }
}

#[test]
fn a_pool_in_use_is_not_overwritten_with_force() {
    let files = Files::new();
    let paths = files.pool("pool", 1);
    let pool = Pool::open_with(&paths, quiet()).expect("open");
    let options = tiny().force(true).members(&paths).member_bytes(1 << 20);
    let error = Pool::create(&options).expect_err("in use");
    assert!(
        error.to_string().contains(&paths[0].display().to_string()),
        "{error}"
    );
    drop(pool);
    assert_eq!(
        std::fs::metadata(&paths[0]).expect("still there").len(),
        MEMBER_BYTES as u64
    );
}

#[test]
fn options_that_cannot_be() {
    let files = Files::new();
    let refused = |adjust: &dyn Fn(PoolOptions) -> PoolOptions| {
        let options = tiny().member_bytes(MEMBER_BYTES as u64);
        let error = Pool::create(&adjust(options)).expect_err("refused");
        assert!(matches!(error.kind(), ErrorKind::Options(_)), "{error}");
        assert!(!files.path("pool").exists());
    };
    let in_a_file = |options: PoolOptions| options.member(files.path("pool"));
    refused(&|options| options);
    refused(&|options| in_a_file(options).member_bytes(0));
    refused(&|options| in_a_file(options).dirty_high_per_mille(1001));
    // Reclaim frees twice as many, and could not rest.
    refused(&|options| in_a_file(options).free_low_per_mille(501));
    for bytes in [0, 1, 127, 129, 1 << 17, u32::MAX] {
        refused(&|options| in_a_file(options).block_bytes(bytes));
        refused(&|options| in_a_file(options).unit_bytes(bytes));
    }
    for count in [0, 65, u32::MAX] {
        refused(&|options| in_a_file(options).volumes(count));
    }
    refused(&|options| in_a_file(options).lanes(0));
    refused(&|options| in_a_file(options).lanes(u32::MAX));
    refused(&|options| in_a_file(options).lane_bytes(0));
    refused(&|options| in_a_file(options).lane_bytes(u64::MAX));
    refused(&|options| options.members(vec![files.path("pool"); 65]));
}

#[test]
fn shares_that_an_opening_cannot_keep_to() {
    let files = Files::new();
    let path = files.path("pool");
    let options = tiny().member(&path).member_bytes(MEMBER_BYTES as u64);
    let pool = Pool::create(&options.free_low_per_mille(500)).expect("create");
    pool.close().expect("close");
    for options in [
        quiet().free_low_per_mille(501),
        quiet().dirty_high_per_mille(1001),
    ] {
        let error = Pool::open_with(&[&path], options).expect_err("refused");
        assert!(matches!(error.kind(), ErrorKind::Options(_)), "{error}");
    }
    let most = quiet().free_low_per_mille(500).dirty_high_per_mille(1000);
    let pool = Pool::open_with(&[&path], most).expect("open");
    pool.close().expect("close");
}

#[test]
fn a_dry_run_changes_nothing_and_tells_what_opening_would_do() {
    let rig = Rig::new(&tiny(), 2);
    crate::fixtures::media_open::fill(&rig);
    let files = Files::new();
    let images = rig.images();
    let paths: Vec<PathBuf> = images
        .iter()
        .zip(["one", "two"])
        .map(|(image, name)| files.put(name, image))
        .collect();
    let (report, stats) = Pool::dry_run(&paths).expect("dry run");
    for (path, image) in paths.iter().zip(&images) {
        assert!(
            std::fs::read(path).expect("read") == *image,
            "{}",
            path.display()
        );
    }
    let pool = Pool::open_with(&paths, quiet()).expect("open");
    let found = pool.recovery_report();
    assert!(report.records > 0 && report.deltas_applied > 0);
    assert_eq!(
        (report.records, report.blocks, report.dirty_blocks),
        (found.records, found.blocks, found.dirty_blocks)
    );
    assert_eq!(stats.cached_blocks, pool.stats().cached_blocks);
}

#[test]
fn damage_is_refused_with_every_byte_kept_and_served_with_force() {
    let rig = Rig::new(&tiny(), 1);
    crate::fixtures::media_open::fill(&rig);
    let mut image = rig.images().remove(0);
    let plan = Plan::of(&image);
    // An entry that no record in the log names: block 2 or 3, from before the checkpoint.
    let used = plan.used_entries(&image);
    let entry = *used
        .iter()
        .find(|at| plan.block_number(&image, **at) == 7)
        .expect("block 7");
    image[entry + 2] ^= 1;
    let files = Files::new();
    let path = files.put("pool", &image);
    let error = Pool::open_with(&[&path], quiet()).expect_err("damaged");
    assert!(matches!(error.kind(), ErrorKind::Damaged { .. }), "{error}");
    assert!(error.to_string().contains("flipped bit"), "{error}");
    assert!(
        std::fs::read(&path).expect("read") == image,
        "a refused file keeps its bytes"
    );
    let (report, _) = Pool::dry_run(&[&path]).expect("a dry run looks on");
    assert_eq!(report.damage.len(), 1, "{:?}", report.damage);
    let pool = Pool::open_with(&[&path], lenient()).expect("what is left");
    assert_eq!(pool.recovery_report().damage.len(), 1);
    let volume = pool
        .attach(Backing::from_store(rig.store.clone()))
        .expect("attach");
    assert_eq!(get(&volume, 1).expect("read"), block(1, 2));
    put(&volume, 7, &block(7, 2));
}

#[test]
fn a_dry_run_of_a_pool_that_is_served_says_so_and_tells_no_damage() {
    let files = Files::new();
    let path = files.path("pool");
    let pool = Pool::create(&PoolOptions::new(&path, 1 << 20).runtime(quiet())).expect("create");
    let (report, _) = Pool::dry_run(&[&path]).expect("dry run");
    assert!(report.in_use && report.damage.is_empty());
    drop(pool);
    let (report, _) = Pool::dry_run(&[&path]).expect("dry run");
    assert!(!report.in_use);
}

#[test]
fn an_image_made_anew_was_to_be_detached_which_nothing_could_do() {
    let files = Files::new();
    let paths = files.pool("pool", 1);
    let image = files.put("image", &[0; 1 << 16]);
    let pool = Pool::open(&paths).expect("open");
    let attached = pool.attach(Backing::file(&image).expect("a backing"));
    put(&attached.expect("attach"), 0, &block(0, 1));
    drop(pool);
    // Its inode's number must not be given out again.
    std::fs::rename(&image, files.path("old")).expect("rename");
    files.put("image", &[0; 1 << 16]);
    let pool = Pool::open(&paths).expect("open");
    let error = pool
        .attach(Backing::file(&image).expect("a backing"))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("another file") && error.contains("--discard-unwritten"),
        "{error}"
    );
    std::fs::remove_file(&image).expect("remove");
    std::fs::rename(files.path("old"), &image).expect("rename");
    let attached = pool.attach(Backing::file(&image).expect("a backing"));
    attached.expect("the old one").flush().expect("flush");
}

#[test]
fn a_backing_that_was_another_pools_file_was_served_as_a_disk() {
    let files = Files::new();
    let (paths, others) = (files.pool("pool", 1), files.pool("other", 1));
    let before = std::fs::read(&others[0]).expect("read");
    let pool = Pool::open_with(&paths, quiet()).expect("open");
    for is_insisted in [false, true] {
        let backing = Backing::file(&others[0]).expect("a backing");
        let refused = match is_insisted {
            false => pool.attach(backing),
            true => pool.attach_stale(backing),
        };
        let error = refused.expect_err("a pool");
        assert!(matches!(error.kind(), ErrorKind::Refused { .. }), "{error}");
        let said = error.to_string();
        assert!(said.contains("other0") && said.contains("pool"), "{said}");
    }
    assert!(std::fs::read(&others[0]).expect("read") == before);
    assert!(pool.volumes().is_empty());
    // A disk that is known may have one: its guest made it there.
    let image = files.put("image", &[0; MEMBER_BYTES]);
    let volume = pool.attach(Backing::file(&image).expect("a backing"));
    put(&volume.expect("attach"), 0, &block(0, 1));
    drop(pool);
    let mut bytes = std::fs::read(&image).expect("read");
    bytes[..SUPERBLOCK_BYTES].copy_from_slice(&before[..SUPERBLOCK_BYTES]);
    std::fs::write(&image, bytes).expect("write");
    let pool = Pool::open_with(&paths, quiet()).expect("open");
    let again = pool.attach(Backing::file(&image).expect("a backing"));
    again.expect("as before");
}
