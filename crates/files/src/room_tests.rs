//! Room that is reserved in the backing: how much, for how long, and what is told of it.

use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use rustix::fs::FallocateFlags;

use crate::buffer::FileBuffer;
use crate::facts::SyncKind;
use crate::file::BufferedFile;
use crate::testing::{Rig, SmallDisk, open_file};

const POOL_BYTES: u64 = 8 << 20;
const BLOCK: u64 = 4096;

fn adopt(rig: &Rig, buffer: &Arc<FileBuffer>) -> Arc<BufferedFile> {
    buffer.adopt(open_file(&rig.path("file"))).expect("adopt")
}

/// Bytes that the backing gives the file.
fn backing_bytes(rig: &Rig) -> u64 {
    std::fs::metadata(rig.path("file")).expect("stat").blocks() * 512
}

#[test]
fn a_synced_byte_far_behind_the_end_reserved_up_to_16_mib() {
    let rig = Rig::new(POOL_BYTES);
    let buffer = rig.open().expect("open");
    let file = adopt(&rig, &buffer);
    file.sync(SyncKind::Data).expect("sync");
    for at in 0..10 {
        file.write_at((at + 1) << 30, b"!", true).expect("write");
    }
    let found = backing_bytes(&rig);
    assert!(found <= 12 * BLOCK, "{found} bytes for 10 blocks");
}

#[test]
fn a_log_that_grows_reserves_no_more_than_it_has() {
    let rig = Rig::new(POOL_BYTES);
    let buffer = rig.open().expect("open");
    let file = adopt(&rig, &buffer);
    let mut written = 0;
    for _ in 0..200 {
        file.append(&[7; 1000], true).expect("append");
        written += 1000;
        let found = backing_bytes(&rig);
        assert!(found <= 2 * written + 2 * BLOCK, "{found} of {written}");
    }
}

#[test]
fn room_reserved_behind_the_end_stayed_when_the_file_was_closed() {
    let rig = Rig::new(POOL_BYTES);
    let buffer = rig.open().expect("open");
    let file = adopt(&rig, &buffer);
    for _ in 0..10 {
        file.append(&[7; 5000], true).expect("append");
    }
    drop(file);
    assert!(backing_bytes(&rig) <= 50_000_u64.next_multiple_of(BLOCK) + BLOCK);
    let file = adopt(&rig, &buffer);
    assert_eq!(file.size_bytes().expect("size"), 50_000);
    file.append(&[8; 5000], true).expect("append");
    drop((file, buffer));
    let found = std::fs::read(rig.path("file")).expect("read").len();
    assert!(found <= 55_000);
}

#[test]
fn room_reserved_behind_the_end_stayed_after_a_kill_and_a_recovery() {
    let rig = Rig::new(POOL_BYTES);
    let buffer = rig.open().expect("open");
    let file = adopt(&rig, &buffer);
    for _ in 0..5 {
        file.append(&[7; 5000], true).expect("append");
    }
    // As by a kill: nothing is closed.
    std::mem::forget(file);
    assert!(
        backing_bytes(&rig) > 25_000 + 2 * BLOCK,
        "something to give back"
    );
    drop(rig.open().expect("recover"));
    assert!(backing_bytes(&rig) <= 25_000 + 2 * BLOCK);
    assert_eq!(std::fs::read(rig.path("file")).expect("read"), [7; 25_000]);
    drop(buffer);
}

#[test]
fn room_that_the_program_itself_reserved_is_kept() {
    let rig = Rig::new(POOL_BYTES);
    let buffer = rig.open().expect("open");
    let file = adopt(&rig, &buffer);
    for _ in 0..3 {
        file.append(&[7; 5000], true).expect("append");
    }
    file.allocate(FallocateFlags::KEEP_SIZE, 0, 1 << 20)
        .expect("allocate");
    for _ in 0..3 {
        file.append(&[7; 5000], true).expect("append");
    }
    drop(file);
    assert!(backing_bytes(&rig) >= 1 << 20);
    drop(adopt(&rig, &buffer));
    assert!(backing_bytes(&rig) >= 1 << 20);
}

/// A disk of a MiB with nothing free but this, and the file that takes the rest.
fn almost_full_disk(rig: &Rig, free_bytes: usize) -> Option<(SmallDisk, std::path::PathBuf)> {
    let at = rig.path("disk");
    std::fs::create_dir(&at).expect("a directory");
    let disk = SmallDisk::new(&at)?;
    let filler = at.join("filler");
    std::fs::write(&filler, vec![1; (1 << 20) - free_bytes]).expect("it fits");
    Some((disk, filler))
}

#[test]
fn after_a_write_that_a_full_disk_refused_a_sync_lengthened_the_file_with_zeroes() {
    let rig = Rig::new(POOL_BYTES);
    let Some((disk, filler)) = almost_full_disk(&rig, 0) else {
        return;
    };
    let path = disk.path().join("file");
    let buffer = rig.open().expect("open");
    let file = buffer.adopt(open_file(&path)).expect("adopt");
    // Known to be durable: from here on what is written is all that a sync has to see to.
    file.sync(SyncKind::Data).expect("sync");
    file.write_at(0, &[7; 300_000], false)
        .expect_err("there is no room");
    std::fs::remove_file(filler).expect("remove");
    file.write_at(0, b"0123456789", false).expect("write");
    file.sync(SyncKind::Data).expect("sync");
    assert_eq!(file.size_bytes().expect("size"), 10);
    drop((file, buffer));
    assert_eq!(std::fs::read(path).expect("read"), b"0123456789");
}

#[test]
fn an_append_that_a_full_disk_refused_left_its_beginning_in_the_file() {
    for is_synced in [false, true] {
        let rig = Rig::new(POOL_BYTES);
        let Some((disk, filler)) = almost_full_disk(&rig, 100 << 10) else {
            return;
        };
        let path = disk.path().join("file");
        let buffer = rig.open().expect("open");
        let file = buffer.adopt(open_file(&path)).expect("adopt");
        file.append(&[7; 5000], is_synced).expect("append");
        if is_synced {
            // So much without a sync: what follows goes past the pool.
            for _ in 0..2000 {
                file.write_at(0, &[7; 5000], false).expect("write");
            }
        }
        file.append(&[8; 300_000], false)
            .expect_err("there is no room");
        assert_eq!(file.size_bytes().expect("size"), 5000);
        std::fs::remove_file(filler).expect("remove");
        file.append(&[9; 5000], false).expect("append");
        file.sync(SyncKind::Data).expect("sync");
        let mut found = vec![0; 20_000];
        let length = file.read_at(0, &mut found).expect("read");
        assert!(found[..length] == [[7; 5000], [9; 5000]].concat());
    }
}
