//! The region line: how a region stands, on each of its sidecars, twice in turn.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use forebay_pmem::crc32c;

use super::boot::{boot_id, is_this_boot};
use super::generation::{Generation, HISTORY, History};
use super::geometry::{Geometry, MAX_WIDTH, PAGE_BYTES};
use crate::error::Result;

/// Bytes of a line. Paths of eight files do not fit less; it is written twice in a region's open and close.
pub(crate) const LINE_BYTES: usize = PAGE_BYTES as usize;
pub(crate) const MAGIC: [u8; 8] = *b"FBDAXLN\x01";
pub(crate) const VERSION: u32 = 2;
/// Longest name of a region, in bytes.
pub(crate) const NAME_BYTES: usize = 64;
/// Longest path of one of its files, in bytes.
pub(crate) const PATH_BYTES: usize = 408;

const VERSION_AT: usize = 8;
const ROLE_AT: usize = 12;
const POOL_AT: usize = 16;
const REGION_AT: usize = 32;
const GENERATION_AT: usize = 48;
const STATE_AT: usize = 56;
const WIDTH_AT: usize = 60;
const SIZE_AT: usize = 64;
const PASS_AT: usize = 72;
const UNVERIFIED_AT: usize = 80;
const LOST_AT: usize = 88;
const NAME_LEN_AT: usize = 96;
const NAME_AT: usize = 104;
const BOOT_AT: usize = 168;
const HISTORY_AT: usize = 184;
const FILES_AT: usize = 464;
/// Inode, size, mtime, ctime and since when, eight bytes each; length of the path, four; the path.
const FILE_BYTES: usize = 44 + PATH_BYTES;
const FILES: usize = MAX_WIDTH as usize + 1;
const CRC_AT: usize = LINE_BYTES - 4;

const _: () = assert!(NAME_AT + NAME_BYTES <= BOOT_AT);
const _: () = assert!(HISTORY_AT + HISTORY * 8 <= FILES_AT);
const _: () = assert!(FILES_AT + FILES * FILE_BYTES <= CRC_AT);

/// What a line says of the region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Somebody may store.
    Open,
    /// All sums and parity are right, and nobody had it mapped then.
    Sealed,
}

/// What tells that a file is the one that was sealed, and that nobody has changed it since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Evidence {
    pub inode: u64,
    pub size_bytes: u64,
    pub mtime_ns: u64,
    pub ctime_ns: u64,
}

/// A data extent or the parity, as a line has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileLine {
    pub path: PathBuf,
    /// As of the seal, also while a region that was sealed is open; zeroes where pages were looked at instead.
    pub evidence: Evidence,
    /// The generation that last began without it: what its sidecar vouched for before does not count.
    pub since: Generation,
}

/// What a line says. All sidecars have the same of a generation, but for the CRC and the role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub pool: [u8; 16],
    pub region: [u8; 16],
    pub name: String,
    pub generation: Generation,
    pub history: History,
    pub mark: Mark,
    /// The boot of the machine in which it was written.
    pub boot: [u8; 16],
    pub geometry: Geometry,
    /// The last pass that ended before the line.
    pub pass: u64,
    /// Pages that are named, as of the line. The sums say which.
    pub unverified_pages: u64,
    pub lost_pages: u64,
    /// The data extents in order, then the parity.
    pub files: Vec<FileLine>,
}

impl Line {
    /// The line after this one, which is to say `mark`.
    pub fn next(&self, mark: Mark) -> Line {
        Line {
            generation: self.generation.next(),
            mark,
            boot: boot_id(),
            ..self.clone()
        }
    }

    /// The first line of the next epoch, which begins without these roles. What is on them, be it by an opening that
    /// nobody else remembers, is of an earlier one.
    pub fn without(&self, roles: &[usize], mark: Mark) -> Result<Line> {
        let mut line = Line {
            generation: self.generation.next_epoch(),
            history: self.history.next_epoch()?,
            ..self.next(mark)
        };
        for &role in roles {
            line.files[role].since = line.generation;
        }
        Ok(line)
    }

    /// Whether nobody has booted the machine since it was written.
    pub fn is_of_this_boot(&self) -> bool {
        is_this_boot(self.boot)
    }

    /// How another line, of no later generation, stands to this one.
    pub fn relation(&self, other: &Line) -> Relation {
        let epochs = self.generation.epoch() - other.generation.epoch();
        let known = self.history.0.get(epochs as usize).copied().unwrap_or(0);
        let is_same = self.generation == other.generation;
        match known {
            0 => Relation::Unknown,
            id if id != other.history.0[0] || is_same && self != other => Relation::Foreign,
            _ => Relation::Ancestor,
        }
    }
}

/// How a line stands to a newer one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    /// The newer one follows from it.
    Ancestor,
    /// It is of a history of its own.
    Foreign,
    /// It is of an epoch so old that the newer line does not know which.
    Unknown,
}

