//! What a line of a trace says.

/// Which of a request's events in a blkparse trace stands for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TraceEvent {
    /// Q: it was queued, as the file system asked.
    Queued,
    /// D: it was issued to the device, merged with others.
    Issued,
    /// C: it was completed.
    Completed,
}

/// A request as a line tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parsed<'l> {
    pub(super) device: &'l str,
    pub(super) event: TraceEvent,
    pub(super) is_write: bool,
    pub(super) offset_bytes: u64,
    pub(super) length_bytes: u64,
}

/// What a line turned out to be.
pub(super) enum Line<'l> {
    Request(Parsed<'l>),
    /// Nothing that moves data, or nothing at all.
    Other,
    /// The summary after the trace.
    End,
}

/// A number of a line.
pub(super) fn number(text: &str, what: &str) -> std::result::Result<u64, String> {
    text.parse()
        .map_err(|_| format!("{what} is {text:?}, which is no number of 64 bits"))
}
