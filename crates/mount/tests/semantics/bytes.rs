//! Bytes: written, appended, cut, mapped, allocated, copied.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::process::Command;

use forebay_mount::MountOptions;
use rustix::fs::{FallocateFlags, SeekFrom as Seeks};

use crate::fixture::{Mounted, skip};

fn both_caches(test: &str, check: impl Fn(&mut Mounted)) {
    for writeback_cache in [false, true] {
        let options = MountOptions {
            writeback_cache,
            ..MountOptions::default()
        };
        if let Some(mut place) = Mounted::with(test, &options) {
            check(&mut place);
        }
    }
}

fn open(place: &Mounted, name: &str) -> File {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    options.open(place.path(name)).unwrap()
}

#[test]
fn what_is_synced_is_behind_the_mount_after_it_ends() {
    both_caches("synced", |place| {
        let mut file = open(place, "file");
        file.write_all(b"first ").unwrap();
        file.sync_data().unwrap();
        file.write_all(b"second").unwrap();
        file.sync_all().unwrap();
        drop(file);
        let mut options = OpenOptions::new();
        options.append(true).custom_flags(libc::O_DSYNC);
        let mut file = options.open(place.path("file")).unwrap();
        file.write_all(b" third").unwrap();
        drop(file);
        File::open(place.path("")).unwrap().sync_all().unwrap();
        place.remount();
        assert_eq!(fs::read(place.path("file")).unwrap(), b"first second third");
        place.end();
        assert_eq!(fs::read(place.data("file")).unwrap(), b"first second third");
        assert!(place.has_ended());
    });
}

#[test]
fn appends_of_several_processes_never_overwrite_each_other() {
    const PROCESSES: usize = 4;
    const LINES: usize = 300;
    both_caches("appends", |place| {
        let script = "i=0; while [ $i -lt 300 ]; do echo \"$0 $i\" >> log; i=$((i+1)); done";
        let processes: Vec<_> = (0..PROCESSES)
            .map(|process| {
                Command::new("sh")
                    .args(["-c", script, &process.to_string()])
                    .current_dir(place.path(""))
                    .spawn()
                    .unwrap()
            })
            .collect();
        for mut process in processes {
            assert!(process.wait().unwrap().success());
        }
        let log = fs::read_to_string(place.path("log")).unwrap();
        assert_eq!(log.lines().count(), PROCESSES * LINES);
        for process in 0..PROCESSES {
            let prefix = format!("{process} ");
            let of_it: Vec<_> = log
                .lines()
                .filter_map(|line| line.strip_prefix(&prefix))
                .map(|number| number.parse::<usize>().unwrap())
                .collect();
            assert_eq!(of_it, (0..LINES).collect::<Vec<_>>());
        }
    });
}

#[test]
fn several_opens_see_each_other_at_once() {
    both_caches("several_opens", |place| {
        let (one, two) = (open(place, "file"), open(place, "file"));
        let mut found = [0; 5];
        for round in 0..50_u8 {
            one.write_all_at(&[round; 5], u64::from(round) * 3).unwrap();
            two.read_exact_at(&mut found, u64::from(round) * 3).unwrap();
            assert_eq!(found, [round; 5]);
        }
        two.set_len(4).unwrap();
        assert_eq!(one.metadata().unwrap().len(), 4);
        assert_eq!(one.read_at(&mut found, 0).unwrap(), 4);
        let by_another = Command::new("cat")
            .arg(place.path("file"))
            .output()
            .unwrap();
        assert_eq!(by_another.stdout, [0, 0, 0, 1]);
    });
}

#[test]
fn cutting_and_growing_leaves_zeroes() {
    both_caches("cutting", |place| {
        let file = open(place, "file");
        file.write_all_at(&[7; 10_000], 0).unwrap();
        file.sync_data().unwrap();
        file.set_len(5_001).unwrap();
        file.set_len(20_000).unwrap();
        let mut found = vec![1; 20_000];
        file.read_exact_at(&mut found, 0).unwrap();
        assert!(found[..5_001].iter().all(|byte| *byte == 7));
        assert!(found[5_001..].iter().all(|byte| *byte == 0));
        // By open, too.
        File::create(place.path("file")).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 0);
        open(place, "file").set_len(12).unwrap();
        assert_eq!(fs::read(place.path("file")).unwrap(), [0; 12]);
    });
}

