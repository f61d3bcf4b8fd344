//! PAGEMAP_SCAN (Linux 6.7; Documentation/admin-guide/mm/pagemap.rst): which pages lost their write protection,
//! and, in the same step, protecting them again.
#![allow(unsafe_code, reason = "an ioctl is the system's own interface")]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;

use super::ranges::push;
use crate::format::PAGE_BYTES;

/// `struct page_region` of linux/fs.h: addresses, and what is so of all pages between them.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct PageRegion {
    start: u64,
    end: u64,
    categories: u64,
}

/// `struct pm_scan_arg` of linux/fs.h.
#[repr(C)]
struct ScanArgument {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    regions: u64,
    regions_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

const _: () = assert!(size_of::<PageRegion>() == 24);
const _: () = assert!(size_of::<ScanArgument>() == 96);

/// `_IOWR('f', 16, struct pm_scan_arg)`.
const PAGEMAP_SCAN: u64 = libc::_IOWR::<ScanArgument>(0x66, 16) as u64;
const PAGE_IS_WRITTEN: u64 = 1 << 1;
const PM_SCAN_WP_MATCHING: u64 = 1 << 0;
const PM_SCAN_CHECK_WPASYNC: u64 = 1 << 1;

/// Ranges that one call may return.
const REGIONS: usize = 256;

/// The pages of one process.
#[derive(Debug)]
pub(crate) struct Pagemap {
    file: File,
}

impl Pagemap {
    pub(crate) fn of_this_process() -> io::Result<Pagemap> {
        let file = File::open("/proc/self/pagemap")?;
        Ok(Pagemap { file })
    }

    /// The memory that the process has now: it stays that even where the process executes another program.
    pub(crate) fn of_process(pid: u32) -> io::Result<Pagemap> {
        let file = File::open(format!("/proc/{pid}/pagemap"))?;
        Ok(Pagemap { file })
    }

    /// Pages written since they were protected last, in ascending ranges counted from `base`, added behind the `first`
    /// ones of `written`; `protect`: each is protected again in the step that finds it. Fails with EPERM where part of it is not under asynchronous write
    /// protection; what was found (and protected) before that is in `written`.
    pub(crate) fn written(
        &self,
        addresses: Range<u64>,
        base: u64,
        protect: bool,
        first: usize,
        written: &mut Vec<Range<u64>>,
    ) -> io::Result<()> {
        let mut regions = [PageRegion::default(); REGIONS];
        let mut start = addresses.start;
        while start < addresses.end {
            let mut argument = ScanArgument {
                size: size_of::<ScanArgument>() as u64,
                flags: PM_SCAN_CHECK_WPASYNC | if protect { PM_SCAN_WP_MATCHING } else { 0 },
                start,
                end: addresses.end,
                walk_end: start,
                regions: regions.as_mut_ptr().expose_provenance() as u64,
                regions_len: REGIONS as u64,
                max_pages: 0,
                category_inverted: 0,
                category_mask: PAGE_IS_WRITTEN,
                category_anyof_mask: 0,
                return_mask: PAGE_IS_WRITTEN,
            };
            // SAFETY: the argument is as the kernel lays it out, and the regions that it may fill are ours.
            let found =
                unsafe { libc::ioctl(self.file.as_raw_fd(), PAGEMAP_SCAN as _, &mut argument) };
            let error = (found < 0).then(io::Error::last_os_error);
            // A call that fails may have filled regions, but does not say how many.
            for region in &regions[..usize::try_from(found).unwrap_or(0)] {
                let pages = (region.start - base) / PAGE_BYTES..(region.end - base) / PAGE_BYTES;
                push(written, first, pages);
            }
            if let Some(error) = error {
                return Err(error);
            }
            assert!(
                argument.walk_end > start,
                "a scan with room for regions gets on"
            );
            start = argument.walk_end;
        }
        Ok(())
    }
}
