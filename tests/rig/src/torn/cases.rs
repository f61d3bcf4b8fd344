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

/// Blocks as large as pages of 8 and of 16 KiB.
const BLOCKS_8K: &[&str] = &["-b", "size=8192"];
const BLOCKS_16K: &[&str] = &["-b", "size=16384"];

/// Pages of 16 KiB past the page cache, in ext4 over a loop device, which are never torn.
const fn looped(name: &'static str) -> Case {
    Case {
        name,
        front_end: FrontEnd::Loop { is_direct: true },
        file_system: "ext4",
        features: &[],
        way: Way::Direct,
        page_bytes: 16384,
        scattered_bytes: None,
        is_plain: false,
        is_stable: false,
        expectation: Expectation::Whole,
    }
}

/// The same on a vhost-user disk.
const fn vhost(name: &'static str) -> Case {
    Case {
        front_end: FrontEnd::Vhost,
        ..looped(name)
    }
}

/// All of them.
pub const CASES: &[Case] = &[
    looped("loop, ext4, direct 16 KiB"),
    Case {
        front_end: FrontEnd::Loop { is_direct: false },
        ..looped("loop without direct I/O, ext4, direct 16 KiB")
    },
    looped("loop, xfs, direct 16 KiB").on_xfs(&[]),
    Case {
        page_bytes: 8192,
        ..looped("loop, ext4, direct 8 KiB")
    },
    looped("loop, ext4 with clusters of 16 KiB, direct 16 KiB, scattered clusters").in_clusters(),
    looped("loop, ext4, buffered 8 KiB").buffered(8192),
    looped("loop, ext4, buffered 16 KiB").buffered(16384),
    looped("loop, xfs, buffered 8 KiB")
        .on_xfs(&[])
        .buffered(8192),
    looped("loop, xfs with blocks of 8 KiB, stable, buffered 8 KiB")
        .on_xfs(BLOCKS_8K)
        .stable(8192),
    looped("loop, xfs with blocks of 16 KiB, stable, buffered 16 KiB")
        .on_xfs(BLOCKS_16K)
        .stable(16384),
    Case {
        scattered_bytes: Some(16384),
        ..looped("loop, xfs with blocks of 16 KiB, direct 16 KiB, scattered blocks")
            .on_xfs(BLOCKS_16K)
    },
    looped("control: loop, ext4, direct 16 KiB, scattered blocks").scattered_apart(),
    Case {
        is_plain: true,
        expectation: Expectation::Torn,
        ..looped("control: loop, ext4, direct 16 KiB, no pool")
    },
    vhost("vhost-user, ext4, direct 16 KiB"),
    vhost("vhost-user, ext4 with clusters of 16 KiB, direct 16 KiB, scattered clusters")
        .in_clusters(),
    vhost("vhost-user, ext4, buffered 8 KiB").buffered(8192),
    vhost("vhost-user, ext4, buffered 16 KiB").buffered(16384),
    vhost("control: vhost-user, ext4, direct 16 KiB, scattered blocks").scattered_apart(),
];

impl Case {
    const fn on_xfs(self, features: &'static [&'static str]) -> Case {
        Case {
            file_system: "xfs",
            features,
            ..self
        }
    }

    /// Room is given out in clusters, so that an aligned page is never in two pieces.
    const fn in_clusters(self) -> Case {
        Case {
            features: &["-O", "bigalloc", "-C", "16384"],
            scattered_bytes: Some(16384),
            ..self
        }
    }

    /// Pages are in pieces, and torn.
    const fn scattered_apart(self) -> Case {
        Case {
            scattered_bytes: Some(4096),
            expectation: Expectation::Torn,
            ..self
        }
    }

    const fn buffered(self, page_bytes: usize) -> Case {
        Case {
            way: Way::Buffered,
            page_bytes,
            expectation: Expectation::Open,
            ..self
        }
    }

    /// Buffered pages that stay as they are while they are written back, and so are whole.
    const fn stable(self, page_bytes: usize) -> Case {
        Case {
            is_stable: true,
            expectation: Expectation::Whole,
            ..self.buffered(page_bytes)
        }
    }

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
