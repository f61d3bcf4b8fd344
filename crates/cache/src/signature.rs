//! What every member of a pool begins with. It stands below all else, since a file that begins so is no disk.

/// First eight bytes of every member.
pub(crate) const MAGIC: [u8; 8] = *b"FOREBAY\x01";
