//! The soft-dirty bit of /proc/PID/pagemap: why there is no tracker of it.
//!
//! The bits are cleared by a write to /proc/PID/clear_refs, of all mappings of the process at once
//! (Documentation/admin-guide/mm/soft-dirty.rst), and no call reads and clears them in one step. A store between the
//! reading and the clearing would be seen by no take, unless all threads were stopped meanwhile, and regions,
//! debuggers and whatever else of the process uses the bits would take each other's. So its stores are not
//! to be relied on; where `async-wp` is not to be had, `fault` is exact, and cheaper than stopping the threads.
#![allow(unsafe_code, reason = "the probe maps a page of its own")]

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::format::PAGE_BYTES;

/// Bit 55 of an entry.
const SOFT_DIRTY: u64 = 1 << 55;

/// What to say to a caller that asks for it.
pub(crate) fn refusal() -> String {
    let found = match kernel_has_it() {
        Some(true) => "this kernel has the bit",
        Some(false) => "this kernel has no such bit (CONFIG_MEM_SOFT_DIRTY)",
        None => "/proc/self/pagemap cannot be read",
    };
    format!(
        "{found}; it could not be used either way: it is cleared for the whole process at once and not in the step that \
         reads it, so that stores in between would go unseen"
    )
}

/// Whether a page that was just stored to has the bit; nothing is cleared. None where that cannot be found out.
pub(crate) fn kernel_has_it() -> Option<bool> {
    let pagemap = File::open("/proc/self/pagemap").ok()?;
    // A fresh allocation that is stored to has the bit since its page came to be.
    let mut page = vec![0_u8; 2 * PAGE_BYTES as usize];
    let last = page.len() - 1;
    // SAFETY: within the allocation. Volatile, since nothing reads it.
    unsafe { page.as_mut_ptr().add(last).write_volatile(1) };
    let address = page.as_ptr().addr() as u64 + last as u64;
    let mut entry = [0_u8; 8];
    pagemap
        .read_exact_at(&mut entry, address / PAGE_BYTES * 8)
        .ok()?;
    Some(u64::from_ne_bytes(entry) & SOFT_DIRTY != 0)
}
