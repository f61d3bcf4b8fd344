//! Every byte of the namespace log, declared once.
//!
//! The log has two halves, one of which counts: that with the valid header of the greater first
//! sequence. After the header stand records, each with the next sequence; zeroes end them. Numbers
//! are little-endian, records are padded to 8 bytes, and what is reserved is zero. The cache makes
//! each append whole or absent, so that a CRC fails only where the media did.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use super::attributes::{Moment, Outcome, Rights, Theirs, VALUE_BYTES_MAX};
use super::file_system::{MARK_BYTES, Mark};
use super::proof::{PROOF_BYTES_MAX, Proof};
use super::record::Record;
use super::space::{BOOT_BYTES, Creation, Identity, Mounting, Place};
use crate::metadata::FileId;
use crate::mutants::{Mutant, mutated};

/// First eight bytes of a half that counts: the last one is the version of its records.
const MAGIC: [u8; 8] = *b"FBNAMES\x04";
/// A version before, which has no attributes, is read as well. (Version 3 never left this tree.)
const MAGIC_WITHOUT_ATTRIBUTES: [u8; 8] = *b"FBNAMES\x02";
const SECOND_NS: i128 = 1_000_000_000;
/// Bytes of the header of a half.
pub(super) const HALF_HEADER_BYTES: usize = 64;
/// Bytes of the header of a record.
pub(super) const RECORD_HEADER_BYTES: usize = 24;
/// Records begin at multiples of this.
const RECORD_ALIGNMENT_BYTES: usize = 8;
/// A record cannot be longer: two names and a symbolic link's target.
pub(super) const RECORD_BYTES_MAX: usize = 8192;
/// Device, number, and the proof with its sort and length, a byte each.
const IDENTITY_BYTES_MAX: usize = 8 + 8 + 2 + PROOF_BYTES_MAX;
/// Id, identity, mode, owner, group, device; a target of at most a page, a parent and a name.
const CREATE_BYTES_MAX: usize =
    RECORD_HEADER_BYTES + 8 + IDENTITY_BYTES_MAX + 4 * 3 + 8 + (2 + 4096) + (8 + 2 + 255);
const _: () = assert!(CREATE_BYTES_MAX <= RECORD_BYTES_MAX, "on the media");
/// Id and identity of what recovery made anew.
pub(super) const REMADE_BYTES_MAX: usize =
    (RECORD_HEADER_BYTES + 8 + IDENTITY_BYTES_MAX).next_multiple_of(RECORD_ALIGNMENT_BYTES);
/// Id, time of change, a name and a value.
const VALUE_RECORD_BYTES_MAX: usize =
    RECORD_HEADER_BYTES + 8 + 12 + (2 + 255) + (2 + VALUE_BYTES_MAX);
/// Ids that one record names at most.
pub(super) const IDS_MAX: usize = (RECORD_BYTES_MAX - RECORD_HEADER_BYTES - 3) / 8;
const _: () = assert!(VALUE_RECORD_BYTES_MAX <= RECORD_BYTES_MAX, "on the media");
const _: () = assert!(IDS_MAX <= u16::MAX as usize, "on the media");
const _: () = assert!(PROOF_BYTES_MAX <= u8::MAX as usize, "on the media");
const _: () = assert!(BOOT_BYTES == 16 && MARK_BYTES == 16, "on the media");

/// What a half begins with.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct HalfHeader {
    magic: [u8; 8],
    /// The sequence of its first record.
    pub first_sequence: u64,
    reserved: [u8; 44],
    crc: [u8; 4],
}
const _: () = assert!(size_of::<HalfHeader>() == HALF_HEADER_BYTES, "on the media");

/// What a record begins with.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct RecordHeader {
    /// Of everything behind it, the padding included.
    crc: u32,
    /// Of the record, header and padding included.
    len_bytes: u32,
    sequence: u64,
    kind: u8,
    reserved: [u8; 7],
}
const _: () = assert!(
    size_of::<RecordHeader>() == RECORD_HEADER_BYTES,
    "on the media"
);