#[test]
fn holes_are_found_and_made() {
    let Some(place) = Mounted::new("holes") else {
        return;
    };
    const BLOCK: u64 = 1 << 16;
    let file = open(&place, "sparse");
    file.write_all_at(&[1; BLOCK as usize], 4 * BLOCK).unwrap();
    let seek = |from| rustix::fs::seek(&file, from);
    assert_eq!(seek(Seeks::Data(0)), Ok(4 * BLOCK));
    assert_eq!(seek(Seeks::Hole(4 * BLOCK)), Ok(5 * BLOCK));
    assert_eq!(seek(Seeks::Data(5 * BLOCK)), Err(rustix::io::Errno::NXIO));
    let allocate = |mode, offset, length| rustix::fs::fallocate(&file, mode, offset, length);
    allocate(FallocateFlags::empty(), 0, 8 * BLOCK).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 8 * BLOCK);
    allocate(FallocateFlags::KEEP_SIZE, 0, 16 * BLOCK).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 8 * BLOCK);
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    allocate(hole, 4 * BLOCK + 100, 1000).unwrap();
    allocate(FallocateFlags::ZERO_RANGE, 5 * BLOCK - 100, 100).unwrap();
    let mut found = vec![9; BLOCK as usize];
    file.read_exact_at(&mut found, 4 * BLOCK).unwrap();
    let zeroes = found.iter().filter(|byte| **byte == 0).count();
    assert_eq!(zeroes, 1100);
    assert_eq!(found[99..=100], [1, 0]);
    let collapse = allocate(FallocateFlags::COLLAPSE_RANGE, 0, BLOCK);
    assert_eq!(
        collapse,
        Err(rustix::io::Errno::OPNOTSUPP),
        "the kernel does not pass that on"
    );
}

#[test]
fn mappings_and_writes_are_one_content() {
    both_caches("mappings", |place| {
        // Python's mmap is a program that maps, and no unsafe code here.
        let script = "
import mmap, os
fd = os.open('file', os.O_RDWR | os.O_CREAT)
os.write(fd, b'a' * 8192)
mapped = mmap.mmap(fd, 8192)
os.pwrite(fd, b'written', 100)
assert mapped[100:107] == b'written'
mapped[5000:5006] = b'mapped'
assert os.pread(fd, 6, 5000) == b'mapped'
mapped.flush()
mapped.close()
os.close(fd)
";
        let run = Command::new("python3")
            .args(["-c", script])
            .current_dir(place.path(""))
            .output();
        let Ok(run) = run else {
            return crate::fixture::skip("mappings", "needs python3");
        };
        assert!(
            run.status.success(),
            "{}",
            String::from_utf8_lossy(&run.stderr)
        );
        place.end();
        let found = fs::read(place.data("file")).unwrap();
        assert_eq!(
            (&found[100..107], &found[5000..5006]),
            (&b"written"[..], &b"mapped"[..])
        );
    });
}

#[test]
fn direct_and_buffered_input_and_output_agree() {
    both_caches("direct", |place| {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true);
        options.custom_flags(libc::O_DIRECT);
        let direct = options.open(place.path("file")).unwrap();
        let buffered = open(place, "file");
        let mut aligned = vec![0_u8; 3 * 4096];
        let start = aligned.as_ptr().align_offset(4096);
        let block = &mut aligned[start..start + 4096];
        buffered.write_all_at(&[1; 8192], 0).unwrap();
        block.fill(2);
        direct.write_all_at(block, 4096).unwrap();
        let mut found = [0; 8192];
        buffered.read_exact_at(&mut found, 0).unwrap();
        assert_eq!((found[4095], found[4096], found[8191]), (1, 2, 2));
        buffered.write_all_at(&[3; 10], 4096).unwrap();
        direct.read_exact_at(block, 4096).unwrap();
        assert_eq!((block[9], block[10]), (3, 2));
    });
}

#[test]
fn ranges_are_copied_between_files_and_within_one() {
    both_caches("copies", |place| {
        let (from, to) = (open(place, "from"), open(place, "to"));
        let content: Vec<u8> = (0..3_000_000_u32)
            .map(|number| (number % 251) as u8)
            .collect();
        from.write_all_at(&content, 0).unwrap();
        let copy = |offset_from: u64, offset_to: u64, length: usize| {
            let (mut offset_from, mut offset_to) = (offset_from, offset_to);
            let mut left = length;
            while left > 0 {
                let copied = rustix::fs::copy_file_range(
                    &from,
                    Some(&mut offset_from),
                    &to,
                    Some(&mut offset_to),
                    left,
                )
                .unwrap();
                if copied == 0 {
                    break;
                }
                left -= copied;
            }
            length - left
        };
        assert_eq!(copy(1_000, 77, 2_500_000), 2_500_000);
        let mut found = vec![0; 2_500_000];
        to.read_exact_at(&mut found, 77).unwrap();
        assert!(found == content[1_000..2_501_000]);
        assert_eq!(copy(2_999_000, 0, 5_000), 1_000, "the end of the source");
    });
}

#[test]
fn a_file_larger_than_the_pool_is_copied_through() {
    let Some(mut place) = Mounted::new("large") else {
        return;
    };
    const BYTES: u64 = 96 << 20;
    let mut file = open(&place, "large");
    let mut block = vec![0_u8; 1 << 20];
    for number in 0..BYTES >> 20 {
        block.fill(number as u8);
        file.write_all(&block).unwrap();
        if number % 16 == 0 {
            file.sync_data().unwrap();
        }
    }
    file.seek(SeekFrom::Start(0)).unwrap();
    for number in 0..BYTES >> 20 {
        file.read_exact(&mut block).unwrap();
        assert!(block.iter().all(|byte| *byte == number as u8));
    }
    drop(file);
    place.end();
    assert_eq!(fs::metadata(place.data("large")).unwrap().len(), BYTES);
}

