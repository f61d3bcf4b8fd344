//! Every transport keeps the promises of `BackingStore`, whatever the size and alignment.

use std::fs;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use std::io;
use std::path::PathBuf;

use super::*;

/// Both engines, with and without the page cache; what the machine refuses falls back by itself.
const OPTIONS: [FileBackingOptions; 4] = [
    FileBackingOptions {
        direct: true,
        io_uring: true,
    },
    FileBackingOptions {
        direct: false,
        io_uring: true,
    },
    FileBackingOptions {
        direct: true,
        io_uring: false,
    },
    FileBackingOptions {
        direct: false,
        io_uring: false,
    },
];

fn file_of(bytes: &[u8]) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    fs::write(file.path(), bytes).unwrap();
    file
}

fn pattern(len: usize, seed: u64) -> Vec<u8> {
    (0..len as u64)
        .map(|i| ((i + seed).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8)
        .collect()
}

fn all_ok(results: Vec<io::Result<()>>) {
    for result in results {
        result.unwrap();
    }
}

#[test]
fn what_is_written_is_read_back_whatever_the_alignment() {
    for options in OPTIONS {
        for size in [1, 511, 4096, 4097, 100_000, (1 << 20) + 700] {
            let mut expected = pattern(size, 3);
            let file = file_of(&expected);
            let backing = Backing::file_with(file.path(), options).unwrap();
            assert_eq!(backing.size_bytes(), size as u64);
            let mut step = 0;
            for offset in [0, 1, 512, 4095, 4096, 8192, 65_536, size - 1, size] {
                for len in [0, 1, 512, 4096, 5000, 12_288] {
                    step += 1;
                    let bytes = pattern(len, step);
                    all_ok(backing.write_runs(&[WriteRun {
                        offset: offset as u64,
                        bytes: &bytes,
                    }]));
                    let end = size.min(offset + len);
                    if offset < end {
                        expected[offset..end].copy_from_slice(&bytes[..end - offset]);
                    }
                    let mut out = vec![0xEE; len + 3];
                    backing.read_at(offset as u64, &mut out).unwrap();
                    let mut wanted = expected[offset.min(size)..].to_vec();
                    wanted.resize(len + 3, 0);
                    assert_eq!(
                        out, wanted,
                        "{options:?} size {size} offset {offset} len {len}"
                    );
                }
            }
            backing.sync().unwrap();
            assert_eq!(
                fs::read(file.path()).unwrap(),
                expected,
                "the size and content outside"
            );
        }
    }
}

#[test]
fn many_runs_more_than_the_ring_is_deep_all_arrive() {
    for options in OPTIONS {
        let blocks = 400;
        let file = file_of(&vec![0; blocks * 4096]);
        let backing = Backing::file_with(file.path(), options).unwrap();
        let mut content = AlignedBuffer::new(blocks * 4096);
        content.copy_from_slice(&pattern(blocks * 4096, 9));
        let runs: Vec<_> = (0..blocks)
            .rev()
            .map(|block| WriteRun {
                offset: block as u64 * 4096,
                bytes: &content[block * 4096..][..4096],
            })
            .collect();
        all_ok(backing.write_runs(&runs));
        backing.sync().unwrap();
        assert_eq!(fs::read(file.path()).unwrap(), &content[..]);
        let counters = backing.counters();
        assert_eq!(counters.writes, blocks as u64);
        assert_eq!(counters.blocks_written, blocks as u64);
        assert_eq!(counters.bytes_written, blocks as u64 * 4096);
        assert_eq!(counters.syncs, 1);
    }
}

#[test]
fn one_long_run_is_one_write_however_it_is_split() {
    let len = (5 << 20) + 123;
    let file = file_of(&vec![0; len]);
    let backing = Backing::file(file.path()).unwrap();
    let bytes = pattern(len, 1);
    all_ok(backing.write_runs(&[WriteRun {
        offset: 0,
        bytes: &bytes,
    }]));
    assert_eq!(fs::read(file.path()).unwrap(), bytes);
    assert_eq!(backing.counters().writes, 1);
    assert_eq!(backing.counters().blocks_written, 5 * 256 + 1);
}

#[test]
fn zeroed_ranges_read_as_zeroes_and_nothing_else_changes() {
    for options in OPTIONS {
        let size = 300_001;
        let mut expected = pattern(size, 5);
        let file = file_of(&expected);
        let backing = Backing::file_with(file.path(), options).unwrap();
        for (offset, len) in [
            (0, 1),
            (4096, 8192),
            (5000, 70_001),
            (299_000, 10_000),
            (400_000, 5),
        ] {
            backing.zero_range(offset, len).unwrap();
            let start = size.min(offset as usize);
            expected[start..size.min((offset + len) as usize)].fill(0);
            let mut out = vec![1; size];
            backing.read_at(0, &mut out).unwrap();
            assert_eq!(out, expected);
        }
        assert_eq!(fs::metadata(file.path()).unwrap().len(), size as u64);
    }
}

#[test]
fn a_backing_is_opened_once() {
    let file = file_of(&[1; 8192]);
    let first = Backing::file(file.path()).unwrap();
    let error = Backing::file(file.path()).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("already the backing of a running pool"),
        "{error}"
    );
    assert!(
        error.to_string().contains(file.path().to_str().unwrap()),
        "{error}"
    );
    drop(first);
    Backing::file(file.path()).unwrap();
}

