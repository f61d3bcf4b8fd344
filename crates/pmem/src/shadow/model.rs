//! Which stores a crash may lose or tear.

/// Bytes of a word: what the media writes whole.
pub const WORD_BYTES: usize = 8;

pub(super) const PAGE_WORDS: usize = 512;
pub(super) const PAGE_BYTES: usize = PAGE_WORDS * WORD_BYTES;

/// Which stores a crash may lose or tear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShadowModel {
    /// Processor caches over persistent memory; units are 64-byte lines.
    Lines,
    /// A file in the page cache; units are 512-byte sectors.
    Pages,
}

impl ShadowModel {
    /// Bytes of a unit: what persists independently of everything else.
    pub const fn unit_bytes(self) -> usize {
        match self {
            ShadowModel::Lines => 64,
            ShadowModel::Pages => 512,
        }
    }
}
