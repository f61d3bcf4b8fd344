//! The namespace log in its area: records behind each other in one half, then a new beginning in the
//! other.
//!
//! A half is made ready (zeroed, records, header last) while the other one still counts. The header's
//! transaction is what switches: before it the old half is whole, after it the new one is.

use std::io;
use std::sync::Arc;

use super::media::{self, HALF_HEADER_BYTES, HalfHeader, Next, RECORD_BYTES_MAX, REMADE_BYTES_MAX};
use super::record::Record;
use crate::metadata::Durable;

/// Where the log lies.
pub(crate) trait LogArea: Send + Sync {
    /// Bytes of it.
    fn len_bytes(&self) -> u64;
    /// Reads from byte `offset`.
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;
    /// Writes, whole or not at all. A crash leaves a prefix of all writes.
    fn write(&self, offset: u64, bytes: &[u8], durable: Durable) -> io::Result<()>;
    /// Makes a range of at most [`PIECE_BYTES`] read as zeroes; a crash may leave part of it done.
    fn zero(&self, offset: u64, len_bytes: u64, durable: Durable) -> io::Result<()>;
}

/// How much is read, written or zeroed in one piece where it need not be whole. Halves are multiples.
pub(crate) const PIECE_BYTES: usize = 32 << 10;

/// Room that only recovery may use, beside what it may need for each inode that was made: of a small log an eighth.
const RECOVERY_BYTES: u64 = 64 << 10;

/// The log.
pub(crate) struct Log {
    area: Arc<dyn LogArea>,
    /// 0 or 1: the half that counts.
    half: u64,
    /// Where the next record goes, from the start of the half.
    tail: u64,
    /// Up to here an append that failed may have left something: the next one covers it, or its bytes would be taken for
    /// a damaged record.
    spoiled: u64,
    next_sequence: u64,
    /// Room for what recovery records of each inode that the log says was made, should it make that anew.
    promised: u64,
    buffer: Vec<u8>,
}

/// A log that is being made.
pub(super) struct NextLog {
    /// Which it is: a sync that began before it was prepared does not tell that it may count.
    pub(super) number: u64,
    pub(super) records: Vec<Record>,
    /// So many of them were there from the beginning.
    pub(super) carried: usize,
}

impl Log {
    /// Reads the half that counts; nothing if no log was ever begun here.
    pub(crate) fn open(area: Arc<dyn LogArea>) -> io::Result<(Log, Vec<Record>)> {
        let mut log = Log {
            area,
            half: 1,
            tail: 0,
            spoiled: 0,
            next_sequence: 1,
            promised: 0,
            buffer: Vec::new(),
        };
        let headers = [log.header(0)?, log.header(1)?];
        let first = |half: usize| headers[half].map_or(0, |header| header.first_sequence);
        if headers == [None, None] {
            return Ok((log, Vec::new()));
        }
        log.half = u64::from(first(1) > first(0));
        let header = headers[log.half as usize].expect("the greater one is there");
        log.next_sequence = header.first_sequence;
        let records = log.scan()?;
        Ok((log, records))
    }

    /// Appends records in one transaction. `false` if there is no room: begin a new log first.
    pub(crate) fn append(&mut self, records: &[Record], durable: Durable) -> io::Result<bool> {
        let promised = promised(self.promised, records);
        let end = self.working_bytes().saturating_sub(promised);
        self.append_up_to(end, records, durable)
    }

    /// The same for what recovery cannot do without: it may use all room that there is. Durable before recovery changes the backing.
    pub(crate) fn append_in_recovery(&mut self, records: &[Record]) -> io::Result<bool> {
        self.append_up_to(self.half_bytes(), records, Durable::AtOnce)
    }

    /// The same for what it can do without.
    pub(crate) fn append_dispensable(&mut self, records: &[Record]) -> io::Result<bool> {
        let end = self.half_bytes().saturating_sub(self.promised);
        self.append_up_to(end, records, Durable::AtOnce)
    }

    fn append_up_to(&mut self, end: u64, records: &[Record], durable: Durable) -> io::Result<bool> {
        let mut bytes = std::mem::take(&mut self.buffer);
        bytes.clear();
        for (record, sequence) in records.iter().zip(self.next_sequence..) {
            media::encode(record, sequence, &mut bytes);
        }
        let len = bytes.len() as u64;
        let fits = self.tail + len <= end;
        let mut done = Ok(());
        if fits {
            let spoiled = self.spoiled.saturating_sub(self.tail);
            bytes.resize(len.max(spoiled) as usize, 0);
            let start = self.half * self.half_bytes() + self.tail;
            done = self.area.write(start, &bytes, durable);
        }
        self.buffer = bytes;
        if let Err(error) = done {
            self.spoiled = self.spoiled.max(self.tail + len);
            return Err(error);
        }
        if fits {
            self.tail += len;
            self.promised = promised(self.promised, records);
            self.next_sequence += records.len() as u64;
        }
        Ok(fits)
    }

