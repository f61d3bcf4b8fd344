//! What every member of a pool begins with. It stands below all else, since a file that begins so is no disk.

/// First eight bytes of every member.
pub(crate) const MAGIC: [u8; 8] = *b"FOREBAY\x01";

/// Whether something that begins so is a pool, in memory or on an SSD.
pub(crate) fn begins_as_pool(first: &[u8; 8]) -> bool {
    *first == MAGIC || forebay_log::begins_as_pool(first)
}
