//! What clients ask for: sizes from a sector to a MiB, all kinds, overwrites and far reads mixed.

use std::ops::Range;

use fastrand::Rng;

use crate::model::Runs;
use crate::stamp::SECTOR_BYTES;

/// Requests sent at once, at most.
const BATCH_MAX: usize = 12;
/// Bytes sent at once, at most; a client that asks for more at a time would measure its own queue.
const BATCH_BYTES_MAX: u64 = 2 << 20;
/// Bytes to read that may stand beside data to write: replies that fit the socket's buffer, so that
/// neither side waits for the other to receive.
const READ_BESIDE_WRITES_BYTES_MAX: u64 = 64 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Read,
    Write,
    WriteFua,
    Zero,
    ZeroNoHole,
    Trim,
    Flush,
}

impl Kind {
    /// Whether it changes sectors.
    pub fn is_change(self) -> bool {
        !matches!(self, Kind::Read | Kind::Flush)
    }

    /// Whether it brings data.
    pub fn has_data(self) -> bool {
        matches!(self, Kind::Write | Kind::WriteFua)
    }
}

#[derive(Clone, Debug)]
pub struct Request {
    pub kind: Kind,
    pub bytes: Range<u64>,
    /// What it makes of them; 0 is zeroes.
    pub version: u32,
}

impl Request {
    pub fn length(&self) -> u64 {
        self.bytes.end - self.bytes.start
    }
}

/// Draws requests of one client.
#[derive(Debug)]
pub struct Choice {
    pub rng: Rng,
    pub runs: Runs,
    pub client: u64,
    /// The last version that was given out.
    pub version: u32,
    /// No request is longer, so that each is one transaction.
    pub length_max: u64,
}

impl Choice {
    pub fn batch(&mut self) -> Vec<Request> {
        let mut batch: Vec<Request> = Vec::new();
        let is_for_reading = self.rng.u32(..100) < 40;
        let read_bytes_max = if is_for_reading {
            BATCH_BYTES_MAX
        } else {
            READ_BESIDE_WRITES_BYTES_MAX
        };
        let (mut bytes, mut read_bytes) = (0, 0);
        for _ in 0..self.rng.usize(1..=BATCH_MAX) {
            let request = self.request(is_for_reading);
            let overlaps = |other: &Request| {
                other.bytes.start < request.bytes.end && request.bytes.start < other.bytes.end
            };
            let length = request.length();
            let is_read = request.kind == Kind::Read;
            if batch.iter().any(overlaps)
                || bytes + length > BATCH_BYTES_MAX
                || (is_read && read_bytes + length > read_bytes_max)
            {
                continue;
            }
            bytes += length;
            read_bytes += if is_read { length } else { 0 };
            batch.push(request);
        }
        batch
    }

    fn request(&mut self, is_for_reading: bool) -> Request {
        let kind = match (is_for_reading, self.rng.u32(..100)) {
            (true, 0..96) | (false, 70..85) => Kind::Read,
            (true, _) | (false, 97..) => Kind::Flush,
            (false, 0..55) => Kind::Write,
            (false, 55..70) => Kind::WriteFua,
            (false, 85..89) => Kind::Zero,
            (false, 89..92) => Kind::ZeroNoHole,
            (false, _) => Kind::Trim,
        };
        let bytes = if kind == Kind::Flush {
            0..0
        } else {
            self.bytes()
        };
        let mut version = 0;
        if kind.has_data() {
            self.version += 1;
            version = self.version;
        }
        Request {
            kind,
            bytes,
            version,
        }
    }

    fn bytes(&mut self) -> Range<u64> {
        const KIB: u64 = 1 << 10;
        let sector = SECTOR_BYTES as u64;
        let length = match self.rng.u32(..100) {
            0..10 => sector,
            10..20 => sector * self.rng.u64(1..=24),
            20..60 => 4 * KIB,
            60..75 => 4 * KIB * self.rng.u64(1..=8),
            75..88 => 64 * KIB,
            88..94 => sector * self.rng.u64(100..=600),
            94..98 => 256 * KIB,
            _ => 1024 * KIB,
        };
        let length = length.min(self.length_max);
        // Half of the requests go to an eighth of the runs, so that much is overwritten soon.
        let count = self.runs.count();
        let hot = (count / 8).max(1);
        let run = if self.rng.bool() {
            self.rng.u64(..hot)
        } else {
            self.rng.u64(..count)
        };
        let run = self.runs.bytes(self.client, run);
        let room = run.end - run.start - length;
        let mut start = run.start + self.rng.u64(..=room / sector) * sector;
        let aligned = start.next_multiple_of(4 * KIB);
        if self.rng.u32(..100) < 70 && aligned + length <= run.end {
            start = aligned;
        }
        start..start + length
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_the_clients_own_and_do_not_overlap() {
        let runs = Runs {
            volume_bytes: 16 << 20,
            clients: 2,
        };
        let mut choice = Choice {
            rng: Rng::with_seed(7),
            runs,
            client: 1,
            version: 0,
            length_max: u64::MAX,
        };
        for _ in 0..500 {
            let batch = choice.batch();
            for (index, request) in batch.iter().enumerate() {
                for offset in request.bytes.clone().step_by(SECTOR_BYTES) {
                    assert_eq!(runs.owner(offset), 1);
                    let others = batch.iter().enumerate();
                    let mut others = others.filter(|(other, _)| *other != index);
                    assert!(others.all(|(_, other)| !other.bytes.contains(&offset)));
                }
            }
        }
    }
}
