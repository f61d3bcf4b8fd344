//! Write leases: the proof that no other program has an extent open or mapped.

#![allow(unsafe_code, reason = "std knows no leases")]

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::engine::Alone;
use crate::error::{Error, ErrorKind, Result};
use crate::medium::{Medium, Part};

const F_SETSIG: libc::c_int = 10;

/// What came of asking for a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lease {
    /// It is held: nobody else has the file open or mapped, and whoever opens it waits.
    Held,
    /// Somebody has it open or mapped.
    Refused,
    /// The file system has none, or not for this user: nothing is known.
    Unknown,
}

/// Asks for a write lease on an open file that was opened once.
pub(super) fn take(file: BorrowedFd<'_>) -> Lease {
    // A signal that does nothing by default, where the kernel's choice would end the process; the holder looks for itself.
    // SAFETY: plain system calls on a descriptor that is open.
    let done = unsafe {
        libc::fcntl(file.as_raw_fd(), F_SETSIG, libc::SIGURG);
        libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_WRLCK)
    };
    if done == 0 {
        return Lease::Held;
    }
    match io::Error::last_os_error().raw_os_error() {
        Some(libc::EAGAIN) => Lease::Refused,
        _ => Lease::Unknown,
    }
}

/// Asks for a write lease on a part; the open file that has it, if there can be any.
///
/// # Errors
/// A program has it open or mapped.
fn take_of(part: &Part) -> Result<Option<BorrowedFd<'_>>> {
    let file = part.region.descriptor();
    match file.map_or(Lease::Unknown, take) {
        Lease::Held => Ok(file),
        Lease::Unknown => Ok(None),
        Lease::Refused => Err(mapped(part)),
    }
}

fn mapped(part: &Part) -> Error {
    let path = part.path.clone();
    ErrorKind::Mapped { path }.into()
}

/// Whether nobody waits for it to be let go.
fn is_unbroken(file: BorrowedFd<'_>) -> bool {
    // SAFETY: a plain system call on a descriptor that is open.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLEASE) == libc::F_WRLCK }
}

/// Lets it go.
pub(super) fn release(file: BorrowedFd<'_>) {
    let file: RawFd = file.as_raw_fd();
    // SAFETY: a plain system call on a descriptor that is open.
    unsafe { libc::fcntl(file, libc::F_SETLEASE, libc::F_UNLCK) };
}

/// Leases on all data extents of a region, as far as there can be any.
pub(crate) struct Leases<'m> {
    medium: &'m Medium,
    held: Vec<usize>,
    are_kept: bool,
}

impl Drop for Leases<'_> {
    fn drop(&mut self) {
        if self.are_kept {
            return;
        }
        for &extent in &self.held {
            if let Some(file) = self.medium.parts[extent].region.descriptor() {
                release(file);
            }
        }
    }
}

impl<'m> Leases<'m> {
    /// Takes them.
    ///
    /// # Errors
    /// A program has an extent open or mapped.
    pub fn take(medium: &'m Medium) -> Result<Leases<'m>> {
        let mut leases = Leases {
            medium,
            held: Vec::new(),
            are_kept: false,
        };
        for extent in 0..medium.geometry.extents() {
            if take_of(&medium.parts[extent])?.is_some() {
                leases.held.push(extent);
            }
        }
        Ok(leases)
    }

    /// Descriptors of the same open files, not locked any more, which have the leases from now on; none where there are
    /// no leases.
    ///
    /// # Errors
    /// The system has no descriptors left.
    pub fn keep(&mut self) -> Result<Option<KeptLeases>> {
        if self.held.len() < self.medium.geometry.extents() {
            return Ok(None);
        }
        let mut files = Vec::new();
        for &extent in &self.held {
            let part = &self.medium.parts[extent];
            let file = part.region.descriptor().expect("it has a lease");
            let file = file.try_clone_to_owned();
            let failed = |error| Error::io("keep its lease", &part.path, error);
            let file = File::from(file.map_err(failed)?);
            file.unlock().map_err(failed)?;
            files.push((file, part.path.clone()));
        }
        self.are_kept = true;
        Ok(Some(KeptLeases(files)))
    }
}

/// Write leases on a region's data extents, which nobody else has open; let go when dropped.
#[derive(Debug)]
pub(crate) struct KeptLeases(Vec<(File, PathBuf)>);

impl KeptLeases {
    /// Whether somebody waits to open an extent.
    pub fn are_wanted(&self) -> bool {
        !self.0.iter().all(|(file, _)| is_unbroken(file.as_fd()))
    }

    /// Whether no other file took the place of an extent: its programs would be seen by no lease.
    pub fn are_in_place(&self) -> bool {
        self.0.iter().all(|(file, path)| is_at(file, path))
    }

    /// Lets the leases go; the places of the extents, unless another file took one.
    pub fn into_places(self) -> Option<Places> {
        let places = self.0.into_iter().map(|(leased, path)| {
            let mut options = File::options();
            let known = options.read(true).custom_flags(libc::O_PATH).open(&path);
            let known = known.ok()?;
            // Opened first: a file that came later is none of it.
            is_at(&leased, &path).then_some((known, path))
        });
        places.collect::<Option<_>>().map(Places)
    }
}

/// Extents that were under lease, by descriptors that open nothing: they keep an inode's number from another file.
#[derive(Debug)]
pub(crate) struct Places(Vec<(File, PathBuf)>);

impl Places {
    /// Whether the same files lie there still.
    pub fn are_kept(&self) -> bool {
        self.0.iter().all(|(file, path)| is_at(file, path))
    }
}

fn is_at(file: &File, path: &Path) -> bool {
    let found = file.metadata().and_then(|file| {
        let there = std::fs::symlink_metadata(path)?;
        Ok((file.dev(), file.ino()) == (there.dev(), there.ino()))
    });
    found.unwrap_or(false)
}

/// Whether nobody else has a part open or mapped now.
///
/// # Errors
/// Somebody has.
pub(super) fn check_alone(part: &Part) -> Result<()> {
    take_of(part)?.into_iter().for_each(release);
    Ok(())
}

impl Alone for Leases<'_> {
    fn check(&self) -> Result<()> {
        for &extent in &self.held {
            let part = &self.medium.parts[extent];
            if !part.region.descriptor().is_some_and(is_unbroken) {
                return Err(mapped(part));
            }
        }
        Ok(())
    }
}
