//! What opening takes from a file, whatever the kernel knew of its name.

use std::fs::{self, Permissions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use forebay::{Pool, PoolOptions};
use forebay_files::{FileBuffer, FileBufferOptions};
use rustix::fs::{OFlags, Uid, XattrFlags};

use super::*;
use crate::shares::Shares;
use crate::tree::{CAPABILITY, Change, REOPENED};

/// A tree over `data`, where there is a program with set-id bits, and its pool.
fn tree_with_a_program(scratch: &std::path::Path, mode: u32) -> (Arc<FileBuffer>, Tree, PathBuf) {
    let data = scratch.join("data");
    fs::create_dir(&data).unwrap();
    let pool = scratch.join("pool");
    let made = Pool::create(&PoolOptions::new(&pool, 16 << 20)).unwrap();
    made.close().unwrap();
    let buffer = FileBuffer::open(&FileBufferOptions::new(&pool).root(&data)).unwrap();
    let root = OwnedFd::from(fs::File::open(&data).unwrap());
    let shares = Shares::new(8, rustix::process::geteuid().as_raw());
    let tree = Tree::new(buffer.clone(), root, 8, shares).unwrap();
    let path = data.join("program");
    fs::write(&path, "a program").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    (buffer, tree, path)
}

#[test]
fn what_an_earlier_try_took_and_could_not_sync_is_synced_before_the_next_write() {
    let scratch = tempfile::tempdir().unwrap();
    // The bits are gone already.
    let (buffer, tree, _) = tree_with_a_program(scratch.path(), 0o755);
    let found = tree.look_up(INodeNo::ROOT, OsStr::new("program")).unwrap();
    let inode = tree.inodes.get(found.ino).unwrap();
    let file = tree.buffered(&inode, OFlags::RDWR).unwrap();
    buffer.attributes_changed(inode.identity);
    assert!(buffer.awaits_backing(inode.identity));
    tree.drop_privileges(&inode, 1234).unwrap();
    assert!(!buffer.awaits_backing(inode.identity));
    drop((file, inode, tree));
    buffer.close().unwrap();
}

/// A write that the kernel has gathered, and which comes without its writer.
const GATHERED: Writer = Writer {
    caller: None,
    drops_privileges_of: None,
};

#[test]
fn set_id_bits_that_a_chown_takes_are_gone_durably_before_the_next_bytes() {
    let scratch = tempfile::tempdir().unwrap();
    let (buffer, tree, path) = tree_with_a_program(scratch.path(), 0o4755);
    let found = tree.look_up(INodeNo::ROOT, OsStr::new("program")).unwrap();
    let root = Caller { user: 0, group: 0 };
    let handle = tree.open(found.ino, libc::O_RDWR, root).unwrap();
    // Root's, which leaves the bits, and settles that there is no capability.
    tree.write(handle, 0, b"the", false, GATHERED).unwrap();
    let identity = tree.inodes.get(found.ino).unwrap().identity;
    let given = Change {
        user: Some(rustix::process::geteuid().as_raw()),
        ..Change::default()
    };
    let given = tree.change(found.ino, None, &given, 0).unwrap();
    assert_eq!(given.perm, 0o755);
    assert!(buffer.awaits_backing(identity), "it is not recorded");
    // The kernel sees no bits that a write would take.
    tree.write(handle, 0, b"new", false, GATHERED).unwrap();
    assert!(!buffer.awaits_backing(identity), "it is durable");
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o7777,
        0o755
    );
    drop(tree.release(handle));
    drop(tree);
    buffer.close().unwrap();
}

#[test]
fn a_file_that_is_open_nowhere_loses_its_privileges_where_nothing_is_recorded() {
    let scratch = tempfile::tempdir().unwrap();
    let (buffer, tree, path) = tree_with_a_program(scratch.path(), 0o4555);
    let found = tree.look_up(INodeNo::ROOT, OsStr::new("program")).unwrap();
    let inode = tree.inodes.get(found.ino).unwrap();
    // From now on changes are not recorded.
    buffer.close().unwrap();
    let user = 1234;
    rustix::fs::chown(&path, Some(Uid::from_raw(user)), None).ok();
    fs::set_permissions(&path, Permissions::from_mode(0o4555)).unwrap();
    if rustix::process::geteuid().is_root() {
        // As a daemon of that user, which may not open it to write.
        let directory = path.parent().unwrap();
        fs::set_permissions(scratch.path(), Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(directory, Permissions::from_mode(0o755)).unwrap();
        nix::unistd::setfsuid(nix::unistd::Uid::from_raw(user));
    }
    let dropped = tree.drop_privileges(&inode, user);
    nix::unistd::setfsuid(nix::unistd::geteuid());
    dropped.unwrap();
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o555);
    drop((inode, tree));
}