impl HalfHeader {
    /// A half that begins with this sequence.
    pub(super) fn new(first_sequence: u64) -> HalfHeader {
        HalfHeader {
            magic: MAGIC,
            first_sequence,
            reserved: [0; 44],
            crc: [0; 4],
        }
    }

    pub(super) fn encode(&self) -> [u8; HALF_HEADER_BYTES] {
        let mut bytes = [0; HALF_HEADER_BYTES];
        bytes[..8].copy_from_slice(&self.magic);
        bytes[8..16].copy_from_slice(&self.first_sequence.to_le_bytes());
        let crc = forebay_pmem::crc32c(&bytes[..HALF_HEADER_BYTES - 4]);
        bytes[HALF_HEADER_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// None for a half that was never begun; the error is what is wrong with it.
    pub(super) fn decode(bytes: &[u8; HALF_HEADER_BYTES]) -> Result<Option<HalfHeader>, String> {
        if bytes.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let is_known = [MAGIC, MAGIC_WITHOUT_ATTRIBUTES]
            .iter()
            .any(|magic| bytes[..8] == *magic);
        if bytes[..7] == MAGIC[..7] && !is_known {
            return Err(format!(
                "it is of format {}, and this program knows {} and {} only: recover the pool with the \
                 program that made it",
                bytes[7], MAGIC_WITHOUT_ATTRIBUTES[7], MAGIC[7]
            ));
        }
        let first_sequence = u64::from_le_bytes(bytes[8..16].try_into().expect("8 bytes"));
        let mut header = HalfHeader::new(first_sequence);
        if is_known {
            header.magic = bytes[..8].try_into().expect("8 bytes");
        }
        if header.encode() != *bytes {
            return Err(String::from("its header is damaged"));
        }
        Ok(Some(header))
    }
}

/// What stands at the beginning of some bytes of the log.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Next {
    /// This record, so many bytes long.
    Record(Record, usize),
    /// Nothing any more.
    End,
}

/// Appends the record to `out`.
pub(super) fn encode(record: &Record, sequence: u64, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + RECORD_HEADER_BYTES, 0);
    let mut writer = Writer(out);
    let kind = writer.body(record);
    let len = (out.len() - start).next_multiple_of(RECORD_ALIGNMENT_BYTES);
    out.resize(start + len, 0);
    assert!(len <= RECORD_BYTES_MAX, "names have a longest length");
    let bytes = &mut out[start..];
    bytes[4..8].copy_from_slice(&(len as u32).to_le_bytes());
    bytes[8..16].copy_from_slice(&sequence.to_le_bytes());
    bytes[16] = kind;
    let crc = forebay_pmem::crc32c(&bytes[4..]);
    bytes[..4].copy_from_slice(&crc.to_le_bytes());
}

/// The record that `bytes` begin with, which has to have this sequence; the error is what is wrong.
pub(super) fn decode(bytes: &[u8], sequence: u64) -> Result<Next, String> {
    let Some(header) = bytes.get(..RECORD_HEADER_BYTES) else {
        return Ok(Next::End);
    };
    if header.iter().all(|byte| *byte == 0) {
        return Ok(Next::End);
    }
    let number = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("4 bytes"));
    let len = number(4) as usize;
    let found = u64::from_le_bytes(header[8..16].try_into().expect("8 bytes"));
    if !(RECORD_HEADER_BYTES..=RECORD_BYTES_MAX.min(bytes.len())).contains(&len)
        || forebay_pmem::crc32c(&bytes[4..len]) != number(0)
    {
        return Err(format!("record {sequence} is damaged"));
    }
    if found != sequence {
        return Err(format!("record {found} stands where {sequence} belongs"));
    }
    let mut reader = Reader(&bytes[RECORD_HEADER_BYTES..len]);
    match reader.body(header[16]) {
        Some(record) => Ok(Next::Record(record, len)),
        None => Err(format!("record {sequence} cannot be understood")),
    }
}

struct Writer<'a>(&'a mut Vec<u8>);

