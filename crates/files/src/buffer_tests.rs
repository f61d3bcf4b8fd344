//! Pools that are refused, files that are gone, and many files.

use std::sync::Arc;

use forebay::Backing;

use crate::buffer::FileBuffer;
use crate::cuts::SIDE_BYTES;
use crate::facts::SyncKind;
use crate::file::Closing;
use crate::identity::FileIdentity;
use crate::testing::{Rig, open_file};

const POOL_BYTES: u64 = 4 << 20;

/// A file with a line in the pool that the backing does not have.
fn write_line(rig: &Rig, buffer: &Arc<FileBuffer>, name: &str) {
    let file = buffer.adopt(open_file(&rig.path(name))).expect("adopt");
    file.sync(SyncKind::Data).expect("sync");
    file.append(b"acknowledged\n", true).expect("append");
}

fn refusal(parts: crate::buffer::FileBufferParts) -> String {
    FileBuffer::open_on(parts).expect_err("refused").to_string()
}

#[test]
fn a_pool_of_another_directory_is_refused() {
    let rig = Rig::new(POOL_BYTES);
    write_line(&rig, &rig.open().expect("open"), "file");
    let other = tempfile::tempdir().expect("a directory");
    let mut parts = rig.parts();
    parts.root = Some(other.path().to_owned());
    let text = refusal(parts);
    let (ours, others) = (rig.directory.path(), other.path());
    let told = format!(
        "the pool belongs to the mount of {}, not to the mount of {};",
        ours.display(),
        others.display()
    );
    assert!(text.contains(&told), "{text}");
    let mut parts = rig.parts();
    parts.root = None;
    assert!(refusal(parts).contains("not to programs that forebay run starts"));
    drop(rig.open().expect("its own directory"));
}

#[test]
fn another_pools_metadata_is_refused_and_so_is_none() {
    let (rig, other) = (Rig::new(POOL_BYTES), Rig::new(POOL_BYTES));
    write_line(&rig, &rig.open().expect("open"), "file");
    drop(other.open().expect("open"));
    let mut parts = rig.parts();
    parts.side = other.parts().side;
    assert!(refusal(parts).contains("another pool's"));
    let mut parts = rig.parts();
    parts.side = Backing::memory(SIDE_BYTES);
    assert!(refusal(parts).contains("bring its own back"));
}

#[test]
fn data_of_a_file_that_others_removed_is_kept_and_told_of_until_it_may_be_saved() {
    let rig = Rig::new(POOL_BYTES);
    write_line(&rig, &rig.open().expect("open"), "wanted");
    write_line(
        &rig,
        &rig.open().expect("the first line is drained"),
        "wanted",
    );
    std::fs::remove_file(rig.path("wanted")).expect("remove");
    for _ in 0..2 {
        let text = rig.open().expect_err("refused").to_string();
        assert!(text.contains("wanted"), "{text}");
    }
    let mut parts = rig.parts();
    parts.runtime = parts.runtime.accept_loss(true);
    let buffer = FileBuffer::open_on(parts).expect("with force");
    let saved = buffer.recovery().saved_to.clone();
    let [saved] = &saved[..] else {
        panic!("one file: {saved:?}")
    };
    let text = std::fs::read_to_string(saved).expect("read");
    std::fs::remove_file(saved).expect("remove");
    assert!(text.ends_with("acknowledged\n"), "{text:?}");
}

#[test]
fn a_file_without_a_name_is_forgotten_when_it_is_closed() {
    let rig = Rig::new(POOL_BYTES);
    let buffer = rig.open().expect("open");
    let file = buffer.adopt(open_file(&rig.path("gone"))).expect("adopt");
    file.sync(SyncKind::Data).expect("sync");
    file.write_at(0, &[1; 50_000], true).expect("write");
    let cached = || buffer.stats().expect("open").cached_blocks;
    let before = cached();
    std::fs::remove_file(rig.path("gone")).expect("remove");
    file.unlinked();
    let mut out = [0; 100];
    assert_eq!(file.read_at(0, &mut out).expect("read"), 100);
    drop(file);
    assert_eq!(before - cached(), 13);
}

#[test]
fn a_closing_that_is_told_twice_counts_once() {
    let rig = Rig::new(POOL_BYTES);
    let buffer = rig.open().expect("open");
    write_line(&rig, &buffer, "file");
    let file = std::fs::File::open(rig.path("file")).expect("open");
    let identity = FileIdentity::of(&file).expect("stat");
    // As two handles do whose last moments overlap.
    buffer.registry().closed(identity);
    assert_eq!(buffer.registry().closed_counts(), (1, 1));
}

#[test]
fn a_sync_under_way_does_not_spare_another_one_its_own() {
    let rig = Rig::new(POOL_BYTES);
    let buffer = rig.open().expect("open");
    let directory = std::fs::File::open(rig.path("")).expect("open");
    let identity = FileIdentity::of(&directory).expect("stat");
    buffer.attributes_changed(identity);
    let first = buffer.registry().unsynced(identity).expect("changed");
    assert_eq!(buffer.registry().unsynced(identity), Some(first));
    buffer.attributes_changed(identity);
    buffer.registry().synced(identity, first);
    let second = buffer.registry().unsynced(identity).expect("changed again");
    buffer.registry().synced(identity, second);
    assert_eq!(buffer.registry().unsynced(identity), None);
}

#[test]
fn files_beyond_those_that_are_kept_are_drained() {
    let rig = Rig::new(POOL_BYTES);
    let buffer = rig.open().expect("open");
    for number in 0..1100 {
        write_line(&rig, &buffer, &format!("file-{number}"));
    }
    let drained = |number: u32| {
        let text = std::fs::read_to_string(rig.path(&format!("file-{number}")));
        text.expect("read") == "acknowledged\n"
    };
    assert!(drained(0) && drained(100) && !drained(1099));
    drop(buffer);
    let buffer = rig.open().expect("open");
    assert!((0..1100).all(drained));
    assert!(buffer.recovery().files > 0);
}

