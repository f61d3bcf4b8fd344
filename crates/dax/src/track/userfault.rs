//! Asynchronous write protection by userfaultfd (Linux 6.7; Documentation/admin-guide/mm/userfaultfd.rst): the kernel
//! itself lifts the protection from a page that is stored to, and no thread has to answer.
#![allow(
    unsafe_code,
    reason = "system calls and ioctls are the system's own interface"
)]

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::span::Span;

/// `struct uffdio_api` of linux/userfaultfd.h.
#[repr(C)]
struct Api {
    api: u64,
    features: u64,
    ioctls: u64,
}

/// `struct uffdio_register` of linux/userfaultfd.h.
#[repr(C)]
struct Register {
    start: u64,
    len: u64,
    mode: u64,
    ioctls: u64,
}

const _: () = assert!(size_of::<Api>() == 24);
const _: () = assert!(size_of::<Register>() == 32);

const UFFD_API: u64 = 0xaa;
const UFFDIO_API: u64 = libc::_IOWR::<Api>(0xaa, 0x3f) as u64;
const UFFDIO_REGISTER: u64 = libc::_IOWR::<Register>(0xaa, 0x00) as u64;
const UFFDIO_REGISTER_MODE_WP: u64 = 1 << 1;
const UFFD_FEATURE_WP_HUGETLBFS_SHMEM: u64 = 1 << 12;
const UFFD_FEATURE_WP_UNPOPULATED: u64 = 1 << 13;
const UFFD_FEATURE_WP_ASYNC: u64 = 1 << 15;

const UFFD_FEATURE_EVENT_REMAP: u64 = 1 << 2;
const UFFDIO_REGISTER_MODE_MISSING: u64 = 1 << 0;
const UFFDIO_WAKE: u64 = 0x8010_aa02;
const _: () = assert!(UFFDIO_WAKE == libc::_IOR::<[u64; 2]>(0xaa, 0x02) as u64);

/// Faults of the kernel's own are not handed out, so that a process without privileges may have one.
const UFFD_USER_MODE_ONLY: i32 = 1;

/// A mapping under asynchronous write protection, as long as it is kept (by an `exec` it ends). Any kind of mapping can
/// be: since the kernel itself answers, it asks of the file system nothing that page-cached files lack.
#[derive(Debug)]
pub(crate) struct Userfault {
    fd: OwnedFd,
}

impl Userfault {
    /// Registers the mapping. Each of its pages counts as written until it is protected.
    pub(crate) fn register(span: &Span) -> io::Result<Userfault> {
        let userfault = Userfault::open(UFFD_USER_MODE_ONLY, 0)?;
        userfault.add_span(span)?;
        Ok(userfault)
    }

    /// The same, and pages of it can be moved and keep their protection, if a thread reads the events; system calls
    /// that meet a missing page wait. It needs CAP_SYS_PTRACE, or the sysctl vm.unprivileged_userfaultfd.
    pub(super) fn register_movable(span: &Span) -> io::Result<Userfault> {
        let userfault = Userfault::open(0, UFFD_FEATURE_EVENT_REMAP)?;
        userfault.add_span(span)?;
        Ok(userfault)
    }

    fn open(flags: i32, features: u64) -> io::Result<Userfault> {
        let flags = libc::O_CLOEXEC | libc::O_NONBLOCK | flags;
        // SAFETY: a plain system call.
        let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, flags) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and nobody else's.
        let fd = unsafe { OwnedFd::from_raw_fd(fd as i32) };
        let mut api = Api {
            api: UFFD_API,
            features: UFFD_FEATURE_WP_ASYNC
                | UFFD_FEATURE_WP_UNPOPULATED
                | UFFD_FEATURE_WP_HUGETLBFS_SHMEM
                | features,
            ioctls: 0,
        };
        // SAFETY: the argument is as the kernel lays it out. The kernel refuses features that it has not.
        if unsafe { libc::ioctl(fd.as_raw_fd(), UFFDIO_API as _, &mut api) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Userfault { fd })
    }

    /// Threads that access pages of the range that are not there wait. Nothing may be mapped there but private memory
    /// of no file.
    pub(super) fn add_missing(&self, addresses: &Range<u64>) -> io::Result<()> {
        self.add(addresses, UFFDIO_REGISTER_MODE_MISSING)
    }

    /// Puts the mapping under write protection that the kernel lifts.
    fn add_span(&self, span: &Span) -> io::Result<()> {
        // As the sources of Linux 6.18 read (wp_huge_pmd, insert_pmd), a store to a huge page of a DAX file makes all of it
        // writable and leaves the mark of protection on it: later stores would go unseen. So none is mapped; where the
        // kernel knows no huge pages it refuses, and there are none.
        let _ = span.advise(libc::MADV_NOHUGEPAGE);
        if span.is_dax() {
            // A mark where no page is yet stands in the way of the DAX fault handler, which expects nothing there.
            span.advise(libc::MADV_POPULATE_READ)?;
        }
        self.add(&span.addresses(), UFFDIO_REGISTER_MODE_WP)
    }

    fn add(&self, addresses: &Range<u64>, mode: u64) -> io::Result<()> {
        let mut register = Register {
            start: addresses.start,
            len: addresses.end - addresses.start,
            mode,
            ioctls: 0,
        };
        // SAFETY: the argument is as the kernel lays it out; what is registered is the caller's.
        match unsafe { libc::ioctl(self.fd.as_raw_fd(), UFFDIO_REGISTER as _, &mut register) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Threads that wait for pages of the range try again.
    pub(super) fn wake(&self, addresses: &Range<u64>) {
        let mut range = [addresses.start, addresses.end - addresses.start];
        // SAFETY: the argument is as the kernel lays it out (`struct uffdio_range`).
        unsafe { libc::ioctl(self.fd.as_raw_fd(), UFFDIO_WAKE as _, &mut range) };
    }

    /// A second descriptor of it, whose owner reads the events.
    pub(super) fn descriptor(&self) -> io::Result<OwnedFd> {
        self.fd.try_clone()
    }
}