/// Why bytes are no line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoLine {
    /// All zero: none was written.
    Blank,
    /// Not the magic, not the check, or numbers that cannot be.
    Damaged,
    /// A version that this program does not know.
    Version(u32),
}

impl Line {
    /// The bytes of it for the sidecar of `role`.
    pub fn encode(&self, role: usize) -> [u8; LINE_BYTES] {
        let mut bytes = [0; LINE_BYTES];
        let mut put = |at: usize, what: &[u8]| bytes[at..at + what.len()].copy_from_slice(what);
        let mark: u32 = match self.mark {
            Mark::Open => 1,
            Mark::Sealed => 2,
        };
        put(0, &MAGIC);
        put(VERSION_AT, &VERSION.to_le_bytes());
        put(ROLE_AT, &(role as u32).to_le_bytes());
        put(POOL_AT, &self.pool);
        put(REGION_AT, &self.region);
        put(GENERATION_AT, &self.generation.word().to_le_bytes());
        put(STATE_AT, &mark.to_le_bytes());
        put(WIDTH_AT, &self.geometry.width.to_le_bytes());
        put(SIZE_AT, &self.geometry.size_bytes.to_le_bytes());
        put(PASS_AT, &self.pass.to_le_bytes());
        put(UNVERIFIED_AT, &self.unverified_pages.to_le_bytes());
        put(LOST_AT, &self.lost_pages.to_le_bytes());
        put(NAME_LEN_AT, &(self.name.len() as u32).to_le_bytes());
        put(NAME_AT, self.name.as_bytes());
        put(BOOT_AT, &self.boot);
        for (number, id) in self.history.0.iter().enumerate() {
            put(HISTORY_AT + number * 8, &id.to_le_bytes());
        }
        for (number, file) in self.files.iter().enumerate() {
            let at = FILES_AT + number * FILE_BYTES;
            let path = file.path.as_os_str().as_bytes();
            put(at, &file.evidence.inode.to_le_bytes());
            put(at + 8, &file.evidence.size_bytes.to_le_bytes());
            put(at + 16, &file.evidence.mtime_ns.to_le_bytes());
            put(at + 24, &file.evidence.ctime_ns.to_le_bytes());
            put(at + 32, &file.since.word().to_le_bytes());
            put(at + 40, &(path.len() as u32).to_le_bytes());
            put(at + 44, path);
        }
        let crc = crc32c(&bytes[..CRC_AT]);
        bytes[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// The line of these bytes, and the role that they name.
    pub fn decode(bytes: &[u8; LINE_BYTES]) -> Result<(Line, usize), NoLine> {
        if bytes.iter().all(|&byte| byte == 0) {
            return Err(NoLine::Blank);
        }
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        if bytes[..8] != MAGIC || crc32c(&bytes[..CRC_AT]) != word(CRC_AT) {
            return Err(NoLine::Damaged);
        }
        if word(VERSION_AT) != VERSION {
            return Err(NoLine::Version(word(VERSION_AT)));
        }
        let mark = match word(STATE_AT) {
            1 => Mark::Open,
            2 => Mark::Sealed,
            _ => return Err(NoLine::Damaged),
        };
        let geometry = Geometry::new(long(SIZE_AT), word(WIDTH_AT)).map_err(|_| NoLine::Damaged)?;
        let role = word(ROLE_AT) as usize;
        let name_len = word(NAME_LEN_AT) as usize;
        if role >= geometry.roles() || name_len > NAME_BYTES {
            return Err(NoLine::Damaged);
        }
        let name = std::str::from_utf8(&bytes[NAME_AT..NAME_AT + name_len]);
        let files: Option<Vec<FileLine>> = (0..geometry.roles())
            .map(|number| {
                let at = FILES_AT + number * FILE_BYTES;
                let path_len = word(at + 40) as usize;
                let path = (path_len <= PATH_BYTES).then(|| &bytes[at + 44..at + 44 + path_len])?;
                Some(FileLine {
                    path: PathBuf::from(OsStr::from_bytes(path)),
                    evidence: Evidence {
                        inode: long(at),
                        size_bytes: long(at + 8),
                        mtime_ns: long(at + 16),
                        ctime_ns: long(at + 24),
                    },
                    since: Generation::from_word(long(at + 32)),
                })
            })
            .collect();
        let line = Line {
            pool: bytes[POOL_AT..][..16].try_into().expect("16 bytes"),
            region: bytes[REGION_AT..][..16].try_into().expect("16 bytes"),
            name: name.map_err(|_| NoLine::Damaged)?.to_owned(),
            generation: Generation::from_word(long(GENERATION_AT)),
            history: History(std::array::from_fn(|number| long(HISTORY_AT + number * 8))),
            mark,
            boot: bytes[BOOT_AT..][..16].try_into().expect("16 bytes"),
            geometry,
            pass: long(PASS_AT),
            unverified_pages: long(UNVERIFIED_AT),
            lost_pages: long(LOST_AT),
            files: files.ok_or(NoLine::Damaged)?,
        };
        Ok((line, role))
    }
}
