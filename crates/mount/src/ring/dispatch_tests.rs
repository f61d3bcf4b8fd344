//! Requests of any kind with anything in them, against a tree that no kernel knows.

use std::fs;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use forebay::{Pool, PoolOptions};
use forebay_files::{FileBuffer, FileBufferOptions};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::*;
use crate::opening::Opening;
use crate::shares::Shares;
use crate::tree::Tree;

const PAYLOAD_BYTES: usize = 16 << 10;

/// A tree of its own.
struct Place {
    _scratch: tempfile::TempDir,
    buffer: Arc<FileBuffer>,
    operations: Operations,
}

impl Place {
    fn new() -> Place {
        let scratch = tempfile::tempdir().unwrap();
        let data = scratch.path().join("data");
        fs::create_dir(&data).unwrap();
        let pool = scratch.path().join("pool");
        let made = Pool::create(&PoolOptions::new(&pool, 16 << 20)).unwrap();
        made.close().unwrap();
        let buffer = FileBuffer::open(&FileBufferOptions::new(&pool).root(&data)).unwrap();
        let root = OwnedFd::from(fs::File::open(&data).unwrap());
        let shares = Shares::new(8, rustix::process::geteuid().as_raw());
        Place {
            _scratch: scratch,
            operations: Operations {
                tree: Tree::new(Arc::clone(&buffer), root, 8, shares).unwrap(),
                opening: Opening::default(),
                has_writeback_cache: false,
                belief: crate::options::BELIEF,
            },
            buffer,
        }
    }

    fn end(self) {
        drop(self.operations);
        self.buffer.close().unwrap();
    }

    /// The answer's bytes.
    fn ask(&self, opcode: u32, inode: u64, arguments: &[u8], given: &[u8]) -> Result<Vec<u8>, i32> {
        let mut payload = vec![0; PAYLOAD_BYTES];
        payload[..given.len()].copy_from_slice(given);
        let request = Request {
            opcode,
            inode,
            user: rustix::process::geteuid().as_raw(),
            group: rustix::process::getegid().as_raw(),
            arguments: Fields::new(arguments),
            given: given.len(),
            payload: &mut payload,
        };
        match answer(&self.operations, request) {
            Ok(length) => {
                payload.truncate(length);
                Ok(payload)
            }
            Err(error) => Err(error.raw_os_error().unwrap_or(libc::EIO)),
        }
    }
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn two(low: u32, high: u32) -> u64 {
    u64::from_ne_bytes(
        [low.to_ne_bytes(), high.to_ne_bytes()]
            .concat()
            .try_into()
            .unwrap(),
    )
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap())
}

#[test]
fn a_file_is_made_written_synced_read_and_removed() {
    let place = Place::new();
    let flags = libc::O_RDWR as u32;
    let made = place.ask(
        opcode::CREATE,
        1,
        &words(&[two(flags, 0o644), two(0o22, 0)]),
        b"file\0",
    );
    let made = made.unwrap();
    let (inode, handle) = (u64_at(&made, 0), u64_at(&made, 128));
    let to = words(&[handle, 0, two(5, 0), 0, two(flags, 0)]);
    let written = place.ask(opcode::WRITE, inode, &to, b"bytes").unwrap();
    assert_eq!(u64_at(&written, 0), 5);
    let sync = words(&[handle, two(DATA_ONLY, 0)]);
    assert_eq!(place.ask(opcode::FSYNC, inode, &sync, b""), Ok(vec![]));
    let from = words(&[handle, 1, two(100, 0), 0, 0]);
    assert_eq!(place.ask(opcode::READ, inode, &from, b"").unwrap(), b"ytes");
    let more = words(&[handle, 0, two(u32::MAX, 0), 0, 0]);
    assert_eq!(
        place.ask(opcode::READ, inode, &more, b""),
        Err(libc::EINVAL)
    );
    let longer = words(&[handle, 0, two(6, 0), 0, 0]);
    let refused = place.ask(opcode::WRITE, inode, &longer, b"bytes");
    assert_eq!(refused, Err(libc::EINVAL), "it says more than it has");
    assert_eq!(
        place.ask(opcode::RELEASE, inode, &words(&[handle]), b""),
        Ok(vec![])
    );
    assert_eq!(place.ask(opcode::UNLINK, 1, b"", b"file\0"), Ok(vec![]));
    let nothing = place.ask(opcode::LOOKUP, 1, b"", b"file\0").unwrap();
    assert_eq!(u64_at(&nothing, 0), 0, "no such name is an answer");
    place.end();
}

/// Small numbers, which may mean something, and the largest.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0..5u64,
        1 => Just(4096),
        1 => Just(i64::MAX as u64),
        1 => Just(u64::MAX),
    ]
}

/// Names and ends of names, with neither a dot nor a device behind them.
fn payload() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![3 => Just(b'a'), 1 => Just(b'b'), 2 => Just(0), 1 => Just(b'/'), 1 => Just(0xff)];
    proptest::collection::vec(byte, 0..12)
}

#[test]
fn requests_with_anything_in_them_are_answered_and_the_tree_serves_on() {
    let place = Place::new();
    let config = Config::with_cases(4096);
    let request = (
        0..56u32,
        0..4usize,
        proptest::collection::vec(number(), 0..12),
        payload(),
    );
    let known = std::cell::RefCell::new(vec![1]);
    let outcome = TestRunner::new(config).run(&request, |(code, which, mut fields, given)| {
        if code == opcode::MKNOD {
            // A plain file; not a device of this machine's.
            fields = vec![two(libc::S_IFREG | 0o600, 0), 0];
        }
        let inode = known.borrow().get(which).copied().unwrap_or(99);
        match place.ask(code, inode, &words(&fields), &given) {
            Ok(answer) => {
                prop_assert!(answer.len() <= PAYLOAD_BYTES);
                let is_made = matches!(code, opcode::LOOKUP | opcode::MKDIR | opcode::MKNOD);
                if is_made && known.borrow().len() < 4 && u64_at(&answer, 0) != 0 {
                    known.borrow_mut().push(u64_at(&answer, 0));
                }
            }
            Err(number) => prop_assert!(number > 0),
        }
        Ok(())
    });
    outcome.unwrap();
    assert!(place.ask(opcode::STATFS, 1, b"", b"").is_ok());
    place.end();
}
