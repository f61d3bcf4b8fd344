//! Journals are found where the file systems' own tools made them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use forebay::unstable::journal::{Journal, JournalKind, JournalRun, Located, locate};

const K: usize = 1024;
const MIB: usize = 1 << 20;

/// Says, past the capture of test output, that a test could not run here; `make test` counts it.
fn skip(test: &str, why: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "skipped {test}: {why}");
}

/// Runs a tool; `None` where it is not there.
fn tool(program: &str, arguments: &[&str], input: &str) -> Option<String> {
    let mut child = Command::new(program)
        .args(arguments)
        .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .ok()?;
    use std::io::Write;
    child.stdin.take()?.write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {message}"
    );
    Some(String::from_utf8(output.stdout).unwrap())
}

struct Image {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl Image {
    fn new(mib: usize) -> Image {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        std::fs::File::create(&path)
            .and_then(|file| file.set_len((mib * MIB) as u64))
            .unwrap();
        Image {
            _folder: folder,
            path,
        }
    }
    fn name(&self) -> &str {
        self.path.to_str().unwrap()
    }
    fn bytes(&self) -> Vec<u8> {
        std::fs::read(&self.path).unwrap()
    }
}

fn found(bytes: &[u8]) -> Located {
    locate(&bytes)
}

fn ext4(arguments: &[&str], mib: usize) -> Option<Image> {
    let image = Image::new(mib);
    let quiet = ["-q", "-F", "-E", "lazy_itable_init=1"];
    let arguments: Vec<&str> = quiet.iter().chain(arguments).copied().collect();
    tool("mkfs.ext4", &[&arguments[..], &[image.name()]].concat(), "")?;
    Some(image)
}

/// The block of the file system that holds this block of the journal, as e2fsprogs has it.
fn mapped(image: &Path, blocks: &[u64]) -> Vec<u64> {
    let script: String = blocks.iter().map(|at| format!("bmap <8> {at}\n")).collect();
    let answers = tool("debugfs", &["-f", "-", image.to_str().unwrap()], &script).unwrap();
    answers
        .lines()
        .filter_map(|line| line.trim().parse().ok())
        .collect()
}

fn at(journal: &Journal, offset: u64) -> u64 {
    let holds =
        |run: &&JournalRun| (run.journal_offset..run.journal_offset + run.bytes).contains(&offset);
    let run = journal.runs.iter().find(holds).expect("it is mapped");
    run.disk_offset + (offset - run.journal_offset)
}

/// Compares a sample of the journal's blocks with the tool's word for them.
fn check(image: &Image, block_bytes: u64, blocks: u64) {
    let located = found(&image.bytes());
    assert_eq!(located.journals.len(), 1, "{located:?}");
    assert!(!located.is_incomplete);
    let journal = &located.journals[0];
    assert_eq!(journal.kind, JournalKind::Jbd2);
    let bytes: u64 = journal.runs.iter().map(|run| run.bytes).sum();
    assert_eq!(bytes, blocks * block_bytes, "{journal:?}");
    assert_eq!(journal.ring.start, block_bytes);
    let sample: Vec<u64> = (0..blocks)
        .step_by(97)
        .chain([11, 12, 13, blocks - 1])
        .collect();
    let expected = mapped(&image.path, &sample);
    assert_eq!(expected.len(), sample.len());
    for (number, block) in sample.iter().zip(expected) {
        assert_eq!(
            at(journal, number * block_bytes),
            block * block_bytes,
            "{number}"
        );
    }
}

#[test]
fn ext4_of_every_shape() {
    let cases: [(&[&str], usize, u64, u64); 7] = [
        (&["-b", "4096", "-J", "size=8"], 64, 4096, 2048),
        (&["-b", "1024", "-J", "size=4"], 64, 1024, 4096),
        (&["-b", "2048", "-J", "size=4"], 64, 2048, 2048),
        (&["-b", "65536", "-J", "size=64"], 256, 65536, 1024),
        (
            &["-b", "1024", "-O", "^extents,^64bit", "-J", "size=24"],
            96,
            1024,
            24576,
        ),
        (
            &[
                "-b",
                "4096",
                "-O",
                "^extents,^64bit,^flex_bg,^metadata_csum",
                "-J",
                "size=16",
            ],
            64,
            4096,
            4096,
        ),
        (
            &["-b", "4096", "-O", "64bit,bigalloc", "-J", "size=16"],
            256,
            4096,
            4096,
        ),
    ];
    for (arguments, mib, block_bytes, blocks) in cases {
        let Some(image) = ext4(arguments, mib) else {
            return skip("ext4_of_every_shape", "needs mkfs.ext4");
        };
        check(&image, block_bytes, blocks);
    }
}

#[test]
fn a_journal_whose_map_is_only_in_its_inode() {
    for arguments in [["-b", "4096"], ["-b", "1024"]] {
        let Some(image) = ext4(&arguments, 64) else {
            return skip(
                "a_journal_whose_map_is_only_in_its_inode",
                "needs mkfs.ext4",
            );
        };
        let mut bytes = image.bytes();
        let whole = found(&bytes);
        bytes[K + 268..K + 336].fill(0);
        assert_eq!(found(&bytes).journals, whole.journals);
        // A copy that leads elsewhere does not count either.
        bytes[K + 268..K + 336].fill(0x11);
        assert_eq!(found(&bytes).journals, whole.journals);
        assert_eq!(whole.journals.len(), 1);
    }
}

#[test]
fn fast_commit_blocks_are_not_part_of_the_ring() {
    let Some(image) = ext4(&["-b", "4096", "-O", "fast_commit"], 64) else {
        return skip(
            "fast_commit_blocks_are_not_part_of_the_ring",
            "needs mkfs.ext4",
        );
    };
    let mut bytes = image.bytes();
    let before = found(&bytes).journals.remove(0);
    let total: u64 = before.runs.iter().map(|run| run.bytes).sum();
    // The kernel sets the feature when it mounts the file system first.
    let superblock = at(&before, 0) as usize;
    bytes[superblock + 0x2B] |= 0x20;
    let journal = found(&bytes).journals.remove(0);
    let fast = u32::from_be_bytes(bytes[superblock + 0x54..][..4].try_into().unwrap());
    assert_ne!(fast, 0);
    assert_eq!(journal.ring.end, total - u64::from(fast) * 4096);
}

#[test]
fn no_journal_and_one_elsewhere() {
    let Some(image) = ext4(&["-b", "4096", "-O", "^has_journal"], 64) else {
        return skip("no_journal_and_one_elsewhere", "needs mkfs.ext4");
    };
    let located = found(&image.bytes());
    assert!(located.journals.is_empty() && !located.is_incomplete);
    for (block_bytes, first) in [(1024, 3), (4096, 2)] {
        let device = Image::new(16);
        let arguments = [
            "-q",
            "-F",
            "-b",
            &block_bytes.to_string(),
            "-O",
            "journal_dev",
        ];
        tool("mke2fs", &[&arguments[..], &[device.name()]].concat(), "").unwrap();
        let located = found(&device.bytes());
        let journal = &located.journals[0];
        assert_eq!(journal.ring, first * block_bytes..16 << 20);
        assert_eq!(
            journal.runs,
            [JournalRun {
                journal_offset: 0,
                disk_offset: 0,
                bytes: 16 << 20
            }]
        );
    }
}

#[test]
fn the_log_of_xfs() {
    let image = Image::new(320);
    let Some(said) = tool("mkfs.xfs", &["-f", image.name()], "") else {
        return skip("the_log_of_xfs", "needs mkfs.xfs");
    };
    let located = found(&image.bytes());
    let journal = &located.journals[0];
    assert_eq!(journal.kind, JournalKind::Xfs);
    let said: String = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let after = |text: &str, key: &str| {
        let rest = text.split_once(key).unwrap().1;
        rest.split(|c: char| !c.is_ascii_digit())
            .next()
            .unwrap()
            .parse::<u64>()
            .unwrap()
    };
    let blocks = after(said.split_once("log =").unwrap().1, "blocks=");
    assert_eq!(journal.ring, 0..blocks * 4096);
    // Where xfs_db says, if it is there.
    if let Some(log) = tool(
        "xfs_db",
        &[
            "-r",
            "-c",
            "sb 0",
            "-c",
            "p logstart",
            "-c",
            "convert fsblock 65542 byte",
            image.name(),
        ],
        "",
    ) {
        let start = after(&log, "logstart = ");
        let byte = tool(
            "xfs_db",
            &[
                "-r",
                "-c",
                &format!("convert fsblock {start} byte"),
                image.name(),
            ],
            "",
        )
        .unwrap();
        assert_eq!(
            journal.runs[0].disk_offset,
            after(&byte, "("),
            "{log}{byte}"
        );
    }
}

fn put(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

/// Moves what was found in an image to where a partition puts it.
fn moved(journals: &[Journal], by: usize) -> Vec<Journal> {
    let mut journals = journals.to_vec();
    for run in journals.iter_mut().flat_map(|journal| &mut journal.runs) {
        run.disk_offset += by as u64;
    }
    journals
}

#[test]
fn file_systems_in_partitions() {
    let Some(image) = ext4(&["-b", "4096"], 32) else {
        return skip("file_systems_in_partitions", "needs mkfs.ext4");
    };
    let image = image.bytes();
    let alone = found(&image).journals;
    assert_eq!(alone.len(), 1);
    for sector_bytes in [512, 4096] {
        // GPT: two partitions, the second one misaligned as old tools made them.
        let mut disk = vec![0; 80 * MIB];
        let starts = [MIB, 40 * MIB + 63 * sector_bytes];
        let header = sector_bytes;
        disk[510..512].copy_from_slice(&[0x55, 0xAA]);
        disk[450] = 0xEE;
        put(&mut disk, 454, 1);
        put(&mut disk, 458, u32::MAX);
        disk[header..header + 8].copy_from_slice(b"EFI PART");
        put(&mut disk, header + 72, 2);
        put(&mut disk, header + 80, 128);
        put(&mut disk, header + 84, 128);
        for (number, start) in starts.into_iter().enumerate() {
            let entry = 2 * sector_bytes + 128 * number;
            disk[entry] = 0xAF;
            put(&mut disk, entry + 32, (start / sector_bytes) as u32);
            put(
                &mut disk,
                entry + 40,
                ((start + image.len()) / sector_bytes - 1) as u32,
            );
            disk[start..start + image.len()].copy_from_slice(&image);
        }
        let located = found(&disk);
        let expected: Vec<Journal> = starts
            .iter()
            .flat_map(|start| moved(&alone, *start))
            .collect();
        assert_eq!(located.journals, expected, "sectors of {sector_bytes}");
        for start in starts {
            assert!(located.watched_offsets.contains(&((start + K) as u64)));
        }
    }
    // MBR: a primary partition, and a logical one in an extended one.
    let mut disk = vec![0; 80 * MIB];
    let (primary, extended, logical) = (MIB, 36 * MIB, 37 * MIB);
    let entry = |disk: &mut [u8], at: usize, kind: u8, first: usize, bytes: usize| {
        disk[at + 4] = kind;
        put(disk, at + 8, (first / 512) as u32);
        put(disk, at + 12, (bytes / 512) as u32);
    };
    for table in [0, extended] {
        disk[table + 510..table + 512].copy_from_slice(&[0x55, 0xAA]);
    }
    entry(&mut disk, 446, 0x83, primary, image.len());
    entry(&mut disk, 462, 0x0F, extended, 40 * MIB);
    entry(
        &mut disk,
        extended + 446,
        0x83,
        logical - extended,
        image.len(),
    );
    // A chain that bites its tail.
    entry(&mut disk, extended + 462, 0x05, 512, 512);
    for start in [primary, logical] {
        disk[start..start + image.len()].copy_from_slice(&image);
    }
    let located = found(&disk);
    let expected: Vec<Journal> = [primary, logical]
        .iter()
        .flat_map(|start| moved(&alone, *start))
        .collect();
    assert_eq!(located.journals, expected);
}

#[test]
fn what_is_too_large_for_a_journal_is_none() {
    // All of a disk, said to be an xfs log.
    const GIB: u64 = 1 << 30;
    let xfs = |volume_bytes: u64, log_blocks: u32| {
        let mut bytes = crate::fixtures::journal_locate::seed_disk(16);
        bytes[96..100].copy_from_slice(&log_blocks.to_be_bytes());
        let disk = Sparse {
            bytes,
            volume_bytes,
        };
        let journals = locate(&disk).journals.into_iter();
        journals
            .flat_map(|journal| journal.runs)
            .map(|run| run.bytes)
            .sum::<u64>()
    };
    let blocks = |bytes: u64| (bytes / 4096) as u32;
    assert_eq!(xfs(64 * GIB, blocks(2 * GIB)), 2 * GIB);
    assert_eq!(xfs(64 * GIB, blocks(4 * GIB)), 4 * GIB);
    assert_eq!(xfs(64 * GIB, blocks(4 * GIB) + 1), 0);
    assert_eq!(xfs(64 * GIB, u32::MAX), 0);
    assert_eq!(xfs(8 * GIB, blocks(2 * GIB)), 2 * GIB);
    assert_eq!(xfs(8 * GIB, blocks(2 * GIB) + 1), 0);
}

/// A disk that is mostly zeroes.
struct Sparse {
    bytes: Vec<u8>,
    volume_bytes: u64,
}

impl forebay::unstable::journal::Content for Sparse {
    fn size_bytes(&self) -> u64 {
        self.volume_bytes
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> bool {
        for (at, byte) in (offset..).zip(out) {
            *byte = self.bytes.get(at as usize).copied().unwrap_or(0);
        }
        true
    }
}
