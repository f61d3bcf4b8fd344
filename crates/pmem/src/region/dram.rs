//! Memory of this process in whole lines.

use std::io;
use std::sync::atomic::AtomicU64;

use crate::LINE_BYTES;

/// A line. Words are atomic because loads race with stores.
#[repr(C, align(64))]
struct Line([AtomicU64; 8]);

const _: () = assert!(size_of::<Line>() == LINE_BYTES);

/// So many lines, all zero at first.
pub(super) struct Dram(Box<[Line]>);

impl Dram {
    /// # Errors
    /// There is no memory for so many bytes.
    pub(super) fn new(len: u64) -> io::Result<Dram> {
        let too_large = |_| io::Error::from(io::ErrorKind::OutOfMemory);
        let count = usize::try_from(len.div_ceil(LINE_BYTES as u64)).map_err(too_large)?;
        let mut lines = Vec::new();
        lines.try_reserve_exact(count).map_err(io::Error::other)?;
        lines.resize_with(count, || Line([const { AtomicU64::new(0) }; 8]));
        Ok(Dram(lines.into_boxed_slice()))
    }

    pub(super) fn len(&self) -> u64 {
        (self.0.len() * LINE_BYTES) as u64
    }

    /// The first byte. Every word may be stored to through it, since all are atomic.
    pub(super) fn start(&self) -> *mut u8 {
        self.0.as_ptr().cast::<u8>().cast_mut()
    }
}
