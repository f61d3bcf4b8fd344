//! What a tree of programs under the preloaded library did with its files: counted in memory that all its
//! processes share, 8 bytes a count, and told by `forebay run` when the tree has ended.

/// Bytes of the shared memory.
pub const TALLY_BYTES: u64 = 4096;

/// What is counted, by its place. A file counts once each time it is opened, for what became of it last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Count {
    /// Files whose syncs went to the pool.
    Buffered,
    /// Plain files: mapped.
    Mapped,
    /// Plain files: written by streams, or opened inside libc.
    Stdio,
    /// Plain files: another process has them, or the pool.
    Elsewhere,
    /// Plain files: of processes that sync too little for a pool to be opened.
    Brief,
    /// Plain files, for other reasons.
    Other,
    /// How many times a process opened the pool.
    Opens,
    /// Syncs that a process does without the pool before it opens it: earlier ones of the tree opened it for
    /// little.
    Reluctance,
}

impl Count {
    /// All, in the order of their places.
    pub const ALL: [Count; 8] = [
        Count::Buffered,
        Count::Mapped,
        Count::Stdio,
        Count::Elsewhere,
        Count::Brief,
        Count::Other,
        Count::Opens,
        Count::Reluctance,
    ];

    /// Why files were plain, in words.
    pub const PLAIN: [(Count, &'static str); 5] = [
        (Count::Mapped, "mmap"),
        (Count::Stdio, "stdio"),
        (Count::Elsewhere, "another process"),
        (Count::Brief, "few syncs"),
        (Count::Other, "other"),
    ];

    /// Its place in the shared memory.
    pub fn offset(self) -> usize {
        self as usize * 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_count_has_its_place() {
        for (place, count) in Count::ALL.into_iter().enumerate() {
            assert_eq!(count.offset(), place * 8);
        }
    }
}