#[test]
fn what_is_closed_in_order_leaves_nothing_in_the_pool() {
    let rig = Rig::new(POOL_BYTES);
    let buffer = rig.open().expect("open");
    write_line(&rig, &buffer, "file");
    let open = buffer.adopt(open_file(&rig.path("open"))).expect("adopt");
    open.append(b"one", true).expect("append");
    buffer.close().expect("close");
    // Files that are still open pass through.
    open.append(b"two", false).expect("append");
    assert_eq!(std::fs::read(rig.path("open")).expect("read"), b"onetwo");
    drop((open, buffer));
    let buffer = rig.open().expect("open");
    assert_eq!(buffer.recovery().files, 0);
}

#[test]
fn one_missing_file_does_not_keep_the_others_from_their_data() {
    let rig = Rig::new(POOL_BYTES);
    let buffer = rig.open().expect("open");
    write_line(&rig, &buffer, "missing");
    write_line(&rig, &buffer, "other");
    drop(buffer);
    let buffer = rig.open().expect("open");
    write_line(&rig, &buffer, "missing");
    write_line(&rig, &buffer, "other");
    drop(buffer);
    std::fs::remove_file(rig.path("missing")).expect("remove");
    let text = rig.open().expect_err("refused").to_string();
    assert!(text.contains("missing"), "{text}");
    let other = std::fs::read_to_string(rig.path("other")).expect("read");
    assert_eq!(other, "acknowledged\n".repeat(2));
    let mut parts = rig.parts();
    parts.runtime = parts.runtime.accept_loss(true);
    let buffer = FileBuffer::open_on(parts).expect("with force");
    let saved = &buffer.recovery().saved_to[0];
    let text = std::fs::read_to_string(saved).expect("read");
    std::fs::remove_file(saved).expect("remove");
    assert!(text.ends_with("acknowledged\n"), "{text:?}");
}

#[test]
fn write_back_that_begins_with_the_volume_waits_until_it_is_known_whose_the_blocks_are() {
    let rig = Rig::new(POOL_BYTES);
    let buffer = rig.open().expect("open");
    let file = buffer.adopt(open_file(&rig.path("file"))).expect("adopt");
    let data: Vec<u8> = (0..2_200_000u32)
        .map(|at| (at / 7) as u8 ^ (at >> 9) as u8)
        .collect();
    for (number, part) in data.chunks(100_000).enumerate() {
        file.write_at(number as u64 * 100_000, part, true)
            .expect("write");
    }
    let stats = buffer.stats().expect("open");
    assert!(stats.dirty_per_mille > 500, "write-back begins at once");
    drop((file, buffer));
    let mut parts = rig.parts();
    parts.runtime = parts.runtime.background(true);
    drop(FileBuffer::open_on(parts).expect("open"));
    assert_eq!(std::fs::read(rig.path("file")).expect("read"), data);
}

/// What is written, synced and then not cut is there still, also after a kill and when it grows again.
fn refused_cut(rig: &Rig, descriptor: std::os::fd::OwnedFd, unlock: impl FnOnce()) {
    let buffer = rig.open().expect("open");
    let again = rustix::io::dup(&descriptor).expect("dup");
    let file = buffer.adopt(descriptor).expect("adopt");
    file.sync(SyncKind::Data).expect("sync");
    let data: Vec<u8> = (0..9000).map(|at| (at / 10) as u8).collect();
    file.write_at(0, &data, true).expect("write");
    for size_bytes in [5000, 4096, 0] {
        let refused = file.truncate(size_bytes).expect_err("refused");
        assert_eq!(refused.raw_os_error(), Some(libc::EPERM));
        assert_eq!(file.size_bytes().expect("size"), 9000);
    }
    let mut out = vec![0; 9000];
    file.read_at(0, &mut out).expect("read");
    assert!(out == data);
    drop((file, buffer));
    // Recovery could not open it to write.
    unlock();
    let buffer = rig.open().expect("open");
    let file = buffer.adopt(again).expect("adopt");
    assert_eq!(file.read_at(0, &mut out).expect("read"), 9000);
    assert!(out == data);
}

#[test]
fn a_cut_that_the_backing_refuses_does_not_count() {
    use rustix::fs::IFlags;
    let rig = Rig::new(POOL_BYTES);
    let descriptor = open_file(&rig.path("log"));
    let flags = rustix::fs::ioctl_getflags(&descriptor);
    let lock = flags.and_then(|flags| {
        rustix::fs::ioctl_setflags(&descriptor, flags | IFlags::APPEND)?;
        Ok(flags)
    });
    let Ok(flags) = lock else {
        println!(
            "skipped a_cut_that_the_backing_refuses_does_not_count: no append-only files here"
        );
        return;
    };
    let again = rustix::io::dup(&descriptor).expect("dup");
    refused_cut(&rig, descriptor, || {
        rustix::fs::ioctl_setflags(&again, flags).expect("as it was");
    });
}

#[test]
fn a_sealed_file_is_not_cut() {
    use rustix::fs::{MemfdFlags, SealFlags};
    let rig = Rig::new(POOL_BYTES);
    let sealed = rustix::fs::memfd_create("sealed", MemfdFlags::ALLOW_SEALING).expect("memfd");
    rustix::fs::fcntl_add_seals(&sealed, SealFlags::SHRINK).expect("seal");
    refused_cut(&rig, sealed, || {});
}
