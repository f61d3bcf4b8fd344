//! How much is measured, and how large everything is: the paper's sizes over one number, as in the lab.

use std::time::Duration;

use crate::tpcc::figure::Figure;
use crate::tpcc::scale::Scale;
use crate::tpcc::server::LOG_BYTES;

/// The paper's cache, its DRAM, and its warehouses, which had 32 GB.
const CACHE_BYTES: u64 = 8 << 30;
const DRAM_BYTES: u64 = 4 << 30;
const WAREHOUSES: u32 = 350;
/// MySQL's default then, in two files.
const PAPER_LOG_BYTES: u64 = 96 << 20;
/// What Flashcache has in a set by default.
const SET_BYTES: u64 = 512 * 4096;
/// InnoDB takes no less.
const BUFFER_POOL_BYTES_MIN: u64 = 8 << 20;
/// As short as mkfs makes one.
pub const JOURNAL_MIB: u64 = 4;
/// Of the file, most of it holes: room for what users add.
pub const DISK_BYTES: u64 = 4 << 30;

/// How long users work: until they have done so much, all together, or time is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Goal {
    pub transactions: u64,
    pub limit: Duration,
}

#[derive(Clone, Debug)]
pub struct Pace {
    pub rounds: usize,
    pub users: Vec<u32>,
    /// What is measured with each number of users.
    pub goal: Goal,
    /// What the paper's sizes are divided by.
    divisor: u32,
    pub is_quick: bool,
}

impl Pace {
    pub fn new(figure: Figure, is_quick: bool) -> Pace {
        let (rounds, users, transactions, seconds): (_, &[u32], _, _) = match (figure, is_quick) {
            (Figure::Users, true) => (3, &[5, 20, 60], 1000, 12),
            (Figure::Users, false) => (3, &[5, 10, 15, 20, 40, 60], 10_000, 60),
            // As many users as the paper has there (§5.4).
            (Figure::Media, true) => (2, &[20], 600, 6),
            (Figure::Media, false) => (3, &[20], 10_000, 60),
        };
        let divisor = if is_quick { 256 } else { 64 };
        Pace {
            rounds,
            users: users.to_vec(),
            goal: Goal {
                transactions,
                limit: Duration::from_secs(seconds),
            },
            divisor,
            is_quick,
        }
    }

    pub fn scale(&self) -> Scale {
        Scale::divided(WAREHOUSES, self.divisor)
    }

    pub fn cache_bytes(&self) -> u64 {
        CACHE_BYTES / u64::from(self.divisor)
    }

    pub fn buffer_pool_bytes(&self) -> u64 {
        (DRAM_BYTES / u64::from(self.divisor)).max(BUFFER_POOL_BYTES_MIN)
    }

    pub fn database_bytes(&self) -> u64 {
        4 * self.cache_bytes()
    }

    /// What was done, for the page.
    pub fn told(&self) -> String {
        format!(
            "In each round, {} here, every contender has its turn on a fresh copy of the same database, another one \
             first; in a turn, after a warm-up that fills the cache, {} transactions with each number of users, who do not \
             think (or {} s, if that is less). Numbers are differences of the daemons' counters before and after, medians of the \
             rounds; whiskers are half the way from the least to the most.",
            self.rounds,
            self.goal.transactions,
            self.goal.limit.as_secs(),
        )
    }

    /// What differs from the paper, a paragraph each.
    pub fn differences(&self) -> Vec<String> {
        let mib = |bytes: u64| bytes >> 20;
        let scale = self.scale();
        vec![
            format!(
                "Sizes are the paper's over {}: {} MiB of cache for 8 GB, some {} MiB of database for 32 GB, {} MiB of InnoDB's buffer \
                 pool for the 4 GB of DRAM. The database has {} warehouses, as in the paper, of {} items and {} customers and orders \
                 a district; so users share no warehouse, and more users are more of the database. NURand's constants shrink with \
                 the rows. Rows of a warehouse lie on few pages, so that a page that is written has more changes in it.",
                self.divisor,
                mib(self.cache_bytes()),
                mib(self.database_bytes()),
                mib(self.buffer_pool_bytes()),
                scale.warehouses,
                scale.items,
                scale.customers,
            ),
            format!(
                "ext4's journal is the shortest that mkfs makes, {JOURNAL_MIB} MiB, where a 64th of the cache, about the paper's, would be \
                 {} KiB. InnoDB's log is {} MiB, where the paper's over {} would be some {} KiB; with more log a page is written less \
                 often. Its doublewrite buffer is on; all else is as MariaDB has it: a commit is durable when it is acknowledged.",
                (self.cache_bytes() >> 10) / 64,
                mib(LOG_BYTES),
                self.divisor,
                (PAPER_LOG_BYTES >> 10) / u64::from(self.divisor),
            ),
            format!(
                "Classic's cache is divided in sets of 512 blocks, and so many neighbours on the disk share one. The paper's had 4,096 sets; \
                 ours has {}, of which ext4's journal and InnoDB's log, written round and round, take some each for themselves. So \
                 Classic's disk blocks and hits (Figures 8c and 12c) are those of a small cache: they speak against it more than the \
                 paper's do, and what others save there is not to be read as that of the designs. Lines and fences hardly depend on it.",
                self.cache_bytes() / SET_BYTES,
            ),
            "The kernel's pages are not limited: once read, the database stays in them, so reads hardly come to the cache. In the \
             paper the machine had an eighth of the database as DRAM."
                .into(),
            "The paper's cache is in the kernel; ours is behind FUSE and a loop device. A write of ext4 is a transaction of the \
             design, and the disk below is a file that each design writes and syncs in its own way."
                .into(),
            "HammerDB's users think and type by default; ours do not. Delivery is done at once instead of from a queue. There are no \
             foreign keys."
                .into(),
        ]
    }
}
