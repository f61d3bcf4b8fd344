//! The lines that blkparse prints: device, processor, sequence, time, process, action, kind, and what
//! the action has to tell.

use super::line::{Line, Parsed, TraceEvent, number};

/// Bytes of the sectors that the kernel counts in, whatever the device's are.
const SECTOR_BYTES: u64 = 512;

/// Words before what the action tells.
const WORDS: usize = 7;

/// Understands one line.
///
/// # Errors
/// What is wrong with it, in words.
pub(super) fn parse(text: &str) -> Result<Line<'_>, String> {
    if text.starts_with("CPU") || text.starts_with("Total") {
        return Ok(Line::End);
    }
    let mut words = text.split_whitespace();
    let head: Vec<&str> = words.by_ref().take(WORDS).collect();
    let [device, processor, sequence, time, process, action, kind] = head[..] else {
        return Err(format!("{} words, too few for an event", head.len()));
    };
    let (major, minor) = device
        .split_once(',')
        .ok_or_else(|| format!("a device {device:?}, which is not like 8,0"))?;
    for (text, what) in [
        (major, "the device's first part"),
        (minor, "its second part"),
        (processor, "the processor"),
        (sequence, "the sequence"),
        (process, "the process"),
    ] {
        number(text, what)?;
    }
    if !time.parse::<f64>().is_ok_and(|seconds| seconds >= 0.0) {
        return Err(format!("a time of {time:?}"));
    }
    let event = match action {
        "Q" => TraceEvent::Queued,
        "D" => TraceEvent::Issued,
        "C" => TraceEvent::Completed,
        _ => return Ok(Line::Other),
    };
    let Some(is_write) = direction(kind) else {
        return Ok(Line::Other);
    };
    let Some((sector, sectors)) = range(words)? else {
        return Ok(Line::Other);
    };
    let bytes = |sectors: u64, what| {
        let bytes = sectors.checked_mul(SECTOR_BYTES);
        bytes.ok_or_else(|| format!("{what} of {sectors} sectors"))
    };
    Ok(Line::Request(Parsed {
        device,
        event,
        is_write,
        offset_bytes: bytes(sector, "an offset")?,
        length_bytes: bytes(sectors, "a request")?,
    }))
}

/// Whether a kind such as `WS` or `RA` writes; none if it moves no data. A leading F is a flush
/// before it; D discards.
fn direction(kind: &str) -> Option<bool> {
    match kind.strip_prefix('F').unwrap_or(kind).bytes().next() {
        Some(b'W') => Some(true),
        Some(b'R') => Some(false),
        _ => None,
    }
}

/// `sector + sectors`; none where blkparse prints none, for flushes and for commands of SCSI.
fn range<'l>(mut words: impl Iterator<Item = &'l str>) -> Result<Option<(u64, u64)>, String> {
    let Some(first) = words.next() else {
        return Err("it ends before its sector".to_string());
    };
    if first.starts_with('[') {
        return Ok(None);
    }
    let sector = number(first, "the sector")?;
    match words.next() {
        Some("+") => {
            let sectors = words.next().ok_or("it ends before its length")?;
            let sectors = number(sectors, "the length")?;
            Ok((sectors > 0).then_some((sector, sectors)))
        }
        Some(word) if word.starts_with(['[', '(']) => Ok(None),
        word => Err(format!(
            "{:?} after the sector, not +",
            word.unwrap_or_default()
        )),
    }
}
