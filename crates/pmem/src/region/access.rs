//! Loads, stores, flushes and fences.

#![allow(
    unsafe_code,
    reason = "a region is raw memory; every access is checked against its length here"
)]

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use super::{Backing, Region};
use crate::counters::Event;
use crate::{LINE_BYTES, PAGE_BYTES, PersistenceDomain, PmemError, PmemErrorKind, arch};

/// Cache lines that the bytes touch.
#[inline]
fn lines_of(offset: u64, len: usize) -> u64 {
    if len == 0 {
        return 0;
    }
    let line = LINE_BYTES as u64;
    (offset + len as u64 - 1) / line - offset / line + 1
}

#[cold]
#[inline(never)]
fn panic_not_lines(offset: u64, len: usize) -> ! {
    panic!("a stream is whole lines, not {len} bytes at {offset}");
}

/// A line of a region, looked at where it is.
#[derive(Clone, Copy, Debug)]
pub struct Line<'r>(&'r [AtomicU64; 8]);

impl Line<'_> {
    /// Loads one of the eight words, little-endian, with Acquire ordering.
    #[inline]
    pub fn word(self, number: usize) -> u64 {
        u64::from_le(self.0[number].load(Ordering::Acquire))
    }

    /// Whether the low half of word `at` is the CRC-32C of what has the CRC-32C `crc`, followed by the line
    /// without that half.
    #[inline]
    pub fn is_checked(self, at: usize, crc: u32) -> bool {
        arch::is_checked_line(self.0, at, crc)
    }
}

impl Region {
    /// The address of bytes that are sure to lie inside.
    #[inline]
    fn address(&self, offset: u64, len: usize) -> *mut u8 {
        if offset.saturating_add(len as u64) > self.len {
            self.panic_outside(offset, len);
        }
        // SAFETY: inside the mapping, as just checked.
        unsafe { self.base.add(offset as usize) }
    }

    #[cold]
    #[inline(never)]
    fn panic_outside(&self, offset: u64, len: usize) -> ! {
        panic!(
            "{len} bytes at {offset} lie outside the {} bytes of {}",
            self.len,
            self.path.display()
        );
    }

    /// The address of so many bytes, a power of two, at a multiple of that.
    #[inline(always)]
    fn aligned_address(&self, offset: u64, len: usize) -> *mut u8 {
        // One comparison for both: turned round, an offset with bits below the alignment is larger than
        // any number of pieces.
        let shift = len.trailing_zeros();
        if offset.rotate_right(shift) >= self.len >> shift {
            self.panic_misplaced(offset, len);
        }
        // SAFETY: a whole piece before the end of the mapping, as just checked.
        unsafe { self.base.add(offset as usize) }
    }

    #[cold]
    #[inline(never)]
    fn panic_misplaced(&self, offset: u64, len: usize) -> ! {
        assert!(
            offset.is_multiple_of(len as u64),
            "an atomic access of {len} bytes is aligned, not at {offset}"
        );
        self.panic_outside(offset, len);
    }

    /// Loads 8 bytes at once, with Acquire ordering. The offset is a multiple of 8.
    #[inline]
    pub fn load_u64(&self, offset: u64) -> u64 {
        let address = self.aligned_address(offset, 8);
        self.special_shadow(offset, 8);
        // SAFETY: aligned, inside the mapping, and every thread accesses it atomically.
        let word = unsafe { AtomicU64::from_ptr(address.cast()) };
        u64::from_le(word.load(Ordering::Acquire))
    }

    /// Loads 16 bytes, little-endian, with Acquire ordering. The offset is a multiple of 16. They
    /// are loaded at once where the processor can (x86-64 with AVX, Arm with LSE2); otherwise as
    /// two words.
    #[inline]
    pub fn load_u128(&self, offset: u64) -> u128 {
        let address = self.aligned_address(offset, 16);
        if self.has_plain_loads {
            // SAFETY: aligned and inside the mapping; the flag is from the detection.
            return u128::from_le(unsafe { arch::load_u128(true, address) });
        }
        self.look(offset, 16);
        // SAFETY: aligned and inside the mapping; the flag is from the detection.
        u128::from_le(unsafe { arch::load_u128(self.has_wide_atomics, address) })
    }

