//! A daemon's memory goes back to the system when its requests are done.
//!
//! glibc's allocator raises the size from which it maps memory by itself when such memory is freed, up
//! to 32 MiB, and then keeps what each of a hundred threads once needed for a large request.

#![allow(unsafe_code, reason = "the allocator's settings are the C library's")]

/// Buffers from this size on are mapped, and unmapped when freed.
#[cfg(target_env = "gnu")]
const MAPPED_BYTES_MIN: libc::c_int = 256 << 10;

/// Fixes the allocator's threshold for the whole process. To be called once, at its start.
pub fn return_large_buffers() {
    #[cfg(target_env = "gnu")]
    // SAFETY: a setting of the allocator, which takes its own lock. If it is refused, the process
    // merely keeps more memory.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_BYTES_MIN);
    }
}
