//! What writes cost the pool, and names the backing, exactly.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use forebay::Counters;
use forebay_log::Device;
use rustix::fs::{Mode, OFlags};

use crate::buffer::FileBuffer;
use crate::facts::SyncKind;
use crate::file::BufferedFile;
use crate::observe::{Synced, set_observer};
use crate::testing::{Rig, SmallDisk, Syncs, open_file};

fn spent(buffer: &FileBuffer, act: impl FnOnce()) -> (u64, u64) {
    let before = buffer.counters();
    act();
    let Counters {
        lines_flushed,
        lines_streamed,
        fences,
        ..
    } = buffer.counters() - before;
    (lines_flushed + lines_streamed, fences)
}

fn hot_file(rig: &Rig, buffer: &Arc<FileBuffer>) -> Arc<BufferedFile> {
    let file = buffer.adopt(open_file(&rig.path("hot"))).expect("adopt");
    file.sync(SyncKind::Data).expect("sync");
    // The row, its block and the segment are made.
    file.append(&[1; 256], true).expect("append");
    file
}

#[test]
fn an_append_and_its_sync_cost_the_bytes_two_lines_of_log_and_a_fence() {
    let rig = Rig::new(4 << 20);
    let buffer = rig.open().expect("open");
    let file = hot_file(&rig, &buffer);
    for number in 1..64 {
        let cost = spent(&buffer, || {
            file.append(&[7; 256], false).expect("append");
            file.sync(SyncKind::Data).expect("sync");
        });
        // The first one of a block brings the line with the block's valid length.
        let begins = u64::from(number % 16 == 0);
        assert_eq!(cost, (4 + 2 + begins, 1), "append {number}");
    }
}

#[test]
fn whole_blocks_cost_themselves_a_record_and_a_fence() {
    let rig = Rig::new(4 << 20);
    let buffer = rig.open().expect("open");
    let file = hot_file(&rig, &buffer);
    let blocks: Vec<u8> = (0..3 * 4096u32)
        .map(|at| ((at * 7919) >> 5) as u8)
        .collect();
    file.write_at(4096, &blocks, true).expect("write");
    let other: Vec<u8> = blocks.iter().map(|byte| byte ^ 0x55).collect();
    let cost = spent(&buffer, || {
        file.write_at(4096, &other, true).expect("write")
    });
    // 32 bytes of header and 24 for each block are two lines; the size does not change.
    assert_eq!(cost, (3 * 64 + 2, 1));
}

#[test]
fn cold_files_cost_the_pool_nothing() {
    let rig = Rig::new(4 << 20);
    let buffer = rig.open().expect("open");
    let file = buffer.adopt(open_file(&rig.path("cold"))).expect("adopt");
    let cost = spent(&buffer, || {
        for number in 0..100 {
            file.write_at(number * 5000, &[3; 5000], false)
                .expect("write");
        }
        let mut out = vec![0; 500_000];
        assert_eq!(file.read_at(0, &mut out).expect("read"), out.len());
    });
    assert_eq!(cost, (0, 0));
}

#[test]
fn each_directory_that_others_had_made_waited_for_a_sync_of_its_own() {
    let rig = Rig::new(4 << 20);
    let buffer = rig.open().expect("open");
    let folders: Vec<_> = (0..20)
        .map(|number| rig.path(&format!("{number}")))
        .collect();
    folders
        .iter()
        .for_each(|folder| fs::create_dir(folder).expect("make"));
    // Longer than a tick of the clock that both times are told by.
    std::thread::sleep(Duration::from_millis(20));
    let syncs = syncs_of_creates_in(&buffer, &folders);
    let of_all = syncs.iter().filter(|what| **what == Synced::Everything);
    assert_eq!((of_all.count(), syncs.len()), (1, 5), "{syncs:?}");
    assert_eq!(syncs.last(), Some(&Synced::Everything));
}

/// What of the backing is synced while a file is made in each of the folders.
fn syncs_of_creates_in(buffer: &Arc<FileBuffer>, folders: &[PathBuf]) -> Vec<Synced> {
    let syncs = Rc::new(Syncs::default());
    set_observer(Some(syncs.clone()));
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    for folder in folders {
        let folder = File::open(folder).expect("open");
        let folder = buffer.directory(folder.into()).expect("directory");
        let made = folder.open(OsStr::new("file"), flags, Mode::RUSR);
        assert!(made.expect("make").created);
    }
    set_observer(None);
    syncs.0.take()
}

