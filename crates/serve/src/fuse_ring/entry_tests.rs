//! What the kernel puts into an entry, whole and damaged.

use std::fs::File;
use std::os::fd::AsFd;

use proptest::prelude::*;

use super::*;

const PAYLOAD_BYTES: usize = 8192;

/// An entry that no kernel has, or `None` (said aloud) where there is no io_uring.
fn entry(test: &str) -> Option<Entry> {
    let device = File::open("/dev/null").unwrap();
    match Entry::new(device.as_fd(), 3, PAYLOAD_BYTES) {
        Ok(entry) => Some(entry),
        Err(error) => {
            eprintln!("skipped {test}: io_uring: {error}");
            None
        }
    }
}

#[test]
fn a_request_is_read_where_the_kernel_puts_it() {
    let Some(mut entry) = entry("a_request_is_read_where_the_kernel_puts_it") else {
        return;
    };
    let memory = entry.memory.bytes();
    let header = [
        &56u32.to_ne_bytes()[..],
        &16u32.to_ne_bytes(),
        &77u64.to_ne_bytes(),
        &5u64.to_ne_bytes(),
        &1000u32.to_ne_bytes(),
        &100u32.to_ne_bytes(),
    ]
    .concat();
    memory[..header.len()].copy_from_slice(&header);
    memory[128..136].copy_from_slice(&9u64.to_ne_bytes());
    memory[264..272].copy_from_slice(&77u64.to_ne_bytes());
    memory[272..276].copy_from_slice(&3u32.to_ne_bytes());
    memory[4096..4099].copy_from_slice(b"abc");
    let mut request = entry.request().unwrap();
    assert_eq!((request.opcode, request.inode), (16, 5));
    assert_eq!((request.user, request.group), (1000, 100));
    assert_eq!(request.arguments.u64().unwrap(), 9);
    assert_eq!(&request.payload[..request.given], b"abc");
    entry.answer(Err(libc::ENOENT));
    let mut header = Fields::new(entry.memory.bytes());
    assert_eq!(header.u32().unwrap(), 16);
    assert_eq!(header.i32().unwrap(), -libc::ENOENT);
    assert_eq!(header.u64().unwrap(), 77, "the request's number");
    let payload_bytes = Fields::new(&entry.memory.bytes()[272..]).u32().unwrap();
    assert_eq!(payload_bytes, 0);
}

#[test]
fn what_is_no_fuse_device_takes_no_entry() {
    let Some(mut entry) = entry("what_is_no_fuse_device_takes_no_entry") else {
        return;
    };
    // The descriptor is closed, or another test's by now: no FUSE device either way.
    assert!(entry.register().is_err());
}

proptest! {
    /// A length that does not fit is an error.
    #[test]
    fn damaged_headers_are_errors(bytes in proptest::collection::vec(any::<u8>(), HEADERS_BYTES)) {
        let Some(mut entry) = entry("damaged_headers_are_errors") else {
            return Ok(());
        };
        entry.memory.bytes()[..HEADERS_BYTES].copy_from_slice(&bytes);
        if let Ok(request) = entry.request() {
            prop_assert!(request.given <= request.payload.len());
        }
        entry.answer(Ok(0));
    }
}
