//! What is compared: devices alone, the kernel's caches over pairs of them, ours.

/// A device or a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Contender {
    /// The HDD alone.
    Hdd,
    /// The SSD alone.
    Ssd,
    /// The NVM alone.
    Nvm,
    /// bcache, an SSD before the HDD.
    BcacheSsdHdd,
    /// bcache, NVM before the SSD.
    BcacheNvmSsd,
    /// dm-cache, an SSD before the HDD.
    DmCacheSsdHdd,
    /// dm-cache, NVM before the SSD.
    DmCacheNvmSsd,
    /// Forebay: a pool in memory before what is as slow as the SSD, over vhost-user.
    Ours,
}

impl Contender {
    /// All of them.
    pub const ALL: [Contender; 8] = [
        Contender::Hdd,
        Contender::Ssd,
        Contender::Nvm,
        Contender::BcacheSsdHdd,
        Contender::BcacheNvmSsd,
        Contender::DmCacheSsdHdd,
        Contender::DmCacheNvmSsd,
        Contender::Ours,
    ];

    /// What it is called, and what in names of rows and devices.
    fn names(self) -> [&'static str; 2] {
        match self {
            Contender::Hdd => ["HDD", "hdd"],
            Contender::Ssd => ["SSD", "ssd"],
            Contender::Nvm => ["NVM", "nvm"],
            Contender::BcacheSsdHdd => ["bcache: SSD+HDD", "bcache-ssd-hdd"],
            Contender::BcacheNvmSsd => ["bcache: NVM+SSD", "bcache-nvm-ssd"],
            Contender::DmCacheSsdHdd => ["dm-cache: SSD+HDD", "dm-cache-ssd-hdd"],
            Contender::DmCacheNvmSsd => ["dm-cache: NVM+SSD", "dm-cache-nvm-ssd"],
            Contender::Ours => ["Forebay: NVM+SSD", "ours"],
        }
    }

    /// What it is called.
    pub fn name(self) -> &'static str {
        self.names()[0]
    }

    /// The beginning of its devices' names, and its directory's.
    pub fn device(self) -> &'static str {
        self.names()[1]
    }

    /// What it is called in names of rows.
    pub fn key(self) -> String {
        self.device().replace('-', "_")
    }

    /// The file in the guest that it holds.
    pub fn file(self) -> String {
        format!("/mnt/{}/file", self.device())
    }

    /// Those of its devices that have a queue, in which requests may be merged.
    pub fn queues(self) -> &'static [&'static str] {
        match self {
            Contender::Nvm => &[],
            Contender::Hdd => &["nbd0"],
            Contender::Ssd | Contender::BcacheNvmSsd | Contender::DmCacheNvmSsd => &["sda"],
            Contender::BcacheSsdHdd | Contender::DmCacheSsdHdd => &["sda", "nbd0"],
            Contender::Ours => &["vda"],
        }
    }

    /// The programs that it needs, with what is left out without each.
    pub fn tools(self) -> &'static [(&'static str, &'static str)] {
        const BCACHE: (&str, &str) = ("make-bcache", "bcache");
        const SERVER: (&str, &str) = ("nbdkit", "the HDD");
        const CLIENT: (&str, &str) = ("nbd-client", "the HDD");
        match self {
            Contender::BcacheNvmSsd => &[BCACHE],
            Contender::BcacheSsdHdd => &[BCACHE, SERVER, CLIENT],
            Contender::Hdd | Contender::DmCacheSsdHdd => &[SERVER, CLIENT],
            _ => &[],
        }
    }
}
