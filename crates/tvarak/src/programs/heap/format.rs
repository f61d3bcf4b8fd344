//! What lies where in a region that holds a heap: every offset, in bytes.
//!
//! A header, the log of the transaction that runs, and objects, each after 16 bytes that say its size and its type.

/// The first word of a heap.
pub const MAGIC: u64 = 0x6672_6865_6170_3031;

/// Where the magic number is.
pub const MAGIC_AT: u64 = 0;
/// Where the region's size is.
pub const SIZE_AT: u64 = 8;
/// Where the address of the root object is.
pub const ROOT_AT: u64 = 16;
/// Where the address is from which on nothing was ever allocated.
pub const UNUSED_AT: u64 = 24;

/// Where the state of the transaction is, on a line of its own.
pub const STATE_AT: u64 = 64;
/// Where the number of the log's bytes is that must be rolled back.
pub const LOG_END_AT: u64 = 72;
/// No transaction runs.
pub const STATE_NONE: u64 = 0;
/// One does.
pub const STATE_STARTED: u64 = 1;

/// Where the classes of sizes are.
pub const CLASSES_AT: u64 = 128;
/// Bytes of a class's record: the first free object, the next one of its run, the run's end, nothing.
pub const CLASS_BYTES: u64 = 32;
/// Of a class's record, where the next object of its run is.
pub const CLASS_NEXT: u64 = 8;
/// Of a class's record, where its run ends.
pub const CLASS_END: u64 = 16;

/// Where the log is.
pub const LOG_AT: u64 = 4096;
/// Bytes of the log.
pub const LOG_BYTES: u64 = 28 << 10;
/// Bytes of what precedes each entry's old bytes: where they were, and how many.
pub const ENTRY_HEADER_BYTES: u64 = 16;

/// Where objects begin.
pub const OBJECTS_AT: u64 = 32 << 10;
/// Bytes of what precedes each object: its size with them, and its type.
pub const OBJECT_HEADER_BYTES: u64 = 16;
/// Bytes that one class takes at a time, unless its objects are larger.
pub const RUN_BYTES: u64 = 64 << 10;

/// The smallest size, as libpmemobj's.
pub const SMALLEST_BYTES: u64 = 128;
/// Up to here, sizes are multiples of 64; beyond, powers of two.
pub const LARGEST_STEP_BYTES: u64 = 2048;
/// The largest object.
pub const LARGEST_BYTES: u64 = 1 << 28;

const STEP_CLASSES: u64 = (LARGEST_STEP_BYTES - SMALLEST_BYTES) / 64 + 1;
/// Classes.
pub const CLASSES: u64 =
    STEP_CLASSES + (LARGEST_BYTES.trailing_zeros() - LARGEST_STEP_BYTES.trailing_zeros()) as u64;

const _: () = assert!(CLASSES_AT + CLASSES * CLASS_BYTES <= LOG_AT);
const _: () = assert!(LOG_AT + LOG_BYTES <= OBJECTS_AT);
const _: () = assert!(STATE_AT / 64 == LOG_END_AT / 64 && UNUSED_AT < STATE_AT);
const _: () = assert!(RUN_BYTES >= LARGEST_STEP_BYTES && OBJECTS_AT.is_multiple_of(64));

/// The class of an object of so many bytes, header included, and the bytes that it takes.
pub fn class_of(bytes: u64) -> Option<(u64, u64)> {
    match bytes {
        _ if bytes <= SMALLEST_BYTES => Some((0, SMALLEST_BYTES)),
        _ if bytes <= LARGEST_STEP_BYTES => {
            let class = (bytes - SMALLEST_BYTES).div_ceil(64);
            Some((class, SMALLEST_BYTES + class * 64))
        }
        _ if bytes <= LARGEST_BYTES => {
            let size = bytes.next_power_of_two();
            let beyond = size.trailing_zeros() - LARGEST_STEP_BYTES.trailing_zeros();
            Some((STEP_CLASSES + u64::from(beyond) - 1, size))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_has_a_class_that_is_large_enough() {
        let mut last = (0, SMALLEST_BYTES);
        for bytes in (1..20_000).chain([LARGEST_BYTES]) {
            let (class, size) = class_of(bytes).unwrap();
            assert!(size >= bytes && class < CLASSES);
            assert!(class == last.0 && size == last.1 || class > last.0 && size > last.1);
            last = (class, size);
        }
        assert_eq!(last.0, CLASSES - 1);
        assert_eq!(class_of(LARGEST_BYTES + 1), None);
        // As libpmemobj 1.12's usable sizes of 112, 176, 240 and 304 bytes.
        assert_eq!(
            [100, 176 + 16, 241, 320].map(|bytes| class_of(bytes).unwrap().1),
            [128, 192, 256, 320]
        );
    }
}
