//! Loops for any processor: word-wise volatile accesses, CRC-32C by a library.
//!
//! Volatile accesses of aligned words compile to single plain loads and stores, which is what
//! racing copies need. A stream is a cached store and a flush of its lines.

use super::{Kernel, Kernels, native};
use crate::LINE_BYTES;
use crate::parity::xor_into;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

const WORD_BYTES: usize = 8;

/// Bytes copied before their CRC is taken: they stay in the first-level cache in between.
const CHUNK_BYTES: usize = 1024;

pub(super) static KERNELS: Kernels = Kernels {
    kernel: Kernel::Portable,
    stream,
    stream_with_crc,
    stream_pair,
    stream_pair_with_crc,
    stream_xor,
    store,
    read,
    read_with_crc,
    crc,
    crc_of_line: |line, state| {
        line.iter()
            .fold(state, |state, word| append(state, &word.to_le_bytes()))
    },
};

/// # Safety
/// As of the loops of `Kernels`.
unsafe fn stream(to: *mut u8, from: *const u8, len: usize) {
    // SAFETY: the caller keeps the contract of `Kernels`, which is also that of `store`.
    unsafe { store(to, from, len) };
    for offset in (0..len).step_by(LINE_BYTES) {
        // SAFETY: inside the `len` bytes that the contract of `Kernels` makes valid.
        unsafe { native::flush_line(native::detect_flush_kind(), to.add(offset)) };
    }
}

/// A line of words, stored and flushed.
///
/// # Safety
/// `to` is the start of a mapped, writable line.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) unsafe fn stream_line(to: *mut u8, line: &[u64; 8]) {
    let line = line.map(u64::to_le);
    // SAFETY: `to` is a mapped, writable line by this function's contract; `line` is borrowed.
    unsafe { stream(to, line.as_ptr().cast(), LINE_BYTES) };
}

/// # Safety
/// As of the loops of `Kernels`.
unsafe fn stream_with_crc(to: *mut u8, from: *const u8, len: usize, state: u32) -> u32 {
    // SAFETY: the caller keeps the contract of `Kernels`: nothing writes to the source meanwhile, so
    // it is an ordinary slice.
    unsafe {
        stream(to, from, len);
        append(state, std::slice::from_raw_parts(from, len))
    }
}

/// # Safety
/// As of the loops of `Kernels`.
unsafe fn stream_pair(to: *mut u8, twin: *mut u8, from: *const u8, len: usize) {
    for offset in (0..len).step_by(LINE_BYTES) {
        // SAFETY: a line inside the `len` bytes that the contract of `Kernels` makes valid.
        unsafe {
            stream(to.add(offset), from.add(offset), LINE_BYTES);
            stream(twin.add(offset), from.add(offset), LINE_BYTES);
        }
    }
}

/// # Safety
/// As of the loops of `Kernels`.
unsafe fn stream_pair_with_crc(
    to: *mut u8,
    twin: *mut u8,
    from: *const u8,
    len: usize,
    state: u32,
) -> u32 {
    // SAFETY: the caller keeps the contract of `Kernels`: nothing writes to the source meanwhile, so
    // it is an ordinary slice.
    unsafe {
        stream_pair(to, twin, from, len);
        append(state, std::slice::from_raw_parts(from, len))
    }
}

/// # Safety
/// As of the loops of `Kernels`.
unsafe fn stream_xor(to: *mut u8, sources: &[&[u8]], len: usize) {
    for offset in (0..len).step_by(LINE_BYTES) {
        let mut line = [0; LINE_BYTES];
        for source in sources {
            xor_into(&mut line, &source[offset..offset + LINE_BYTES]);
        }
        // SAFETY: a line inside the `len` bytes that the contract of `Kernels` makes valid; the sum is borrowed.
        unsafe { stream(to.add(offset), line.as_ptr(), LINE_BYTES) };
    }
}

/// # Safety
/// As of the loops of `Kernels`.
unsafe fn store(to: *mut u8, from: *const u8, len: usize) {
    let mut at = 0;
    while at < len {
        // SAFETY: every access lies inside the `len` bytes that the contract of `Kernels` makes valid.
        // The region is accessed atomically, and nothing writes to the source meanwhile.
        unsafe {
            let target = to.add(at);
            if len - at >= WORD_BYTES && target.addr().is_multiple_of(WORD_BYTES) {
                let word = from.add(at).cast::<u64>().read_unaligned();
                // Release keeps the stores in order.
                AtomicU64::from_ptr(target.cast()).store(word, Ordering::Release);
                at += WORD_BYTES;
            } else {
                AtomicU8::from_ptr(target).store(from.add(at).read(), Ordering::Release);
                at += 1;
            }
        }
    }
}

/// # Safety
/// As of the loops of `Kernels`.
unsafe fn read(to: *mut u8, from: *const u8, len: usize) {
    let mut at = 0;
    while at < len {
        // SAFETY: every access lies inside the `len` bytes that the contract of `Kernels` makes valid.
        // The region is accessed atomically, and only this thread accesses the target. The mapping may
        // be read-only: atomic loads of a word or a byte do not write.
        unsafe {
            let source = from.add(at).cast_mut();
            if len - at >= WORD_BYTES && source.addr().is_multiple_of(WORD_BYTES) {
                let word = AtomicU64::from_ptr(source.cast()).load(Ordering::Relaxed);
                to.add(at).cast::<u64>().write_unaligned(word);
                at += WORD_BYTES;
            } else {
                to.add(at)
                    .write(AtomicU8::from_ptr(source).load(Ordering::Relaxed));
                at += 1;
            }
        }
    }
}

/// # Safety
/// As of the loops of `Kernels`.
unsafe fn read_with_crc(to: *mut u8, from: *const u8, len: usize, mut state: u32) -> u32 {
    for start in (0..len).step_by(CHUNK_BYTES) {
        let chunk = CHUNK_BYTES.min(len - start);
        // SAFETY: inside the `len` bytes that the contract of `Kernels` makes valid; only this thread
        // accesses what was copied, so it is an ordinary slice.
        unsafe {
            read(to.add(start), from.add(start), chunk);
            state = append(state, std::slice::from_raw_parts(to.add(start), chunk));
        }
    }
    state
}

/// # Safety
/// As of the loops of `Kernels`.
unsafe fn crc(from: *const u8, len: usize, mut state: u32) -> u32 {
    let mut buffer = [0_u8; CHUNK_BYTES];
    for start in (0..len).step_by(CHUNK_BYTES) {
        let chunk = &mut buffer[..CHUNK_BYTES.min(len - start)];
        // SAFETY: the contract of `Kernels` makes the `len` bytes of the source valid; `chunk` is borrowed.
        unsafe { read(chunk.as_mut_ptr(), from.add(start), chunk.len()) };
        state = append(state, chunk);
    }
    state
}

fn append(state: u32, bytes: &[u8]) -> u32 {
    !crc32c::crc32c_append(!state, bytes)
}