#[test]
fn what_is_on_a_file_system_that_was_not_seen_yet_was_taken_for_synced_with_the_rest() {
    let rig = Rig::new(4 << 20);
    let buffer = rig.open().expect("open");
    let small = rig.path("small");
    fs::create_dir(&small).expect("make");
    let Some(_mounted) = SmallDisk::new(&small) else {
        eprintln!("skipped what_is_on_a_file_system_that_was_not_seen: may not mount");
        return;
    };
    let mut folders: Vec<_> = (0..5)
        .map(|number| rig.path(&format!("{number}")))
        .collect();
    folders.push(small.join("in-it"));
    folders
        .iter()
        .for_each(|folder| fs::create_dir(folder).expect("make"));
    std::thread::sleep(Duration::from_millis(20));
    let of_rest = syncs_of_creates_in(&buffer, &folders[..5]);
    assert_eq!(
        (of_rest.len(), of_rest.last()),
        (5, Some(&Synced::Everything))
    );
    let of_small = syncs_of_creates_in(&buffer, &folders[5..]);
    assert!(of_small.contains(&Synced::Everything), "{of_small:?}");
    assert_eq!(syncs_of_creates_in(&buffer, &[small]), []);
}

/// Flushes of the SSD while something is done.
fn flushes(rig: &Rig, act: impl FnOnce()) -> u64 {
    let before = rig.device().counters();
    act();
    rig.device().counters().since(&before).flushes
}

#[test]
fn a_sync_of_what_was_written_to_a_pool_on_an_ssd_is_one_flush() {
    const COMMITS: u64 = 100;
    // So long that few summaries are written meanwhile.
    let rig = Rig::on_ssd_of(1024);
    let buffer = rig.open().expect("open");
    let file = hot_file(&rig, &buffer);
    let other = buffer.adopt(open_file(&rig.path("other"))).expect("adopt");
    other.sync(SyncKind::Data).expect("sync");
    other.append(&[1; 256], true).expect("append");
    // A commit of a write-ahead log: a frame's header and its page, behind the end.
    let count = flushes(&rig, || {
        for _ in 0..COMMITS {
            file.append(&[7; 24], false).expect("append");
            file.append(&[7; 4096], false).expect("append");
            file.sync(SyncKind::Data).expect("sync");
        }
    });
    assert!(count as f64 <= 1.05 * COMMITS as f64, "{count} flushes");
    let write =
        || (0..9).for_each(|at| file.write_at(at * 5000, &[8; 5000], false).expect("write"));
    assert_eq!(flushes(&rig, write), 0, "nobody asked for any");
    // All files share a log: the sync of one is that of what was written before it.
    let sync = |file: &BufferedFile| file.sync(SyncKind::All).expect("sync");
    assert_eq!(flushes(&rig, || sync(&other)), 1);
    assert_eq!(flushes(&rig, || sync(&file)), 0);
    // What is durable at its return costs one itself, with all before it, also where it is several transactions.
    let long = vec![9; 3 << 20];
    other.write_at(0, &long, false).expect("write");
    let durable = flushes(&rig, || file.write_at(10, &long, true).expect("write"));
    assert!(
        (1..=3).contains(&durable),
        "{durable} flushes, two of them of a summary"
    );
    assert_eq!(flushes(&rig, || sync(&other)), 0);
}

#[test]
fn a_transaction_with_a_rollback_journal_costs_four_flushes_of_the_ssd() {
    let rig = Rig::on_ssd_of(1024);
    let buffer = rig.open().expect("open");
    let folder = File::open(rig.directory.path()).expect("open");
    let folder = buffer.directory(folder.into()).expect("directory");
    let database = hot_file(&rig, &buffer);
    database.write_at(0, &[1; 8 << 12], true).expect("write");
    let name = OsStr::new("hot-journal");
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let journal = || {
        let made = folder.open(name, flags, Mode::RUSR | Mode::WUSR);
        buffer.adopt(made.expect("make").descriptor).expect("adopt")
    };
    for number in 0..8 {
        let mut journal_now = None;
        let begin = || {
            let file = journal();
            file.write_at(0, &[2; 512], false).expect("write");
            for page in 0..3 {
                file.write_at(512 + page * 4104, &[3; 4104], false)
                    .expect("write");
            }
            journal_now = Some(file);
        };
        assert_eq!(flushes(&rig, begin), 0, "nobody asked for any");
        let file = journal_now.expect("it was begun");
        let sync = |file: &BufferedFile| file.sync(SyncKind::Data).expect("sync");
        assert_eq!(flushes(&rig, || sync(&file)), 1, "transaction {number}");
        let of_folder = || folder.sync().expect("sync");
        assert_eq!(flushes(&rig, of_folder), 0, "the name was with it");
        file.write_at(8, &[4; 4], false).expect("write");
        assert_eq!(flushes(&rig, || sync(&file)), 1, "its header");
        for page in 0..3 {
            database
                .write_at(page << 12, &[number; 4096], false)
                .expect("write");
        }
        assert_eq!(flushes(&rig, || sync(&database)), 1, "the database");
        drop(file);
        let unlink = || folder.unlink(name).expect("unlink");
        assert_eq!(flushes(&rig, unlink), 1, "before the name goes");
    }
    let free = rig.device().counters();
    let again = || drop(journal());
    assert_eq!(flushes(&rig, again), 0);
    let of_folder = || folder.sync().expect("sync");
    assert_eq!(flushes(&rig, of_folder), 1, "of a name that nothing synced");
    assert_eq!(flushes(&rig, of_folder), 0);
    assert!(rig.device().counters().since(&free).writes > 0);
}