    /// Begins a new log that holds `records`; the old one does not count any more. `false` if they do
    /// not fit, and nothing has changed.
    pub(crate) fn begin(&mut self, records: &[Record]) -> io::Result<bool> {
        let half = 1 - self.half;
        let start = half * self.half_bytes();
        // Sequences go on, so that no record of an earlier lap is taken for one of this.
        let first_sequence = self.next_sequence;
        let mut bytes = Vec::new();
        for (record, sequence) in records.iter().zip(first_sequence..) {
            media::encode(record, sequence, &mut bytes);
        }
        let len = (HALF_HEADER_BYTES + bytes.len()) as u64;
        let promised = promised(0, records);
        if len + promised > self.working_bytes() {
            return Ok(false);
        }
        self.clear(start)?;
        let mut at = start + HALF_HEADER_BYTES as u64;
        for piece in bytes.chunks(PIECE_BYTES) {
            self.area.write(at, piece, Durable::AfterSync)?;
            at += piece.len() as u64;
        }
        let header = HalfHeader::new(first_sequence);
        // The switch, durable with all that the half has: what it tells no more, the backing has.
        self.area.write(start, &header.encode(), Durable::AtOnce)?;
        self.half = half;
        self.tail = len;
        self.promised = promised;
        self.spoiled = 0;
        self.next_sequence = first_sequence + records.len() as u64;
        Ok(true)
    }

    /// Zeroes a half. The end goes first, so that what is not zero is always one run at the start.
    fn clear(&self, start: u64) -> io::Result<()> {
        let mut piece = vec![0; PIECE_BYTES];
        let mut used = 0;
        while used < self.half_bytes() {
            self.area.read(start + used, &mut piece)?;
            if piece.iter().all(|byte| *byte == 0) {
                break;
            }
            used += PIECE_BYTES as u64;
        }
        while used > 0 {
            used -= PIECE_BYTES as u64;
            self.area
                .zero(start + used, PIECE_BYTES as u64, Durable::AfterSync)?;
        }
        Ok(())
    }

    /// How full the half is: bytes used and promised, bytes in all but what only recovery may use.
    pub(crate) fn fill(&self) -> (u64, u64) {
        (self.tail + self.promised, self.working_bytes())
    }

    fn working_bytes(&self) -> u64 {
        let half_bytes = self.half_bytes();
        half_bytes - RECOVERY_BYTES.min(half_bytes / 8)
    }

    /// What the half that counts holds, read from the area.
    pub(crate) fn read_again(&self) -> io::Result<Vec<Record>> {
        Ok(Log::open(Arc::clone(&self.area))?.1)
    }

    fn half_bytes(&self) -> u64 {
        self.area.len_bytes() / 2 / PIECE_BYTES as u64 * PIECE_BYTES as u64
    }

    fn header(&self, half: u64) -> io::Result<Option<HalfHeader>> {
        let mut bytes = [0; HALF_HEADER_BYTES];
        self.area.read(half * self.half_bytes(), &mut bytes)?;
        HalfHeader::decode(&bytes).map_err(|found| damaged(half, &found))
    }

    /// Reads the records of the half that counts; the tail is behind them then.
    fn scan(&mut self) -> io::Result<Vec<Record>> {
        let start = self.half * self.half_bytes();
        let mut records = Vec::new();
        let mut window: Vec<u8> = Vec::new();
        let mut used = 0;
        self.tail = HALF_HEADER_BYTES as u64;
        loop {
            if window.len() - used < RECORD_BYTES_MAX {
                let read_to = self.tail + (window.len() - used) as u64;
                let more = (self.half_bytes() - read_to).min(PIECE_BYTES as u64) as usize;
                window.drain(..used);
                used = 0;
                let kept = window.len();
                window.resize(kept + more, 0);
                self.area.read(start + read_to, &mut window[kept..])?;
            }
            let next = media::decode(&window[used..], self.next_sequence)
                .map_err(|found| damaged(self.half, &found))?;
            let Next::Record(record, len) = next else {
                return Ok(records);
            };
            self.promised = promised(self.promised, std::slice::from_ref(&record));
            records.push(record);
            used += len;
            self.tail += len as u64;
            self.next_sequence += 1;
        }
    }
}

/// The room that is promised when these are recorded behind what `before` was promised for.
fn promised(before: u64, records: &[Record]) -> u64 {
    let one = REMADE_BYTES_MAX as u64;
    records
        .iter()
        .fold(before, |promised, record| match record {
            Record::Create { .. } => promised + one,
            Record::Remade { .. } => promised.saturating_sub(one),
            _ => promised,
        })
}