impl Writer<'_> {
    /// Returns the kind.
    fn body(&mut self, record: &Record) -> u8 {
        match record {
            Record::Introduce {
                id,
                mode,
                identity,
                place,
            } => {
                self.id(*id).number(*mode).identity(identity).place(place);
                1
            }
            Record::Create {
                id,
                identity,
                creation,
                place,
            } => {
                self.id(*id).identity(identity).creation(creation);
                self.place(place);
                2
            }
            Record::Link { id, place } => {
                self.id(*id).place(place);
                3
            }
            Record::Unlink { id, place } => {
                self.id(*id).place(place);
                4
            }
            Record::Rename { id, from, to } => {
                self.id(*id).place(from).place(to);
                5
            }
            Record::Exchange { one, other } => {
                self.place(one).place(other);
                6
            }
            Record::Abort => 7,
            Record::Remade { id, identity } => {
                self.id(*id).identity(identity);
                8
            }
            Record::Reconciling => 9,
            Record::Mounted { device, mounting } => {
                self.put(&device.to_le_bytes()).put(&mounting.boot);
                self.put(&mounting.mount.to_le_bytes());
                10
            }
            Record::FileSystem { device, mark } => {
                let (sort, bytes) = mark.parts();
                self.put(&device.to_le_bytes()).put(&[sort]).put(&bytes);
                11
            }
            Record::Attribute {
                id,
                changed,
                outcome,
            } => self.id(*id).moment(*changed).outcome(outcome),
            Record::Settled { id } => {
                self.id(*id);
                15
            }
            Record::Others { theirs, ids } => {
                let count = u16::try_from(ids.len()).expect("there are at most IDS_MAX");
                self.put(&[theirs.bits()]).put(&count.to_le_bytes());
                for id in ids {
                    self.id(*id);
                }
                16
            }
            Record::Recovering { boot, at, ends } => {
                self.put(boot).moment(*at).put(&[u8::from(*ends)]);
                17
            }
        }
    }

    /// Returns the kind.
    fn outcome(&mut self, outcome: &Outcome) -> u8 {
        match outcome {
            Outcome::Rights(rights) => {
                self.number(rights.mode);
                self.number(rights.user).number(rights.group);
                12
            }
            Outcome::Value(name, Some(value)) => {
                let is_cut = mutated(Mutant::FilesAttributeCutShort) && !value.is_empty();
                self.text(name)
                    .value(&value[..value.len() - usize::from(is_cut)]);
                13
            }
            Outcome::Value(name, None) => {
                self.text(name);
                14
            }
        }
    }

    fn put(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    fn id(&mut self, id: FileId) -> &mut Self {
        self.put(&id.0.to_le_bytes())
    }

    fn number(&mut self, number: u32) -> &mut Self {
        self.put(&number.to_le_bytes())
    }

    fn text(&mut self, text: &OsStr) -> &mut Self {
        let len = u16::try_from(text.len()).expect("names and targets are shorter than 64 KiB");
        self.put(&len.to_le_bytes()).put(text.as_bytes())
    }

    fn value(&mut self, value: &[u8]) -> &mut Self {
        let len = u16::try_from(value.len()).expect("longer values are not recorded");
        self.put(&len.to_le_bytes()).put(value)
    }

    fn moment(&mut self, moment: Moment) -> &mut Self {
        let seconds = moment.div_euclid(SECOND_NS) as i64;
        self.put(&seconds.to_le_bytes())
            .number(moment.rem_euclid(SECOND_NS) as u32)
    }

    fn place(&mut self, place: &Place) -> &mut Self {
        self.id(place.parent).text(&place.name)
    }

    fn identity(&mut self, identity: &Identity) -> &mut Self {
        let (sort, bytes) = identity.proof.parts();
        self.put(&identity.device.to_le_bytes())
            .put(&identity.inode.to_le_bytes())
            .put(&[sort, bytes.len() as u8])
            .put(bytes)
    }

    fn creation(&mut self, creation: &Creation) -> &mut Self {
        self.number(creation.mode)
            .number(creation.user)
            .number(creation.group)
            .put(&creation.device.to_le_bytes())
            .text(&creation.target)
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn body(&mut self, kind: u8) -> Option<Record> {
        Some(match kind {
            1 => Record::Introduce {
                id: self.id()?,
                mode: self.number()?,
                identity: self.identity()?,
                place: self.place()?,
            },
            2 => Record::Create {
                id: self.id()?,
                identity: self.identity()?,
                creation: self.creation()?,
                place: self.place()?,
            },
            3 => Record::Link {
                id: self.id()?,
                place: self.place()?,
            },
            4 => Record::Unlink {
                id: self.id()?,
                place: self.place()?,
            },
            5 => Record::Rename {
                id: self.id()?,
                from: self.place()?,
                to: self.place()?,
            },
            6 => Record::Exchange {
                one: self.place()?,
                other: self.place()?,
            },
            7 => Record::Abort,
            8 => Record::Remade {
                id: self.id()?,
                identity: self.identity()?,
            },
            9 => Record::Reconciling,
            10 => Record::Mounted {
                device: u64::from_le_bytes(self.array()?),
                mounting: Mounting {
                    boot: self.array::<BOOT_BYTES>()?,
                    mount: u64::from_le_bytes(self.array()?),
                },
            },
            11 => {
                let device = u64::from_le_bytes(self.array()?);
                let [sort] = self.array()?;
                let mark = Mark::from_parts(sort, self.array::<MARK_BYTES>()?)?;
                Record::FileSystem { device, mark }
            }
            12..=14 => Record::Attribute {
                id: self.id()?,
                changed: self.moment()?,
                outcome: self.outcome(kind)?,
            },
            15 => Record::Settled { id: self.id()? },
            16 => {
                let [bits] = self.array()?;
                let theirs = Theirs::from_bits(bits)?;
                let count = usize::from(u16::from_le_bytes(self.array()?));
                let ids: Option<Vec<FileId>> = (0..count).map(|_| self.id()).collect();
                Record::Others { theirs, ids: ids? }
            }
            17 => Record::Recovering {
                boot: self.array()?,
                at: self.moment()?,
                ends: match self.array()? {
                    [0] => false,
                    [1] => true,
                    _ => return None,
                },
            },
            _ => return None,
        })
    }

    fn outcome(&mut self, kind: u8) -> Option<Outcome> {
        Some(match kind {
            12 => Outcome::Rights(Rights {
                mode: self.number()?,
                user: self.number()?,
                group: self.number()?,
            }),
            13 => Outcome::Value(self.text()?, Some(self.value()?)),
            14 => Outcome::Value(self.text()?, None),
            _ => return None,
        })
    }

    fn take(&mut self, len: usize) -> Option<&[u8]> {
        let (now, later) = self.0.split_at_checked(len)?;
        self.0 = later;
        Some(now)
    }

    fn array<const LEN: usize>(&mut self) -> Option<[u8; LEN]> {
        self.take(LEN)?.try_into().ok()
    }

    fn id(&mut self) -> Option<FileId> {
        Some(FileId(u64::from_le_bytes(self.array()?)))
    }

    fn number(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.array()?))
    }

    fn text(&mut self) -> Option<OsString> {
        self.value().map(OsString::from_vec)
    }

    fn value(&mut self) -> Option<Vec<u8>> {
        let len = u16::from_le_bytes(self.array()?);
        Some(self.take(usize::from(len))?.to_vec())
    }

    fn moment(&mut self) -> Option<Moment> {
        let seconds = i128::from(i64::from_le_bytes(self.array()?));
        let nanoseconds = i128::from(self.number()?);
        (nanoseconds < SECOND_NS).then_some(seconds * SECOND_NS + nanoseconds)
    }

    fn place(&mut self) -> Option<Place> {
        Some(Place {
            parent: self.id()?,
            name: self.text()?,
        })
    }

    fn identity(&mut self) -> Option<Identity> {
        let (device, inode) = (self.array()?, self.array()?);
        let [sort, len] = self.array()?;
        Some(Identity {
            device: u64::from_le_bytes(device),
            inode: u64::from_le_bytes(inode),
            proof: Proof::from_parts(sort, self.take(usize::from(len))?)?,
        })
    }

    fn creation(&mut self) -> Option<Creation> {
        Some(Creation {
            mode: self.number()?,
            user: self.number()?,
            group: self.number()?,
            device: u64::from_le_bytes(self.array()?),
            target: self.text()?,
        })
    }
}

#[cfg(test)]
#[path = "media_tests.rs"]
mod tests;