#[test]
fn what_is_no_backing_is_refused_with_advice() {
    let folder = tempfile::tempdir().unwrap();
    let cases = [
        (folder.path().join("missing"), "truncate"),
        (
            folder.path().to_owned(),
            "neither a regular file nor a block device",
        ),
        (
            PathBuf::from("/dev/null"),
            "neither a regular file nor a block device",
        ),
    ];
    for (path, text) in cases {
        let error = Backing::file(&path).unwrap_err();
        assert!(error.to_string().contains(text), "{error}");
        assert_eq!(error.path, path);
    }
    let empty = file_of(&[]);
    assert!(
        Backing::file(empty.path())
            .unwrap_err()
            .to_string()
            .contains("is empty")
    );
}

#[test]
fn identity_tells_files_apart_and_the_same_file_again() {
    let (one, other) = (file_of(&[0; 4096]), file_of(&[0; 4096]));
    let identity = Backing::file(one.path()).unwrap().identity();
    assert_eq!(Backing::file(one.path()).unwrap().identity(), identity);
    assert_ne!(Backing::file(other.path()).unwrap().identity(), identity);
    assert_eq!(identity.size_bytes, 4096);
}

#[test]
fn a_file_that_shrank_says_so() {
    let file = file_of(&[7; 8192]);
    let backing = Backing::file(file.path()).unwrap();
    file.as_file().set_len(4096).unwrap();
    let error = backing.read_at(4096, &mut [0; 4096]).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("shorter than when it was attached"),
        "{error}"
    );
    // A write would make it longer again, with zeroes where there was data.
    let runs = [WriteRun {
        offset: 4096,
        bytes: &[1; 4096],
    }];
    let refused = backing.write_runs(&runs).remove(0).unwrap_err();
    assert!(refused.to_string().contains("shorter"), "{refused}");
    backing.zero_range(4096, 4096).unwrap_err();
    backing.sync().unwrap_err();
    assert_eq!(file.as_file().metadata().unwrap().len(), 4096);
    file.as_file().set_len(8192).unwrap();
    all_ok(backing.write_runs(&runs));
    backing.sync().unwrap();
}

#[test]
fn a_file_that_was_removed_takes_no_more_and_is_still_read() {
    let file = file_of(&[7; 8192]);
    let backing = Backing::file(file.path()).unwrap();
    file.close().unwrap();
    let runs = [WriteRun {
        offset: 0,
        bytes: &[1; 4096],
    }];
    let refused = backing.write_runs(&runs).remove(0).unwrap_err();
    assert!(refused.to_string().contains("was removed"), "{refused}");
    backing.zero_range(0, 4096).unwrap_err();
    backing.sync().unwrap_err();
    let mut out = [0; 4096];
    backing.read_at(0, &mut out).unwrap();
    assert_eq!(out, [7; 4096]);
}

