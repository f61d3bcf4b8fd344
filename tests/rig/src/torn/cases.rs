//! What is tried: which pages, on which file system, through which front end, on which disk.

use super::pages::Way;

/// How a disk reaches the kernel that has the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrontEnd {
    /// A FUSE file under a loop device of this machine; past the page cache of the file or not.
    Loop {
        /// `losetup --direct-io`.
        is_direct: bool,
    },
    /// A vhost-user disk of a guest.
    Vhost,
}

/// What a case is to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expectation {
    /// No page is ever torn.
    Whole,
    /// Some are: it is a control, or a warning.
    Torn,
    /// Either; the page says why none may rely on it.
    Open,
}

/// One case.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// What it is called in the output.
    pub name: &'static str,
    /// The front end.
    pub front_end: FrontEnd,
    /// `ext4` or `xfs`.
    pub file_system: &'static str,
    /// More arguments for the program that makes it.
    pub features: &'static [&'static str],
    /// How pages are written.
    pub way: Way,
    /// Bytes of a page.
    pub page_bytes: usize,
    /// Whether the file lies all over the disk, in pieces of so many bytes.
    pub scattered_bytes: Option<u64>,
    /// Whether there is no pool: the disk alone, which loses what it did not sync.
    pub is_plain: bool,
    /// Whether pages stay as they are while they are written back.
    pub is_stable: bool,
    /// What it shows.
    pub expectation: Expectation,
}

const DIRECT_LOOP: FrontEnd = FrontEnd::Loop { is_direct: true };
const CACHED_LOOP: FrontEnd = FrontEnd::Loop { is_direct: false };

/// Room is given out in clusters, so that an aligned page is never in two pieces.
const CLUSTERS: &[&str] = &["-O", "bigalloc", "-C", "16384"];

const BASE: Case = Case {
    name: "",
    front_end: DIRECT_LOOP,
    file_system: "ext4",
    features: &[],
    way: Way::Direct,
    page_bytes: 16384,
    scattered_bytes: None,
    is_plain: false,
    is_stable: false,
    expectation: Expectation::Whole,
};

/// All of them.
pub const CASES: &[Case] = &[
    Case {
        name: "loop, ext4, direct 16 KiB",
        ..BASE
    },
    Case {
        name: "loop without direct I/O, ext4, direct 16 KiB",
        front_end: CACHED_LOOP,
        ..BASE
    },
    Case {
        name: "loop, xfs, direct 16 KiB",
        file_system: "xfs",
        ..BASE
    },
    Case {
        name: "loop, ext4, direct 8 KiB",
        page_bytes: 8192,
        ..BASE
    },
    Case {
        name: "loop, ext4 with clusters of 16 KiB, direct 16 KiB, scattered clusters",
        features: CLUSTERS,
        scattered_bytes: Some(16384),
        ..BASE
    },
    Case {
        name: "loop, ext4, buffered 8 KiB",
        way: Way::Buffered,
        page_bytes: 8192,
        expectation: Expectation::Open,
        ..BASE
    },
    Case {
        name: "loop, ext4, buffered 16 KiB",
        way: Way::Buffered,
        expectation: Expectation::Open,
        ..BASE
    },
    Case {
        name: "loop, xfs, buffered 8 KiB",
        way: Way::Buffered,
        page_bytes: 8192,
        file_system: "xfs",
        expectation: Expectation::Open,
        ..BASE
    },
    Case {
        name: "loop, xfs with blocks of 8 KiB, stable, buffered 8 KiB",
        way: Way::Buffered,
        page_bytes: 8192,
        file_system: "xfs",
        features: &["-b", "size=8192"],
        is_stable: true,
        ..BASE
    },
    Case {
        name: "loop, xfs with blocks of 16 KiB, stable, buffered 16 KiB",
        way: Way::Buffered,
        file_system: "xfs",
        features: &["-b", "size=16384"],
        is_stable: true,
        ..BASE
    },
    Case {
        name: "loop, xfs with blocks of 16 KiB, direct 16 KiB, scattered blocks",
        file_system: "xfs",
        features: &["-b", "size=16384"],
        scattered_bytes: Some(16384),
        ..BASE
    },
    Case {
        name: "control: loop, ext4, direct 16 KiB, scattered blocks",
        scattered_bytes: Some(4096),
        expectation: Expectation::Torn,
        ..BASE
    },
    Case {
        name: "control: loop, ext4, direct 16 KiB, no pool",
        is_plain: true,
        expectation: Expectation::Torn,
        ..BASE
    },
    Case {
        name: "vhost-user, ext4, direct 16 KiB",
        front_end: FrontEnd::Vhost,
        ..BASE
    },
    Case {
        name: "vhost-user, ext4 with clusters of 16 KiB, direct 16 KiB, scattered clusters",
        front_end: FrontEnd::Vhost,
        features: CLUSTERS,
        scattered_bytes: Some(16384),
        ..BASE
    },
    Case {
        name: "vhost-user, ext4, buffered 8 KiB",
        front_end: FrontEnd::Vhost,
        way: Way::Buffered,
        page_bytes: 8192,
        expectation: Expectation::Open,
        ..BASE
    },
    Case {
        name: "vhost-user, ext4, buffered 16 KiB",
        front_end: FrontEnd::Vhost,
        way: Way::Buffered,
        expectation: Expectation::Open,
        ..BASE
    },
    Case {
        name: "control: vhost-user, ext4, direct 16 KiB, scattered blocks",
        front_end: FrontEnd::Vhost,
        scattered_bytes: Some(4096),
        expectation: Expectation::Torn,
        ..BASE
    },
];

impl Case {
    /// Bytes of the disk.
    pub fn disk_bytes(&self) -> u64 {
        match self.file_system {
            "xfs" => 320 << 20,
            _ => 96 << 20,
        }
    }

    /// Mount options.
    pub fn options(&self) -> &'static str {
        match self.file_system {
            "xfs" => "defaults",
            _ => "data=ordered",
        }
    }

    /// The program and arguments that make its file system, without the device.
    pub fn make(&self) -> Vec<&'static str> {
        let base: &[&str] = match self.file_system {
            "xfs" => &["mkfs.xfs", "-q", "-f"],
            // Nothing is left for a background thread to do.
            _ => &[
                "mkfs.ext4",
                "-q",
                "-F",
                "-b",
                "4096",
                "-E",
                "lazy_itable_init=0,lazy_journal_init=0",
            ],
        };
        [base, self.features].concat()
    }

    fn file(&self, directory: &str) -> String {
        let bytes = self.page_bytes;
        let pages = PAGES_BYTES / bytes;
        format!("--file {directory}/pages --page-bytes {bytes} --pages {pages}")
    }

    /// Arguments of the program of pages that makes the file in `directory`.
    pub fn make_arguments(&self, directory: &str) -> String {
        let scattered = self
            .scattered_bytes
            .map(|bytes| format!(" --scattered {bytes}"));
        let scattered = scattered.unwrap_or_default();
        format!("make-pages {}{scattered}", self.file(directory))
    }

    /// Arguments of the program of pages that writes it.
    pub fn write_arguments(&self, directory: &str, seed: u64) -> String {
        let way = match self.way {
            Way::Direct => "direct",
            Way::Buffered => "buffered",
        };
        let file = self.file(directory);
        format!("write-pages {file} --way {way} --seed {seed}")
    }

    /// Arguments of the program of pages that verifies it.
    pub fn verify_arguments(&self, directory: &str) -> String {
        format!("verify-pages {}", self.file(directory))
    }
}

/// Bytes of the file of pages.
const PAGES_BYTES: usize = 4 << 20;