fn damaged(half: u64, found: &str) -> io::Error {
    let text = format!(
        "the namespace log, half {half}: {found}; the medium lost data: check the pool with \
         `forebay check`"
    );
    io::Error::new(io::ErrorKind::InvalidData, text)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::metadata::FileId;
    use crate::names::proof::Proof;
    use crate::names::space::{Creation, Identity, Place};
    use std::sync::Mutex;

    /// An area in memory, every write of which is durable.
    pub(crate) struct MemoryArea(pub Mutex<Vec<u8>>);

    impl MemoryArea {
        pub(crate) fn new(len: usize) -> Arc<MemoryArea> {
            Arc::new(MemoryArea(Mutex::new(vec![0; len])))
        }
    }

    impl LogArea for MemoryArea {
        fn len_bytes(&self) -> u64 {
            self.0.lock().unwrap().len() as u64
        }

        fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            out.copy_from_slice(&self.0.lock().unwrap()[offset as usize..][..out.len()]);
            Ok(())
        }

        fn write(&self, offset: u64, bytes: &[u8], _durable: Durable) -> io::Result<()> {
            self.0.lock().unwrap()[offset as usize..][..bytes.len()].copy_from_slice(bytes);
            Ok(())
        }

        fn zero(&self, offset: u64, len_bytes: u64, _durable: Durable) -> io::Result<()> {
            self.0.lock().unwrap()[offset as usize..][..len_bytes as usize].fill(0);
            Ok(())
        }
    }

    fn record(number: u64) -> Record {
        Record::Unlink {
            id: FileId(number),
            place: Place {
                parent: FileId::ROOT,
                name: format!("file-{number}").into(),
            },
        }
    }

    fn records_of(area: &Arc<MemoryArea>) -> Vec<Record> {
        Log::open(area.clone()).unwrap().1
    }

    #[test]
    fn what_is_appended_is_found_until_a_new_log_begins() {
        let area = MemoryArea::new(64 << 10);
        let (mut log, found) = Log::open(area.clone()).unwrap();
        assert!(found.is_empty());
        assert!(log.begin(&[record(1)]).unwrap());
        let mut expected = vec![record(1)];
        let mut number = 2;
        while log
            .append(&[record(number), record(number + 1)], Durable::AtOnce)
            .unwrap()
        {
            expected.extend([record(number), record(number + 1)]);
            number += 2;
        }
        // 56 bytes a record, but for the first ones, whose names are shorter; an eighth is recovery's.
        assert_eq!(expected.len(), ((28 << 10) - 64) / 56 / 2 * 2 + 1);
        assert_eq!(records_of(&area), expected);
        let (mut log, _) = Log::open(area.clone()).unwrap();
        assert!(log.begin(&[record(5)]).unwrap());
        assert!(log.append(&[record(6)], Durable::AtOnce).unwrap());
        assert_eq!(records_of(&area), [record(5), record(6)]);
        assert!(log.begin(&[]).unwrap());
        assert!(records_of(&area).is_empty());
    }

    fn identity(number: u64) -> Identity {
        Identity {
            device: 1,
            inode: number,
            proof: Proof::of_handle(1, &[7; 128], Some(1)),
        }
    }

    #[test]
    fn all_that_was_made_can_be_made_anew_however_full_the_log_is() {
        let area = MemoryArea::new(128 << 10);
        let (mut log, _) = Log::open(area.clone()).unwrap();
        assert!(log.begin(&[]).unwrap());
        let create = |number| Record::Create {
            id: FileId(number),
            identity: identity(number),
            creation: Creation {
                mode: libc::S_IFREG | 0o644,
                user: 0,
                group: 0,
                device: 0,
                target: "".into(),
            },
            place: Place {
                parent: FileId::ROOT,
                name: "f".into(),
            },
        };
        let mut made = 0;
        while log.append(&[create(made)], Durable::AtOnce).unwrap() {
            made += 1;
        }
        assert!(made > 200, "{made}");
        let (mut log, _) = Log::open(area).unwrap();
        // What recovery can do without does not take their room.
        while log.append_dispensable(&[Record::Abort]).unwrap() {}
        for number in 0..made {
            let (id, identity) = (FileId(number), identity(made + number));
            let remade = Record::Remade { id, identity };
            assert!(log.append_in_recovery(&[remade]).unwrap(), "{number}");
        }
    }

    #[test]
    fn a_new_log_that_has_no_header_yet_does_not_count() {
        let area = MemoryArea::new(64 << 10);
        let (mut log, _) = Log::open(area.clone()).unwrap();
        assert!(log.begin(&[record(1)]).unwrap());
        let before = area.0.lock().unwrap().clone();
        assert!(log.begin(&[record(2)]).unwrap());
        let after = area.0.lock().unwrap().clone();
        // All that was written but for the header.
        let mut image = after;
        let header = PIECE_BYTES..PIECE_BYTES + HALF_HEADER_BYTES;
        image[header.clone()].copy_from_slice(&before[header]);
        *area.0.lock().unwrap() = image;
        assert_eq!(records_of(&area), [record(1)]);
    }

    #[test]
    fn damage_is_told_and_nothing_is_guessed() {
        let area = MemoryArea::new(64 << 10);
        let (mut log, _) = Log::open(area.clone()).unwrap();
        assert!(log.begin(&[record(1), record(2)]).unwrap());
        area.0.lock().unwrap()[100] ^= 1;
        let error = Log::open(area).map(drop).unwrap_err();
        assert!(error.to_string().contains("record 1 is damaged"), "{error}");
    }
}
