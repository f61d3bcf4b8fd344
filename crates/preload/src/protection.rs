//! The pool is mapped into the program, whose stray stores must not reach it: where the processor has
//! protection keys, the pool's pages can be touched by threads inside the library only.
//!
//! A thread's right is a register of its own, so there is no race between threads; the kernel takes the
//! right away for signal handlers. A thread inherits it from its creator: the pool's own are made
//! inside the library and keep it.

#![allow(unsafe_code, reason = "protection keys have no safe interface")]

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicI32, Ordering};

/// No key: nothing is protected.
const NONE: i32 = -1;

static KEY: AtomicI32 = AtomicI32::new(NONE);

/// Whether there is a key.
#[inline]
pub fn is_on() -> bool {
    KEY.load(Ordering::Relaxed) != NONE
}

/// Draws a key, before the pool is opened: the calling thread has the right, and so have the threads
/// that it makes. Without keys in the processor or the kernel nothing is protected.
pub fn draw_key() {
    if is_on() {
        return;
    }
    // SAFETY: it takes numbers: no flags, no restriction for this thread.
    let key = unsafe { libc::syscall(libc::SYS_pkey_alloc, 0, 0) };
    if key > 0 {
        KEY.store(key as i32, Ordering::Relaxed);
    }
}

/// Puts every page that this file is mapped to under the key, if there is one, and out of the sight of
/// forked children, which must not touch it.
///
/// # Errors
/// The mappings cannot be listed or changed.
pub fn protect(pool: &Path) -> io::Result<()> {
    let key = KEY.load(Ordering::Relaxed);
    let file = std::fs::metadata(pool)?;
    for line in std::fs::read_to_string("/proc/self/maps")?.lines() {
        let Some((start, len)) = mapping_of(line, file.dev(), file.ino()) else {
            continue;
        };
        // SAFETY: pages of the pool, which a child never uses; no byte of them changes.
        if unsafe { libc::madvise(start as *mut _, len, libc::MADV_DONTFORK) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the pages keep the access rights that they have; the calling thread and the pool's
        // have the key's.
        let protect =
            || unsafe { libc::syscall(libc::SYS_pkey_mprotect, start, len, protection, key) };
        if key != NONE && protect() != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Start and length of the mapping in a line of the kernel's list, if it is of this inode.
fn mapping_of(line: &str, device: u64, inode: u64) -> Option<(usize, usize)> {
    let mut fields = line.split_ascii_whitespace();
    let (range, _rights, _offset) = (fields.next()?, fields.next()?, fields.next()?);
    let (major, minor) = fields.next()?.split_once(':')?;
    let number = |text| u32::from_str_radix(text, 16).ok();
    if libc::makedev(number(major)?, number(minor)?) != device
        || fields.next()?.parse() != Ok(inode)
    {
        return None;
    }
    let (start, end) = range.split_once('-')?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    let (start, end) = (address(start)?, address(end)?);
    Some((start, end - start))
}

/// Gives this thread the right; it is inside the library now.
#[inline]
pub fn allow() {
    let key = KEY.load(Ordering::Relaxed);
    if key != NONE {
        keys::set_rights(keys::rights() & !(0b11 << (2 * key)));
    }
}

/// Takes the right from this thread: it may neither read nor write the pool.
#[inline]
pub fn deny() {
    let key = KEY.load(Ordering::Relaxed);
    if key != NONE {
        keys::set_rights(keys::rights() | 0b11 << (2 * key));
    }
}

#[cfg(target_arch = "x86_64")]
mod keys {
    use std::arch::asm;

    /// The rights of this thread: two bits a key.
    #[inline]
    pub fn rights() -> u32 {
        let rights;
        // SAFETY: reads a register; only called with a key, so the processor and the kernel have it.
        unsafe {
            asm!("rdpkru", out("eax") rights, out("edx") _, in("ecx") 0, options(nomem, nostack))
        };
        rights
    }

    /// No access moves across it: the memory that it concerns is the pool's.
    #[inline]
    pub fn set_rights(rights: u32) {
        // SAFETY: writes a register; only called with a key, so the processor and the kernel have
        // it. Only our key's bits change.
        unsafe { asm!("wrpkru", in("eax") rights, in("ecx") 0, in("edx") 0, options(nostack)) };
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod keys {
    pub fn rights() -> u32 {
        0
    }

    pub fn set_rights(_rights: u32) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_are_found_by_their_inode() {
        let line = "7f00-8f00 rw-s 00000000 00:19 4711      /dev/shm/a pool";
        let device = libc::makedev(0, 0x19);
        assert_eq!(mapping_of(line, device, 4711), Some((0x7f00, 0x1000)));
        assert_eq!(mapping_of(line, device, 4712), None);
        assert_eq!(mapping_of(line, device + 1, 4711), None);
        assert_eq!(
            mapping_of("7f00-8f00 rw-p 00000000 00:00 0 ", device, 4711),
            None
        );
    }
}
