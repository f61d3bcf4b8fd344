//! How the content of blocks reaches the medium: one way for all engines, so that none is faster by that.

use forebay::Region;

use crate::engines::EngineOptions;

/// One way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContentBy {
    /// Non-temporal stores, which go past the caches.
    Streams,
    /// Stores, and a flush of each line, as the papers of 2013 and 2017 have it.
    Flushes,
}

impl ContentBy {
    /// What the options ask for; a protocol as printed flushes.
    pub(crate) fn of(options: &EngineOptions) -> ContentBy {
        match options.flushes_content || options.as_printed {
            true => ContentBy::Flushes,
            false => ContentBy::Streams,
        }
    }

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
