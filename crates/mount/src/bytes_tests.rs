//! What opening takes from a file, whatever the kernel knew of its name.

use std::fs::{self, Permissions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;

use forebay::{Pool, PoolOptions};
use forebay_files::{FileBuffer, FileBufferOptions};
use rustix::fs::XattrFlags;

use super::*;
use crate::shares::Shares;

const CAPABILITY: &str = "security.capability";

#[test]
fn a_create_that_finds_a_file_and_empties_it_takes_its_privileges() {
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("data");
    fs::create_dir(&data).unwrap();
    let pool = scratch.path().join("pool");
    let made = Pool::create(&PoolOptions::new(&pool, 16 << 20)).unwrap();
    made.close().unwrap();
    let buffer = FileBuffer::open(&FileBufferOptions::new(&pool).root(&data)).unwrap();
    let root = OwnedFd::from(fs::File::open(&data).unwrap());
    let shares = Shares::new(8, rustix::process::geteuid().as_raw());
    let tree = Tree::new(buffer.clone(), root, 8, shares).unwrap();

    let path = data.join("program");
    fs::write(&path, "a program").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o6755)).unwrap();
    // Version 2, and no capability in it.
    let mut value = [0; 20];
    value[3] = 2;
    let has_capability = rustix::fs::setxattr(&path, CAPABILITY, &value, XattrFlags::empty());
    let caller = Caller {
        user: 1234,
        group: 1234,
    };
    let flags = libc::O_RDWR | libc::O_TRUNC;
    let name = OsStr::new("program");
    let opened = tree.create(INodeNo::ROOT, name, 0o644, flags, caller);
    let (attributes, handle) = opened.unwrap();
    assert_eq!((attributes.size, attributes.perm), (0, 0o755));
    let found = fs::metadata(&path).unwrap();
    assert_eq!(
        (found.len(), found.permissions().mode() & 0o7777),
        (0, 0o755)
    );
    if has_capability.is_ok() {
        let left = rustix::fs::getxattr_query(&path, CAPABILITY);
        assert_eq!(left, Err(rustix::io::Errno::NODATA));
    }
    drop(tree.release(handle));
    drop(tree);
    buffer.close().unwrap();
}
