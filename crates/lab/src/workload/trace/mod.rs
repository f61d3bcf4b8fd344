//! Block traces of real machines: what `blkparse` prints, and CSV.
//!
//! A trace tells which bytes of a disk were read and written, not what they were: a replay writes
//! fresh ones. It is what reached a block device, so it is given to the cache as it is, without a
//! file system above: each request that writes is a transaction. A block that a request covers in
//! part is written whole, as the page cache above a disk does.
//!
//! Traces come from strangers: whatever a line says is checked, and an error names the line.

mod blkparse;
mod csv;
mod extents;
mod line;
mod replay;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use forebay::{Error, ErrorKind, Result};

use super::BLOCK_BYTES;
use extents::Extents;
pub use line::TraceEvent;
use line::{Line, Parsed};
pub(super) use replay::Replay;

/// Bytes of a line at most; the longest that blkparse prints are a few hundred.
const LINE_BYTES_MAX: u64 = 4096;
/// Bytes of a request at most: no kernel gives a device more at once.
const REQUEST_BYTES_MAX: u64 = 256 << 20;

/// How a trace is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TraceFormat {
    /// The text that `blkparse` prints by default.
    Blkparse,
    /// Comma-separated: with a header line that names `op`, `offset_bytes` and `length_bytes`, or as
    /// the traces of MSR Cambridge: timestamp, host, disk, type, offset, size, latency.
    Csv,
}

/// What to take of a trace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TraceOptions {
    /// How it is written down; none to tell by its first line.
    pub format: Option<TraceFormat>,
    /// Which events count; none for queued ones, or issued ones where none were queued.
    pub event: Option<TraceEvent>,
    /// The device, as the trace writes it (`8,0`, or `host,disk` of an MSR trace); none for that of
    /// the first request. Other devices' requests are left out.
    pub device: Option<String>,
    /// Requests to take at most.
    pub requests_max: u64,
    /// Bytes that the blocks in use may have together: the replay's disk is in DRAM.
    pub disk_bytes_max: u64,
}

impl Default for TraceOptions {
    fn default() -> TraceOptions {
        TraceOptions {
            format: None,
            event: None,
            device: None,
            requests_max: u64::MAX,
            disk_bytes_max: 8 << 30,
        }
    }
}

/// One request, in blocks of the replay's disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Request {
    is_write: bool,
    block: u64,
    blocks: u32,
    length_bytes: u64,
}

/// A trace, ready to be replayed. Blocks that no request touches are left out of its disk, but for one
/// between any two pieces in use, so that neighbours stay neighbours.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Trace {
    name: String,
    requests: Vec<Request>,
    disk_blocks: u64,
}

/// What is taken from the lines, in bytes of the traced disk.
#[derive(Clone, Copy)]
struct Taken {
    event: TraceEvent,
    is_write: bool,
    offset_bytes: u64,
    length_bytes: u64,
}

impl Trace {
    /// Reads a trace from a file.
    ///
    /// # Errors
    /// It cannot be read, a line is no line of a trace, or there is nothing in it to replay.
    pub fn open(path: impl AsRef<Path>, options: &TraceOptions) -> Result<Trace> {
        let path = path.as_ref();
        let file = File::open(path).map_err(|error| refused(path, &error.to_string()))?;
        Trace::read(BufReader::new(file), path, options)
    }

    /// Reads a trace; `path` is where it comes from, for errors and the name.
    ///
    /// # Errors
    /// As [`Trace::open`].
    pub fn read(reader: impl BufRead, path: &Path, options: &TraceOptions) -> Result<Trace> {
        let taken = take(reader, path, options)?;
        let extents = Extents::of(taken.iter().map(|taken| taken.blocks()));
        let disk_blocks = extents.disk_blocks();
        if disk_blocks > options.disk_bytes_max / BLOCK_BYTES as u64 {
            let found = format!(
                "its requests touch {disk_blocks} blocks of {BLOCK_BYTES} bytes, more than the limit \
                 of {} bytes",
                options.disk_bytes_max
            );
            return Err(refused(path, &found));
        }
        let requests = taken.iter().map(|taken| {
            let (first, end) = taken.blocks();
            Request {
                is_write: taken.is_write,
                block: extents.place_of(first),
                blocks: (end - first) as u32,
                length_bytes: taken.length_bytes,
            }
        });
        let stem = path.file_stem().unwrap_or(path.as_os_str());
        Ok(Trace {
            name: stem.to_string_lossy().into_owned(),
            requests: requests.collect(),
            disk_blocks,
        })
    }

    /// What it is called: its file's name without the ending.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Requests in it; at least one.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests.len() as u64
    }

    /// Bytes of the replay's disk.
    #[must_use]
    pub fn disk_bytes(&self) -> u64 {
        self.disk_blocks * BLOCK_BYTES as u64
    }
}

impl Taken {
    /// The first block that it touches, and the one after the last.
    fn blocks(&self) -> (u64, u64) {
        let end_bytes = self.offset_bytes + self.length_bytes;
        let block_bytes = BLOCK_BYTES as u64;
        (
            self.offset_bytes / block_bytes,
            end_bytes.div_ceil(block_bytes),
        )
    }
}

