//! A daemon's memory goes back to the system when its requests are done.
//!
//! glibc's allocator raises the size from which it maps memory by itself when such memory is freed, up
//! to 32 MiB, and then keeps what each of a hundred threads once needed for a large request.

#![allow(
    unsafe_code,
    reason = "the allocator's settings are the C library's, and it alone clears memory for nothing"
)]

/// Buffers from this size on are mapped, and unmapped when freed.
#[cfg(target_env = "gnu")]
const MAPPED_BYTES_MIN: libc::c_int = 256 << 10;

/// So many zero bytes of fresh memory, which come cleared; `None` where there is no memory. Whatever is as
/// large as a client says is made here, so that the client is refused and the process goes on.
pub fn zeroed(bytes: usize) -> Option<Vec<u8>> {
    let Ok(layout) = std::alloc::Layout::array::<u8>(bytes) else {
        return None;
    };
    if bytes == 0 {
        return Some(Vec::new());
    }
    // SAFETY: the layout has a size that is not zero.
    let start = unsafe { std::alloc::alloc_zeroed(layout) };
    // SAFETY: the global allocator gave it with the layout of `bytes` bytes, all of them set.
    (!start.is_null()).then(|| unsafe { Vec::from_raw_parts(start, bytes, bytes) })
}

/// The error of a request that there is no memory for.
pub fn no_memory(bytes: usize) -> std::io::Error {
    // With a number, which is what kernels and clients are told.
    let error = std::io::Error::from_raw_os_error(libc::ENOMEM);
    tracing::warn!(bytes, %error, "a request is refused for want of memory");
    error
}

/// Fixes the allocator's threshold for the whole process. To be called once, at its start.
pub fn return_large_buffers() {
    #[cfg(target_env = "gnu")]
    // SAFETY: a setting of the allocator, which takes its own lock. If it is refused, the process
    // merely keeps more memory.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_BYTES_MIN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_there_is_not_is_none() {
        assert_eq!(zeroed(0), Some(Vec::new()));
        assert_eq!(zeroed(4096), Some(vec![0; 4096]));
        assert_eq!(zeroed(usize::MAX), None);
        assert_eq!(zeroed(isize::MAX as usize), None);
    }
}