#[test]
fn options_show_in_the_transport() {
    let file = file_of(&[0; 8192]);
    let plain = FileBackingOptions {
        direct: false,
        io_uring: false,
    };
    let backing = Backing::file_with(file.path(), plain).unwrap();
    assert_eq!(backing.transport(), "pwrite, page cache");
}

#[test]
fn changes_made_outside_through_the_page_cache_are_seen() {
    let file = file_of(&[0; 8192]);
    let backing = Backing::file(file.path()).unwrap();
    file.as_file().write_all_at(&[9; 4096], 4096).unwrap();
    let mut out = AlignedBuffer::new(8192);
    backing.read_at(0, &mut out).unwrap();
    assert!(out[4096..].iter().all(|&byte| byte == 9));
}

#[test]
fn memory_clips_counts_and_reads_zeroes_past_the_end() {
    let backing = Backing::memory(1000);
    let results = backing.write_runs(&[
        WriteRun {
            offset: 900,
            bytes: &[7; 200],
        },
        WriteRun {
            offset: 5000,
            bytes: &[7; 10],
        },
    ]);
    all_ok(results);
    let mut out = [1; 200];
    backing.read_at(850, &mut out).unwrap();
    assert!(out[..50].iter().all(|&byte| byte == 0));
    assert!(out[50..150].iter().all(|&byte| byte == 7));
    assert!(out[150..].iter().all(|&byte| byte == 0));
    backing.zero_range(950, 1000).unwrap();
    backing.read_at(850, &mut out).unwrap();
    assert_eq!(out.iter().filter(|&&byte| byte == 7).count(), 50);
    assert_eq!(backing.counters().bytes_written, 100);
    assert_eq!(backing.counters().blocks_written, 1);
}

#[test]
fn a_faulty_store_fails_as_often_as_told() {
    let memory = Arc::new(MemoryStore::new(4096));
    let faulty = Arc::new(FaultyStore::new(memory.clone()));
    let backing = Backing::from_store(faulty.clone());
    faulty.fail_writes(1);
    faulty.fail_syncs(2);
    let runs = [
        WriteRun {
            offset: 0,
            bytes: &[1],
        },
        WriteRun {
            offset: 1,
            bytes: &[2],
        },
    ];
    let results = backing.write_runs(&runs);
    assert_eq!(
        results[0].as_ref().unwrap_err().raw_os_error(),
        Some(libc::EIO)
    );
    assert!(results[1].is_ok());
    assert_eq!(memory.snapshot()[..2], [0, 2]);
    assert!(backing.sync().is_err() && backing.sync().is_err() && backing.sync().is_ok());
    faulty.fail_reads(u64::MAX);
    for _ in 0..3 {
        assert!(backing.read_at(0, &mut [0]).is_err());
    }
    faulty.fail_reads(0);
    assert!(backing.read_at(0, &mut [0]).is_ok());
}

#[test]
fn each_disk_that_was_read_kept_buffers_of_its_own() {
    let bytes = pattern(1 << 20, 3);
    let files: Vec<_> = (0..12).map(|_| file_of(&bytes)).collect();
    let disks: Vec<_> = files
        .iter()
        .map(|file| Backing::file(file.path()).unwrap())
        .collect();
    for disk in &disks {
        let mut out = vec![0; (1 << 20) + 1];
        // Where it begins, no direct read is allowed to go.
        let unaligned = usize::from(out.as_ptr().cast::<u8>().align_offset(512) == 0);
        disk.read_at(0, &mut out[unaligned..unaligned + (1 << 20)])
            .unwrap();
        assert!(out[unaligned..unaligned + (1 << 20)] == bytes);
    }
    assert!(file::kept_buffers().len() <= 4, "of all of them together");
}