/// The requests of one device that count.
fn take(reader: impl BufRead, path: &Path, options: &TraceOptions) -> Result<Vec<Taken>> {
    let mut lines = Lines {
        reader,
        path,
        number: 0,
        text: Vec::new(),
    };
    let mut parser = None;
    let mut device = options.device.clone();
    let mut taken = Vec::new();
    let mut wanted = 0;
    while wanted < options.requests_max && lines.advance()? {
        let number = lines.number;
        let at = |found: String| refused(path, &format!("line {number}: {found}"));
        let text = lines.text().map_err(at)?;
        if text.trim().is_empty() {
            continue;
        }
        let parser = parser.get_or_insert_with(|| Parser::of(text, options.format));
        match parser.parse(text).map_err(at)? {
            Line::End => break,
            Line::Other => {}
            Line::Request(request) => {
                check(&request).map_err(at)?;
                if device.get_or_insert_with(|| request.device.to_string()) != request.device {
                    continue;
                }
                // Which event counts may be known only at the end.
                wanted += u64::from(options.event.unwrap_or(TraceEvent::Queued) == request.event);
                taken.push(Taken {
                    event: request.event,
                    is_write: request.is_write,
                    offset_bytes: request.offset_bytes,
                    length_bytes: request.length_bytes,
                });
            }
        }
    }
    let is_there = |event| taken.iter().any(|taken: &Taken| taken.event == event);
    let event = options.event.unwrap_or_else(|| {
        if is_there(TraceEvent::Queued) {
            TraceEvent::Queued
        } else {
            TraceEvent::Issued
        }
    });
    taken.retain(|taken| taken.event == event);
    taken.truncate(usize::try_from(options.requests_max).unwrap_or(usize::MAX));
    if taken.is_empty() {
        let device = device.as_deref().unwrap_or("any device");
        let found = format!("no request of {device} that was {event:?}");
        return Err(refused(path, &found));
    }
    Ok(taken)
}

/// Refuses what no disk was asked for.
fn check(request: &Parsed<'_>) -> std::result::Result<(), String> {
    let Parsed {
        offset_bytes,
        length_bytes,
        ..
    } = *request;
    if length_bytes == 0 || length_bytes > REQUEST_BYTES_MAX {
        return Err(format!(
            "a request of {length_bytes} bytes; 1 to {REQUEST_BYTES_MAX} are possible"
        ));
    }
    // A signed offset is what the system calls take.
    if offset_bytes > i64::MAX as u64 - length_bytes {
        return Err(format!(
            "a request at byte {offset_bytes}, which no disk has"
        ));
    }
    Ok(())
}

/// How lines are understood, by the first of them.
enum Parser {
    Blkparse,
    Csv(csv::Columns),
    /// The first line was no header and no request; it is told when it is parsed.
    Unknown(String),
}

impl Parser {
    fn of(first: &str, format: Option<TraceFormat>) -> Parser {
        match format {
            Some(TraceFormat::Blkparse) => Parser::Blkparse,
            None if !looks_like_csv(first) => Parser::Blkparse,
            _ => csv::Columns::of(first).map_or_else(Parser::Unknown, Parser::Csv),
        }
    }

    fn parse<'l>(&mut self, text: &'l str) -> std::result::Result<Line<'l>, String> {
        match self {
            Parser::Blkparse => blkparse::parse(text),
            Parser::Csv(columns) => columns.parse(text),
            Parser::Unknown(found) => Err(std::mem::take(found)),
        }
    }
}

/// Whether a first line has more commas than the `8,0` with which blkparse begins.
fn looks_like_csv(first: &str) -> bool {
    let word = first.split_whitespace().next().unwrap_or_default();
    let is_device = word.split(',').all(|part| part.parse::<u64>().is_ok());
    first.matches(',').count() >= 2 && !(is_device && word.matches(',').count() == 1)
}

/// Lines of bounded length, with their numbers.
struct Lines<'p, R> {
    reader: R,
    path: &'p Path,
    number: u64,
    text: Vec<u8>,
}

impl<R: BufRead> Lines<'_, R> {
    /// Goes to the next line; false at the end.
    fn advance(&mut self) -> Result<bool> {
        self.text.clear();
        self.number += 1;
        let read = (&mut self.reader)
            .take(LINE_BYTES_MAX)
            .read_until(b'\n', &mut self.text)
            .map_err(|error| refused(self.path, &format!("line {}: {error}", self.number)))?;
        if read as u64 == LINE_BYTES_MAX && self.text.last() != Some(&b'\n') {
            let found = format!("line {} has {LINE_BYTES_MAX} bytes or more", self.number);
            return Err(refused(self.path, &found));
        }
        Ok(read > 0)
    }

    fn text(&self) -> std::result::Result<&str, String> {
        std::str::from_utf8(&self.text).map_err(|_| "bytes that are no text".to_string())
    }
}

fn refused(path: &Path, found: &str) -> Error {
    ErrorKind::Refused {
        path: path.to_path_buf(),
        found: found.to_string(),
        todo: "give a trace as blkparse prints it, or CSV with op,offset_bytes,length_bytes"
            .to_string(),
    }
    .into()
}
