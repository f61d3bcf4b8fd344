//! How the content of blocks reaches the medium: one way for all engines, so that none is faster by that.

use forebay::Region;

/// One way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContentBy {
    /// Non-temporal stores, which go past the caches.
    Streams,
    /// Stores, and a flush of each line, as the papers of 2013 and 2017 have it.
    Flushes,
}

impl ContentBy {
    /// Sends bytes on their way to the medium, whole lines. They are durable after the thread's next fence, which
    /// orders them among nothing before it.
    pub(crate) fn write(self, region: &Region, offset: u64, bytes: &[u8]) {
        match self {
            ContentBy::Streams => region.stream(offset, bytes),
            ContentBy::Flushes => {
                region.store(offset, bytes);
                region.flush(offset, bytes.len());
            }
        }
    }
}