/// Commits of the pool so far.
fn commits(place: &Mounted) -> u64 {
    place.mount().buffer().stats().unwrap().sequence
}

/// Whether this kernel can keep writes from its pages.
fn is_at_least_6_18() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split('.').map(|number| number.parse().unwrap_or(0));
    (numbers.next(), numbers.next()) >= (Some(6_u32), Some(18))
}

#[test]
fn a_durable_write_is_one_transaction_wherever_it_begins() {
    if !is_at_least_6_18() {
        return skip("one_transaction", "needs Linux 6.18");
    }
    let Some(place) = &Mounted::new("one_transaction") else {
        return;
    };
    let open_with = |flags: rustix::fs::OFlags| {
        let flags = flags | rustix::fs::OFlags::CREATE;
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        File::from(rustix::fs::open(place.path("file"), flags, mode).unwrap())
    };
    let synced = open_with(rustix::fs::OFlags::RDWR | rustix::fs::OFlags::DSYNC);
    synced.write_all_at(&[1; 20_000], 0).unwrap();
    let before = commits(place);
    for (count, (offset, length)) in [(100, 4096), (4000, 200), (1, 12_000)].iter().enumerate() {
        // No page of it is in the cache.
        synced.write_all_at(&vec![2; *length], *offset).unwrap();
        assert_eq!(commits(place), before + count as u64 + 1, "at {offset}");
    }
    // One write of many is asked for as durable.
    let plain = open_with(rustix::fs::OFlags::WRONLY);
    let before = commits(place);
    let bytes = [std::io::IoSlice::new(&[3; 5000])];
    let durable = rustix::io::ReadWriteFlags::DSYNC;
    let written = rustix::io::pwritev2(&plain, &bytes, 15_001, durable);
    assert_eq!(written, Ok(5000));
    assert_eq!(commits(place), before + 1);
    let mut found = vec![0; 20_100];
    let length = synced.read_at(&mut found, 0).unwrap();
    assert_eq!(length, 20_001);
    assert!(found[12_001..15_001].iter().all(|byte| *byte == 1));
    assert!(found[15_001..20_001].iter().all(|byte| *byte == 3));
}

/// Where the kernel gathers pages it knows of an end that we do not know yet.
#[test]
fn who_writes_durably_reads_holes_before_an_end_that_is_gathered() {
    both_caches("holes", |place| {
        let file = File::create(place.path("file")).unwrap();
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(libc_dsync());
        let synced = options.open(place.path("file")).unwrap();
        file.write_all_at(b"far", 500_000).unwrap();
        let mut found = [1; 100];
        assert_eq!(synced.read_at(&mut found, 100_000).unwrap(), 100);
        assert_eq!(found, [0; 100]);
    });
}

#[test]
fn who_reads_by_the_page_cache_sees_writes_that_go_by_it() {
    both_caches("by_the_cache", |place| {
        let path = place.path("file");
        fs::write(&path, [0; 512]).unwrap();
        let mut options = OpenOptions::new();
        for flags in [0, libc_dsync()] {
            let writer = options.write(true).custom_flags(flags).open(&path).unwrap();
            let is_over = std::sync::atomic::AtomicBool::new(false);
            std::thread::scope(|scope| {
                // Brings the page back all the time, also while it is being written.
                scope.spawn(|| {
                    let file = File::open(&path).unwrap();
                    while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                        file.read_at(&mut [0; 512], 0).unwrap();
                    }
                });
                let reader = File::open(&path).unwrap();
                let mut stale = 0;
                for round in 0..3000_u32 {
                    writer.write_all_at(&round.to_ne_bytes(), 100).unwrap();
                    let mut found = [0; 4];
                    reader.read_exact_at(&mut found, 100).unwrap();
                    stale += u32::from(found != round.to_ne_bytes());
                }
                is_over.store(true, std::sync::atomic::Ordering::Relaxed);
                assert_eq!(stale, 0);
            });
        }
    });
}

fn libc_dsync() -> i32 {
    rustix::fs::OFlags::DSYNC.bits() as i32
}

#[test]
fn a_file_that_is_opened_for_durable_writes_can_be_mapped() {
    both_caches("mapped_durably", |place| {
        let path = place.path("file");
        fs::write(&path, [7; 8192]).unwrap();
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(libc_dsync());
        let file = options.open(&path).unwrap();
        let script = "import mmap, os, sys\n\
                      f = os.open(sys.argv[1], os.O_RDWR | os.O_DSYNC)\n\
                      m = mmap.mmap(f, 8192)\n\
                      m[0:3] = b'abc'\n\
                      os.pwrite(f, b'def', 3)\n\
                      assert m[0:7] == b'abcdef\\x07', m[0:7]\n\
                      assert os.pread(f, 7, 0) == b'abcdef\\x07'\n";
        let status = Command::new("python3")
            .args(["-c", script])
            .arg(&path)
            .status();
        match status {
            Ok(status) => assert!(status.success()),
            Err(_) => return skip("mapped_durably", "needs python3"),
        }
        let mut found = [0; 7];
        file.read_exact_at(&mut found, 0).unwrap();
        assert_eq!(&found, b"abcdef\x07");
    });
}