#[test]
fn a_create_that_finds_a_file_and_empties_it_takes_its_privileges() {
    let scratch = tempfile::tempdir().unwrap();
    let (buffer, tree, path) = tree_with_a_program(scratch.path(), 0o6755);
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

/// How often `work` opened an inode of the backing again.
fn reopened<T>(work: impl FnOnce() -> T) -> (u64, T) {
    let before = REOPENED.get();
    let done = work();
    (REOPENED.get() - before, done)
}

#[test]
fn a_file_that_was_known_was_opened_again_to_be_read() {
    let scratch = tempfile::tempdir().unwrap();
    let (buffer, tree, path) = tree_with_a_program(scratch.path(), 0o755);
    let root = Caller { user: 0, group: 0 };
    let id = tree.look_up(INodeNo::ROOT, OsStr::new("program")).unwrap();
    let open = |flags| reopened(|| tree.open(id.ino, flags, root).unwrap());
    let (first, reader) = open(libc::O_RDONLY);
    let (again, other) = open(libc::O_RDONLY);
    // Its descriptor does not write.
    let (to_write, writer) = open(libc::O_RDWR);
    assert_eq!([first, again, to_write], [1, 0, 1]);
    tree.write(writer, 0, b"THE", false, GATHERED).unwrap();
    tree.sync(writer, SyncKind::Data).unwrap();
    for handle in [reader, other] {
        let mut found = [0; 9];
        assert_eq!(tree.read_into(handle, 0, &mut found).unwrap(), 9);
        assert_eq!(&found, b"THErogram");
    }
    for handle in [reader, other, writer] {
        drop(tree.release(handle));
    }
    // Closed, and in the pool.
    let (later, reader) = open(libc::O_RDONLY);
    assert_eq!(later, 0);
    // Another file of the name is another inode.
    fs::rename(&path, path.with_extension("old")).unwrap();
    fs::write(&path, "newer").unwrap();
    let new = tree.look_up(INodeNo::ROOT, OsStr::new("program")).unwrap();
    let (opened, newer) = reopened(|| tree.open(new.ino, libc::O_RDONLY, root).unwrap());
    assert_eq!(opened, 1);
    let mut found = [0; 5];
    assert_eq!(tree.read_into(newer, 0, &mut found).unwrap(), 5);
    assert_eq!(&found, b"newer");
    for handle in [reader, newer] {
        drop(tree.release(handle));
    }
    drop(tree);
    buffer.close().unwrap();
}

#[test]
fn a_file_that_was_just_made_was_searched_for_privileges() {
    let scratch = tempfile::tempdir().unwrap();
    let (buffer, tree, _) = tree_with_a_program(scratch.path(), 0o4755);
    let user = rustix::process::geteuid().as_raw();
    let caller = Caller { user, group: user };
    let flags = libc::O_RDWR | libc::O_CREAT;
    // What the first write of each looks for: a capability, set-id bits.
    let searched = |name: &str, mode| {
        let made = tree.create(INodeNo::ROOT, OsStr::new(name), mode, flags, caller);
        let (found, handle) = made.unwrap();
        let inode = tree.inodes.get(found.ino).unwrap();
        let is_searched = [&inode.may_have_capability, &inode.may_have_privileges].map(|of| {
            let mut is_searched = false;
            of.settle(|| {
                is_searched = true;
                Ok(())
            })
            .unwrap();
            is_searched
        });
        drop(tree.release(handle));
        is_searched
    };
    assert_eq!(searched("new", 0o644), [false, false]);
    assert_eq!(searched("new-with-bits", 0o4755), [false, true]);
    assert_eq!(searched("program", 0o644), [true, true], "it was there");
    drop(tree);
    buffer.close().unwrap();
}