    /// In a shadow others may go on before each load, so that a checker sees what happens between two,
    /// and the load may meet a page that the medium lost.
    #[cold]
    fn look(&self, offset: u64, len: usize) {
        if let Some(shadow) = self.shadow_state() {
            crate::look_point();
            self.meet(shadow, offset, len);
        }
    }

    /// In a shadow an access meets what the medium lost, if none has yet; elsewhere the system says so.
    #[cold]
    fn meet(&self, shadow: &crate::shadow::Shadow, offset: u64, len: usize) {
        shadow.meet_lost(offset, len, self.media_errors.errors());
    }

    /// The eight words of a line, to be loaded one by one. The offset is a multiple of 64.
    #[inline]
    pub fn line(&self, offset: u64) -> Line<'_> {
        let address = self.aligned_address(offset, LINE_BYTES);
        // SAFETY: aligned, inside the mapping, which lives as long as the region; every thread accesses
        // it atomically or in assembly.
        Line(unsafe { &*address.cast::<[AtomicU64; 8]>() })
    }

    /// Copies bytes out.
    #[inline]
    pub fn read(&self, offset: u64, out: &mut [u8]) {
        let address = self.address(offset, out.len());
        self.before_read(offset, out.len());
        // SAFETY: both sides are valid for the length; `out` is borrowed mutably.
        unsafe { (arch::kernels().read)(out.as_mut_ptr(), address, out.len()) };
    }

    /// Copies bytes out and returns the CRC-32C of what was copied, in one pass.
    #[inline(always)]
    pub fn read_crc32c(&self, offset: u64, out: &mut [u8]) -> u32 {
        let address = self.address(offset, out.len());
        self.before_read(offset, out.len());
        // SAFETY: both sides are valid for the length; `out` is borrowed mutably.
        !unsafe { (arch::kernels().read_with_crc)(out.as_mut_ptr(), address, out.len(), !0) }
    }

    /// The CRC-32C of bytes of the region.
    #[inline]
    pub fn crc32c(&self, offset: u64, len: usize) -> u32 {
        let address = self.address(offset, len);
        self.before_read(offset, len);
        // SAFETY: valid for the length.
        !unsafe { (arch::kernels().crc)(address, len, !0) }
    }

    /// Prefetches the line that holds `offset` for a load. A hint: beyond the end it does
    /// nothing.
    #[inline]
    pub fn prefetch_read(&self, offset: u64) {
        if offset < self.len {
            // SAFETY: inside the mapping, as just checked.
            arch::prefetch_read(unsafe { self.base.add(offset as usize) });
        }
    }

    /// Prefetches the line that holds `offset` for a store. A hint, too.
    #[inline]
    pub fn prefetch_write(&self, offset: u64) {
        if offset < self.len {
            // SAFETY: inside the mapping, as just checked.
            arch::prefetch_write(unsafe { self.base.add(offset as usize) });
        }
    }

    #[inline]
    fn before_read(&self, offset: u64, len: usize) {
        if self.is_special {
            self.before_special_read(offset, len);
        }
    }

    #[cold]
    fn before_special_read(&self, offset: u64, len: usize) {
        if let Some(delays) = &self.delays {
            delays.spin_read(lines_of(offset, len));
        }
        self.look(offset, len);
    }

    /// Copies whole lines in with non-temporal stores; this thread's next fence makes them
    /// durable. Offset and length are multiples of 64.
    #[inline]
    pub fn stream(&self, offset: u64, bytes: &[u8]) {
        let address = self.stream_address(offset, bytes.len());
        if let Some(shadow) = self.special_shadow(offset, bytes.len()) {
            shadow.stream(offset, bytes);
        } else {
            // SAFETY: both sides are valid for the length, which is in whole lines.
            unsafe { (arch::kernels().stream)(address, bytes.as_ptr(), bytes.len()) };
        }
        self.note_stream(bytes.len());
    }

    /// As [`Region::stream`]; returns the CRC-32C of the bytes, computed on the way past.
    #[inline(always)]
    pub fn stream_crc32c(&self, offset: u64, bytes: &[u8]) -> u32 {
        let address = self.stream_address(offset, bytes.len());
        if self.is_special {
            return self.stream_special_crc32c(offset, bytes, address);
        }
        // SAFETY: both sides are valid for the length, which is in whole lines.
        let state =
            unsafe { (arch::kernels().stream_with_crc)(address, bytes.as_ptr(), bytes.len(), !0) };
        let lines = (bytes.len() / LINE_BYTES) as u64;
        self.counters.add(Event::LinesStreamed, lines);
        !state
    }

    #[cold]
    fn stream_special_crc32c(&self, offset: u64, bytes: &[u8], address: *mut u8) -> u32 {
        let state = if let Some(shadow) = self.special_shadow(offset, bytes.len()) {
            shadow.stream(offset, bytes);
            arch::crc_state_of_slice(!0, bytes)
        } else {
            // SAFETY: both sides are valid for the length, which is in whole lines: the caller checked.
            unsafe { (arch::kernels().stream_with_crc)(address, bytes.as_ptr(), bytes.len(), !0) }
        };
        self.note_stream(bytes.len());
        !state
    }

    /// Streams one line that the caller has in words, little-endian. Just made, in registers or in
    /// stores of 8 bytes, the words need not wait for stores before them to leave the processor.
    #[inline(always)]
    pub fn stream_line(&self, offset: u64, line: &[u64; 8]) {
        let address = self.aligned_address(offset, LINE_BYTES);
        if self.is_special {
            return self.stream_special_line(offset, line, address);
        }
        // SAFETY: a whole line inside the mapping.
        unsafe { arch::stream_line(address, line) };
        self.counters.add(Event::LinesStreamed, 1);
    }

    /// Streams several lines, one after the other.
    #[inline(always)]
    pub fn stream_lines(&self, offset: u64, lines: &[[u64; 8]]) {
        let address = self.stream_address(offset, lines.len() * LINE_BYTES);
        if self.is_special {
            return self.stream_special_lines(offset, lines);
        }
        // SAFETY: whole lines inside the mapping.
        unsafe { arch::stream_lines(address, lines) };
        self.counters.add(Event::LinesStreamed, lines.len() as u64);
    }

    #[cold]
    fn stream_special_lines(&self, offset: u64, lines: &[[u64; 8]]) {
        for (number, line) in (0..).zip(lines) {
            self.stream_line(offset + number * LINE_BYTES as u64, line);
        }
    }

    #[cold]
    fn stream_special_line(&self, offset: u64, line: &[u64; 8], address: *mut u8) {
        if let Some(shadow) = self.special_shadow(offset, LINE_BYTES) {
            let mut bytes = [0; LINE_BYTES];
            for (to, word) in bytes.chunks_exact_mut(8).zip(line) {
                to.copy_from_slice(&word.to_le_bytes());
            }
            shadow.stream(offset, &bytes);
        } else {
            // SAFETY: a whole line inside the mapping: the caller checked.
            unsafe { arch::stream_line(address, line) };
        }
        self.note_stream(LINE_BYTES);
    }

    /// The same of a line that carries its own check: into the low half of its word `at`, which is zero, goes
    /// first the CRC-32C of what has the CRC-32C `crc`, followed by the line.
    #[inline(always)]
    pub fn stream_checked_line(&self, offset: u64, line: &mut [u64; 8], at: usize, crc: u32) {
        let address = self.aligned_address(offset, LINE_BYTES);
        if self.is_special {
            line[at] |= u64::from(crate::crc32c_append_line(crc, line));
            return self.stream_special_line(offset, line, address);
        }
        // SAFETY: a whole line inside the mapping.
        unsafe { arch::stream_checked_line(address, line, at, crc) };
        self.counters.add(Event::LinesStreamed, 1);
    }

    #[inline(always)]
    pub(super) fn stream_address(&self, offset: u64, len: usize) -> *mut u8 {
        if !(offset | len as u64).is_multiple_of(LINE_BYTES as u64) {
            panic_not_lines(offset, len);
        }
        self.address(offset, len)
    }

    #[inline]
    pub(super) fn note_stream(&self, len: usize) {
        let lines = (len / LINE_BYTES) as u64;
        self.counters.add(Event::LinesStreamed, lines);
        if self.is_special {
            self.note_store();
            if let Some(delays) = &self.delays {
                delays.spin_write(lines);
            }
        }
    }

    /// Copies bytes in with cached stores, in ascending order; durable after a flush and a fence.
    #[inline]
    pub fn store(&self, offset: u64, bytes: &[u8]) {
        let address = self.address(offset, bytes.len());
        if let Some(shadow) = self.special_shadow(offset, bytes.len()) {
            shadow.store(offset, bytes);
        } else {
            // SAFETY: both sides are valid for the length; `bytes` is borrowed.
            unsafe { (arch::kernels().store)(address, bytes.as_ptr(), bytes.len()) };
        }
        self.note_store();
    }

    /// Stores 8 bytes at once, little-endian, with Release ordering. The offset is a multiple
    /// of 8.
    #[inline]
    pub fn store_u64(&self, offset: u64, value: u64) {
        let address = self.aligned_address(offset, 8);
        if let Some(shadow) = self.special_shadow(offset, 8) {
            shadow.store(offset, &value.to_le_bytes());
        } else {
            // SAFETY: aligned, inside the mapping, and every thread accesses it atomically.
            let word = unsafe { AtomicU64::from_ptr(address.cast()) };
            word.store(value.to_le(), Ordering::Release);
        }
        self.note_store();
    }

    /// Stores 16 bytes at once, little-endian, ordered after all earlier accesses. The offset is
    /// a multiple of 16. At once for other threads, that is: a power cut may keep either word.
    #[inline(always)]
    pub fn store_u128(&self, offset: u64, value: u128) {
        let address = self.aligned_address(offset, 16);
        if self.has_plain_stores {
            // SAFETY: aligned and inside the mapping; the flag is from the detection.
            unsafe { arch::store_u128(true, address, value.to_le()) };
            return;
        }
        self.store_special_u128(offset, address, value);
    }

    #[cold]
    fn store_special_u128(&self, offset: u64, address: *mut u8, value: u128) {
        if let Some(shadow) = self.special_shadow(offset, 16) {
            shadow.store(offset, &value.to_le_bytes());
        } else {
            // SAFETY: aligned, inside the mapping; the flag is from the detection.
            unsafe { arch::store_u128(self.has_wide_atomics, address, value.to_le()) };
        }
        self.note_store();
    }

    #[inline]
    pub(super) fn special_shadow(&self, offset: u64, len: usize) -> Option<&crate::shadow::Shadow> {
        if !self.is_special {
            return None;
        }
        let shadow = self.shadow_state()?;
        self.meet(shadow, offset, len);
        Some(shadow)
    }

    #[inline]
    fn note_store(&self) {
        if self.is_special && self.domain == PersistenceDomain::Page {
            self.page_sync.note_store();
        }
    }

    /// Sends the lines that the bytes touch towards the medium; this thread's next fence waits
    /// for them. Nothing to do and nothing counted where caches are durable; lines are counted
    /// though not flushed where a fence syncs a file.
    #[inline]
    pub fn flush(&self, offset: u64, len: usize) {
        let address = self.address(offset, len);
        let lines = lines_of(offset, len);
        if self.domain == PersistenceDomain::Eadr || lines == 0 {
            return;
        }
        self.counters.add(Event::LinesFlushed, lines);
        if self.is_special {
            self.flush_special(offset, len, lines);
            if self.domain == PersistenceDomain::Page || self.shadow_state().is_some() {
                return;
            }
        }
        let misaligned = address.addr() % LINE_BYTES;
        for line in 0..lines as usize {
            // SAFETY: the lines that touch bytes of the mapping; the instruction was detected.
            unsafe {
                let line = address.sub(misaligned).add(line * LINE_BYTES);
                arch::flush_line(self.flush_kind, line);
            }
        }
    }

    /// As [`Region::flush`], for bytes that were found here and not stored by this process: the process that stored
    /// them may have been killed, or may have seen a sync fail. After that the system takes a plain
    /// file's page for written though the disk lacks it, so here a byte of each page is stored again,
    /// and the next fence writes the page. What others store meanwhile stays.
    pub fn flush_found(&self, offset: u64, len: usize) {
        if self.domain == PersistenceDomain::Page {
            let end = offset + len as u64;
            let mut at = offset;
            while at < end {
                self.store_again(at);
                at = (at / PAGE_BYTES as u64 + 1) * PAGE_BYTES as u64;
            }
        }
        self.flush(offset, len);
    }

    /// Stores the byte that is there.
    fn store_again(&self, offset: u64) {
        let address = self.address(offset, 1);
        if let Some(shadow) = self.special_shadow(offset, 1) {
            let mut byte = [0];
            self.read(offset, &mut byte);
            shadow.store(offset, &byte);
        } else {
            // SAFETY: a byte of the mapping, any of which is a number; others that store to it race as with any of its bytes.
            let byte = unsafe { AtomicU8::from_ptr(address) };
            let value = byte.load(Ordering::Relaxed);
            // It undoes no store that comes in between, and dirties the page; no compiler takes it for a load.
            let _ = byte.compare_exchange(value, value, Ordering::SeqCst, Ordering::Relaxed);
        }
        self.note_store();
    }

    /// Has caches forget the lines that the bytes touch, so that loads see what the medium has, as far as anything
    /// outside it can tell. Stores that no flush has sent yet go to the medium before. A plain file's pages
    /// stay in the page cache. Nothing is counted: nothing becomes durable by it for certain.
    pub fn evict(&self, offset: u64, len: usize) {
        self.begin_evict(offset, len);
        self.end_evict();
    }

    /// As [`Region::evict`], without waiting: what is loaded before [`Region::end_evict`] may come from a cache.
    pub fn begin_evict(&self, offset: u64, len: usize) {
        let address = self.address(offset, len);
        match &self.backing {
            Backing::Shadow(shadow) => shadow.evict(offset, len as u64),
            Backing::Shared(_) if self.domain == PersistenceDomain::Page => {}
            Backing::Shared(_) | Backing::Private(_) | Backing::Dram(_) => {
                let misaligned = address.addr() % LINE_BYTES;
                for line in 0..lines_of(offset, len) as usize {
                    // SAFETY: the lines that touch bytes of the mapping.
                    unsafe { arch::evict_line(address.sub(misaligned).add(line * LINE_BYTES)) };
                }
            }
        }
    }

    /// Orders every [`Region::begin_evict`] of this thread, of any region, before the loads that follow.
    pub fn end_evict(&self) {
        arch::evictions_done();
    }

    #[cold]
    fn flush_special(&self, offset: u64, len: usize, lines: u64) {
        if let Some(shadow) = self.shadow_state() {
            shadow.flush(offset, len);
        }
        if let Some(delays) = &self.delays {
            delays.spin_write(lines);
        }
    }

    /// Returns when everything this thread has streamed or flushed before is durable; on a plain
    /// file, everything any thread has stored before.
    ///
    /// # Errors
    /// Durability cannot be promised: the file's sync failed (now or earlier), or the medium
    /// failed under an access since the region was opened. All later fences fail too, in the second case until
    /// the page is acknowledged ([`Region::acknowledge_media_errors`]).
    #[inline(always)]
    pub fn fence(&self) -> Result<(), PmemError> {
        self.note_fence();
        arch::fence();
        self.after_fence()
    }

    /// Orders what this thread has streamed here before whatever it, or a thread that it hands a lock to, stores next.
    /// Makes nothing durable.
    #[inline]
    pub fn order_streams(&self) {
        arch::fence();
    }

    #[inline(always)]
    pub(super) fn note_fence(&self) {
        self.counters.add(Event::Fences, 1);
    }

    /// What a region has to do after the instruction, which served all of them.
    #[inline(always)]
    pub(super) fn after_fence(&self) -> Result<(), PmemError> {
        if self.is_special {
            self.fence_special()?;
        }
        self.check_failures()
    }

    #[cold]
    fn fence_special(&self) -> Result<(), PmemError> {
        // After a failed sync the kernel may have dropped what it could not write: a second sync
        // that succeeds would promise what is not there.
        self.check_failures()?;
        self.sync_special()
    }

    /// As [`Region::fence`], by the owner of the region, who is about to acknowledge these pages: the medium's failure on
    /// them does not fail it. What was stored to them may be nowhere.
    ///
    /// # Errors
    /// As a fence's, for anything else.
    #[cold]
    pub fn fence_beside_media_errors(&self, pages: &[u64]) -> Result<(), PmemError> {
        self.note_fence();
        arch::fence();
        self.check_failures_beside(pages)?;
        self.sync_special()?;
        self.check_failures_beside(pages)
    }

    fn sync_special(&self) -> Result<(), PmemError> {
        match &self.backing {
            Backing::Shadow(shadow) => shadow.fence().map_err(|()| {
                self.poison();
                PmemError::new(PmemErrorKind::Poisoned, &self.path)
            }),
            Backing::Shared(mapping) if self.domain == PersistenceDomain::Page => {
                self.page_sync.sync(mapping.file()).map_err(|error| {
                    self.poison();
                    PmemError::io("sync it to the disk", &self.path, error)
                })
            }
            Backing::Shared(_) | Backing::Private(_) | Backing::Dram(_) => Ok(()),
        }
    }
}
