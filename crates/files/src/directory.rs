//! Directories: names are made, changed and removed here.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::buffer::FileBuffer;
use crate::file::{BufferedFile, Suspension};
use crate::identity::FileIdentity;
use crate::names::Renaming;
use crate::observe;

/// What [`Directory::open`] returns.
#[derive(Debug)]
pub struct Opened {
    /// The descriptor, with the flags asked for.
    pub descriptor: OwnedFd,
    /// Whether the call made the file.
    pub created: bool,
}

/// An open directory in which names change. Every change is made in the backing and recorded. Over a pool in memory it survives a
/// crash when the call returns; over one on an SSD so do removals and renames, and all before them, and a name that was added when a
/// sync returns, of the directory or of any file.
#[derive(Debug)]
pub struct Directory {
    buffer: Arc<FileBuffer>,
    descriptor: Arc<OwnedFd>,
}

impl FileBuffer {
    /// A directory in which names are to be changed. `descriptor` may be `O_PATH`.
    ///
    /// # Errors
    /// It is no directory, or outside the buffer's root.
    pub fn directory(self: &Arc<Self>, descriptor: OwnedFd) -> io::Result<Directory> {
        Directory::new(self, descriptor)
    }
}

impl Directory {
    fn new(buffer: &Arc<FileBuffer>, descriptor: OwnedFd) -> io::Result<Directory> {
        Ok(Directory {
            buffer: Arc::clone(buffer),
            descriptor: Arc::new(descriptor),
        })
    }

    /// The backing's directory.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// Makes a name by `make`, and records it.
    fn create<T>(&self, name: &OsStr, make: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        self.buffer.names().create(&self.descriptor, name, make)
    }

