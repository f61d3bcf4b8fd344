//! What a region is mapped from, and how it is to be treated.

use std::fmt;

/// What makes stored bytes durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PersistenceDomain {
    /// The memory controller is inside the domain, caches are not: flush the lines, then fence.
    Adr,
    /// Caches are inside the domain: a fence is enough. No processor tells whether its platform
    /// has this, so it is never detected; force it with [`RegionOptions::domain`] where it is so.
    Eadr,
    /// A plain file behind the page cache: a fence is fdatasync. Slow and honest on any machine.
    Page,
}

impl fmt::Display for PersistenceDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            PersistenceDomain::Adr => "adr",
            PersistenceDomain::Eadr => "eadr",
            PersistenceDomain::Page => "page",
        })
    }
}

/// What a region is mapped from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MediaKind {
    /// A character device of persistent memory.
    DevDax,
    /// A file on a DAX file system, mapped with `MAP_SYNC`.
    FsDax,
    /// A file in a memory file system such as /dev/shm.
    Shm,
    /// Any other file.
    PlainFile,
    /// Ordinary memory of this process that models a crash.
    Shadow,
}

impl MediaKind {
    /// What acknowledged bytes survive, in plain words.
    pub fn survives(self) -> &'static str {
        match self {
            MediaKind::DevDax | MediaKind::FsDax => {
                "survives a killed process, a crashed kernel and a power cut"
            }
            MediaKind::Shm => {
                "survives a killed process; a crashed kernel, a reboot or a power cut loses all of it"
            }
            MediaKind::PlainFile => {
                "survives a killed process, a crashed kernel and a power cut, as far as the disk \
                 beneath keeps what it has synced; every fence waits for that disk"
            }
            MediaKind::Shadow => "survives nothing: it is a model in this process's memory",
        }
    }
}

impl fmt::Display for MediaKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            MediaKind::DevDax => "devdax",
            MediaKind::FsDax => "fsdax",
            MediaKind::Shm => "shm",
            MediaKind::PlainFile => "file",
            MediaKind::Shadow => "shadow",
        })
    }
}

/// A slower medium to imitate: each line read or persisted costs this much more, spun on the
/// processor's time stamp counter. The figures are those of Tinca's and UBJ's evaluations.
///
/// Reads of one word (such as [`Region::load_u64`](crate::Region::load_u64)) are not delayed:
/// they stand for reads that the processor's caches serve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EmulatedMedia {
    /// No delay: the memory as it is.
    #[default]
    None,
    /// Battery-backed DRAM: no delay either, by name.
    Nvdimm,
    /// Phase-change memory: 50 ns a line read, 180 ns a line written.
    Pcm,
    /// Spin-transfer torque memory: 50 ns a line read, 50 ns a line written.
    SttRam,
}

impl EmulatedMedia {
    /// Extra nanoseconds for each line read.
    pub const fn read_ns_per_line(self) -> u64 {
        match self {
            EmulatedMedia::None | EmulatedMedia::Nvdimm => 0,
            EmulatedMedia::Pcm | EmulatedMedia::SttRam => 50,
        }
    }

    /// Extra nanoseconds for each line flushed or streamed.
    pub const fn write_ns_per_line(self) -> u64 {
        match self {
            EmulatedMedia::None | EmulatedMedia::Nvdimm => 0,
            EmulatedMedia::Pcm => 180,
            EmulatedMedia::SttRam => 50,
        }
    }
}

/// How to map a region. Each setter takes the options and returns them changed.
///
/// ```
/// use forebay_pmem::{PersistenceDomain, RegionOptions};
/// let options = RegionOptions::default().domain(PersistenceDomain::Eadr);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionOptions {
    pub(crate) domain: Option<PersistenceDomain>,
    pub(crate) media: EmulatedMedia,
    pub(crate) huge_pages: bool,
    pub(crate) trust_owner: bool,
}

impl Default for RegionOptions {
    fn default() -> RegionOptions {
        RegionOptions {
            domain: None,
            media: EmulatedMedia::None,
            huge_pages: true,
            trust_owner: false,
        }
    }
}

impl RegionOptions {
    /// Forces the persistence domain, which is detected otherwise.
    #[must_use]
    pub fn domain(mut self, domain: impl Into<Option<PersistenceDomain>>) -> RegionOptions {
        self.domain = domain.into();
        self
    }
    /// The medium to imitate; none by default.
    #[must_use]
    pub fn media(mut self, media: EmulatedMedia) -> RegionOptions {
        self.media = media;
        self
    }
    /// Asks the kernel for huge pages, which spare most address-translation misses. On by default. A
    /// plain file never has them: one store would have the whole huge page written to the disk.
    #[must_use]
    pub fn huge_pages(mut self, huge_pages: bool) -> RegionOptions {
        self.huge_pages = huge_pages;
        self
    }
    /// Takes a file although another user owns it, may write it, or may swap it. Off by default: what
    /// is in a pool decides what is written to other files.
    #[must_use]
    pub fn trust_owner(mut self, trust_owner: bool) -> RegionOptions {
        self.trust_owner = trust_owner;
        self
    }

    /// Whether a file is taken that another user owns, may write, or may swap.
    #[must_use]
    pub fn trusts_owner(&self) -> bool {
        self.trust_owner
    }
}
