//! Comma-separated lines, with a header or as MSR Cambridge's traces.

use super::line::{Line, Parsed, TraceEvent, number};

/// What the device is called where a trace names none.
const ONLY_DEVICE: &str = "the disk";

/// Columns of an MSR trace: timestamp, host, disk, type, offset, size, latency.
const MSR_COLUMNS: usize = 7;
const MSR: Columns = Columns {
    count: MSR_COLUMNS,
    operation: 3,
    offset: 4,
    length: 5,
    is_msr: true,
    is_first: false,
};

/// Where everything is in a line.
pub(super) struct Columns {
    count: usize,
    operation: usize,
    offset: usize,
    length: usize,
    is_msr: bool,
    /// The header is still to be parsed.
    is_first: bool,
}

impl Columns {
    /// By the first line: a header, or an MSR trace's first request.
    ///
    /// # Errors
    /// It is neither.
    pub(super) fn of(first: &str) -> Result<Columns, String> {
        let names: Vec<&str> = first.split(',').map(str::trim).collect();
        let place_of = |name: &str| {
            names
                .iter()
                .position(|found| found.eq_ignore_ascii_case(name))
        };
        let all = (
            place_of("op"),
            place_of("offset_bytes"),
            place_of("length_bytes"),
        );
        if let (Some(operation), Some(offset), Some(length)) = all {
            return Ok(Columns {
                count: names.len(),
                operation,
                offset,
                length,
                is_msr: false,
                is_first: true,
            });
        }
        if names.len() != MSR_COLUMNS {
            return Err(format!(
                "a header without op, offset_bytes and length_bytes: {:?}",
                first.trim()
            ));
        }
        let is_first = names[MSR.operation].eq_ignore_ascii_case("type");
        Ok(Columns { is_first, ..MSR })
    }

    /// Understands one line.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub(super) fn parse<'l>(&mut self, text: &'l str) -> Result<Line<'l>, String> {
        if std::mem::take(&mut self.is_first) {
            return Ok(Line::Other);
        }
        let text = text.trim_end();
        let fields: Vec<&str> = text.split(',').map(str::trim).collect();
        if fields.len() != self.count {
            return Err(format!("{} fields, not {}", fields.len(), self.count));
        }
        let operation = fields[self.operation];
        let is_any = |names: [&str; 2]| {
            names
                .iter()
                .any(|name| name.eq_ignore_ascii_case(operation))
        };
        let is_write = match () {
            () if is_any(["write", "w"]) => true,
            () if is_any(["read", "r"]) => false,
            () => {
                return Err(format!(
                    "an operation {operation:?}, neither read nor write"
                ));
            }
        };
        Ok(Line::Request(Parsed {
            device: self.device(text)?,
            event: TraceEvent::Queued,
            is_write,
            offset_bytes: number(fields[self.offset], "the offset")?,
            length_bytes: number(fields[self.length], "the length")?,
        }))
    }

    /// `host,disk` of an MSR trace, as the line has it.
    fn device<'l>(&self, text: &'l str) -> Result<&'l str, String> {
        if !self.is_msr {
            return Ok(ONLY_DEVICE);
        }
        let (_, rest) = text.split_once(',').ok_or("no host")?;
        let end = rest.match_indices(',').nth(1).map(|(at, _)| at);
        Ok(&rest[..end.ok_or("no disk")?])
    }
}