    /// `openat`; a file that `O_CREAT` makes is recorded. `O_TRUNC` is for the caller to carry out with
    /// [`crate::BufferedFile::truncate`] and is refused.
    ///
    /// # Errors
    /// `openat`'s, `EINVAL` with `O_TRUNC`.
    pub fn open(&self, name: &OsStr, flags: OFlags, mode: Mode) -> io::Result<Opened> {
        if flags.contains(OFlags::TRUNC) {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let open = |flags| rustix::fs::openat(&self.descriptor, name, flags, mode);
        if !flags.contains(OFlags::CREATE) {
            return Ok(Opened {
                descriptor: open(flags)?,
                created: false,
            });
        }
        loop {
            if !flags.contains(OFlags::EXCL) {
                match open(flags.difference(OFlags::CREATE)) {
                    Ok(descriptor) => {
                        return Ok(Opened {
                            descriptor,
                            created: false,
                        });
                    }
                    Err(Errno::NOENT) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            let make = || Ok(open(flags | OFlags::EXCL)?);
            match self.create(name, make) {
                Ok(descriptor) => {
                    return Ok(Opened {
                        descriptor,
                        created: true,
                    });
                }
                Err(error) if error.raw_os_error() == Some(libc::EEXIST) => {
                    if flags.contains(OFlags::EXCL) {
                        return Err(error);
                    }
                    if let Some((directory, name)) = self.dangling(name)? {
                        return directory.open(&name, flags, mode);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Where a symbolic link leads that leads to nothing yet: what is to be made there is a name in
    /// another directory.
    fn dangling(&self, name: &OsStr) -> io::Result<Option<(Directory, OsString)>> {
        let target = match rustix::fs::readlinkat(&self.descriptor, name, Vec::new()) {
            Ok(target) => PathBuf::from(OsString::from_vec(target.into_bytes())),
            // It is another kind by now, or gone.
            Err(Errno::INVAL | Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let Some(last) = target.file_name() else {
            return Err(Errno::ISDIR.into());
        };
        let parent = match target.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let parent = rustix::fs::openat(&self.descriptor, parent, flags, Mode::empty())?;
        Ok(Some((
            Directory::new(&self.buffer, parent)?,
            last.to_os_string(),
        )))
    }

    /// `mkdirat`.
    ///
    /// # Errors
    /// `mkdirat`'s.
    pub fn make_directory(&self, name: &OsStr, mode: Mode) -> io::Result<()> {
        self.create(name, || {
            Ok(rustix::fs::mkdirat(&self.descriptor, name, mode)?)
        })
    }

    /// `mknodat`: fifos, sockets and devices.
    ///
    /// # Errors
    /// `mknodat`'s.
    pub fn make_node(
        &self,
        name: &OsStr,
        kind: FileType,
        mode: Mode,
        device: u64,
    ) -> io::Result<()> {
        let make = || rustix::fs::mknodat(&self.descriptor, name, kind, mode, device);
        self.create(name, || Ok(make()?))
    }

    /// `symlinkat`.
    ///
    /// # Errors
    /// `symlinkat`'s.
    pub fn make_symbolic_link(&self, name: &OsStr, target: &OsStr) -> io::Result<()> {
        self.create(name, || {
            Ok(rustix::fs::symlinkat(target, &self.descriptor, name)?)
        })
    }

    /// `linkat` of a name; a symbolic link is linked itself, not followed.
    ///
    /// # Errors
    /// `linkat`'s.
    pub fn link(&self, from: &Directory, from_name: &OsStr, name: &OsStr) -> io::Result<()> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let inode = rustix::fs::openat(&from.descriptor, from_name, flags, Mode::empty())?;
        self.link_inode(Arc::new(inode), name, || {
            let flags = AtFlags::empty();
            let from = &from.descriptor;
            Ok(rustix::fs::linkat(
                from,
                from_name,
                &self.descriptor,
                name,
                flags,
            )?)
        })
    }

    /// `linkat` of an open inode, which may be `O_PATH`: for callers that know inodes, not names.
    ///
    /// # Errors
    /// `linkat`'s; `ENOENT` where the inode has no name any more.
    pub fn link_open(&self, inode: impl AsFd, name: &OsStr) -> io::Result<()> {
        // AT_EMPTY_PATH would need a capability.
        let path = format!("/proc/self/fd/{}", inode.as_fd().as_raw_fd());
        let held = inode.as_fd().try_clone_to_owned()?;
        self.link_inode(Arc::new(held), name, || {
            let flags = AtFlags::SYMLINK_FOLLOW;
            let from = rustix::fs::CWD;
            Ok(rustix::fs::linkat(
                from,
                path,
                &self.descriptor,
                name,
                flags,
            )?)
        })
    }

    fn link_inode(
        &self,
        inode: Arc<OwnedFd>,
        name: &OsStr,
        perform: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        let names = self.buffer.names();
        names.link(&inode, &self.descriptor, name, perform)
    }

    /// `unlinkat` of anything but a directory.
    ///
    /// # Errors
    /// `unlinkat`'s.
    pub fn unlink(&self, name: &OsStr) -> io::Result<()> {
        let victim = self.victim(name)?;
        self.buffer.names().remove(&self.descriptor, name, false)?;
        victim.removed();
        Ok(())
    }

    /// `rmdir`.
    ///
    /// # Errors
    /// `unlinkat`'s.
    pub fn remove_directory(&self, name: &OsStr) -> io::Result<()> {
        self.buffer.names().remove(&self.descriptor, name, true)
    }

    /// `renameat2`; whiteouts are refused.
    ///
    /// # Errors
    /// `renameat2`'s.
    pub fn rename(
        &self,
        name: &OsStr,
        to: &Directory,
        to_name: &OsStr,
        flags: RenameFlags,
    ) -> io::Result<()> {
        let how = match flags {
            RenameFlags::NOREPLACE => Renaming::NoReplace,
            RenameFlags::EXCHANGE => Renaming::Exchange,
            flags if flags.is_empty() => Renaming::Replace,
            _ => return Err(Errno::INVAL.into()),
        };
        let victim = match how {
            Renaming::Replace => to.victim(to_name)?,
            _ => Victim::default(),
        };
        if victim.last.is_some() {
            self.save(name)?;
        }
        let (from, new) = (&self.descriptor, &to.descriptor);
        let names = self.buffer.names();
        names.rename((from, name), (new, to_name), how)?;
        victim.removed();
        Ok(())
    }

    /// The file that has a name which is about to go.
    fn victim(&self, name: &OsStr) -> io::Result<Victim> {
        let Some(stat) = self.file(name) else {
            return Ok(Victim::default());
        };
        let Some(file) = self.buffer.known(identity_of(&stat)) else {
            return Ok(Victim::default());
        };
        if stat.st_nlink > 1 {
            let known = self.buffer.names().knows_another(&self.descriptor, name);
            if known.is_ok_and(|known| known) {
                return Ok(Victim::default());
            }
            // It stays under a name by which recovery would not find it: its data goes where it
            // needs no name, and stays there until the name is gone.
            return Ok(Victim {
                lent: Some(file.suspend_meanwhile()?),
                last: None,
            });
        }
        Ok(Victim {
            last: Some(file),
            lent: None,
        })
    }

    /// What replaces another file is durable before that is gone: many programs rely on it. The record of the rename, which is durable
    /// before it is done, makes all durable that the pool has.
    fn save(&self, name: &OsStr) -> io::Result<()> {
        let known = self.file(name);
        match known.and_then(|stat| self.buffer.known(identity_of(&stat))) {
            Some(file) => file.sync_past_pool(),
            None => Ok(()),
        }
    }

    fn file(&self, name: &OsStr) -> Option<rustix::fs::Stat> {
        let stat = rustix::fs::statat(&self.descriptor, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        (FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile).then_some(stat)
    }

    /// `fsync` of the directory: every change of its names and attributes so far survives a crash. Names
    /// are recorded before their calls return while the buffer is open.
    ///
    /// # Errors
    /// The backing's own, or the pool's.
    pub fn sync(&self) -> io::Result<()> {
        let identity = FileIdentity::of(&*self.descriptor)?;
        let unsynced = self.buffer.registry().unsynced(identity);
        if unsynced.is_none() && !self.buffer.names().is_over() {
            return self.buffer.sync_names();
        }
        // An O_PATH descriptor cannot be synced.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let readable = rustix::fs::openat(&self.descriptor, ".", flags, Mode::empty())?;
        let sync = || observe::sync_all(&readable);
        self.buffer.settle(identity, &sync)?;
        if let Some(change) = unsynced {
            self.buffer.registry().synced(identity, change);
        }
        self.buffer.sync_names()
    }
}

/// A file that is about to lose its last name, if the buffer knows it.
#[derive(Default)]
struct Victim {
    /// This is its last name.
    last: Option<Arc<BufferedFile>>,
    /// It has others.
    #[expect(dead_code, reason = "it ends with the operation")]
    lent: Option<Suspension>,
}

impl Victim {
    fn removed(self) {
        // Another process may have given it another name meanwhile, or it was its own victim.
        if let Some(file) = self.last
            && rustix::fs::fstat(&*file.backing()).is_ok_and(|stat| stat.st_nlink == 0)
        {
            file.unlinked();
        }
    }
}

fn identity_of(stat: &rustix::fs::Stat) -> FileIdentity {
    FileIdentity {
        device: stat.st_dev,
        inode: stat.st_ino,
    }
}
