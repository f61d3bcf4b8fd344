//! What a backing says of its pool.

use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use forebay_pmem::MediaKind;

use super::side::PoolSide;
use crate::repeatable;

/// Whether the backing has everything.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MarkState {
    /// The pool may hold acknowledged data that the backing lacks.
    Open,
    /// The backing has everything.
    Whole,
}

/// What a backing says of its pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mark {
    /// The pool's identity.
    pub pool: [u8; 16],
    /// Where its first member lay.
    pub pool_path: PathBuf,
    /// The volume's id in it.
    pub volume: u32,
    /// Raised at each attach.
    pub generation: u64,
    /// Whether the backing has everything.
    pub state: MarkState,
    /// When that pool was given the backing, in seconds since 1970.
    pub since_unix_s: u64,
    /// The boot that was in; empty where the system does not tell.
    pub boot: String,
    /// Whether the pool's medium survives the end of a boot.
    pub survives_reboot: bool,
}

/// What is there of a backing's mark.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FoundMark {
    /// There is none.
    None,
    /// This one counts.
    Mark(Mark),
    /// Something that is no mark, or of a later version.
    Damaged,
}

impl FoundMark {
    /// What counts of all that was found: the greatest generation, and of two with the same the open one.
    pub fn of(found: &[Vec<u8>]) -> FoundMark {
        let marks: Option<Vec<Mark>> = found.iter().map(|bytes| Mark::decode(bytes)).collect();
        let Some(marks) = marks else {
            return FoundMark::Damaged;
        };
        let newest = marks
            .into_iter()
            .max_by_key(|mark| (mark.generation, mark.state == MarkState::Open));
        newest.map_or(FoundMark::None, FoundMark::Mark)
    }

    /// The mark, if one counts.
    pub fn mark(&self) -> Option<&Mark> {
        match self {
            FoundMark::Mark(mark) => Some(mark),
            FoundMark::None | FoundMark::Damaged => None,
        }
    }
}

impl Mark {
    /// A mark of this moment.
    pub fn open_now(side: &PoolSide, pool_path: PathBuf, generation: u64, kind: MediaKind) -> Mark {
        Mark {
            pool: side.pool,
            pool_path,
            volume: side.volume,
            generation,
            state: MarkState::Open,
            since_unix_s: now_unix_s(),
            boot: boot_id(),
            survives_reboot: !matches!(kind, MediaKind::Shm | MediaKind::Shadow),
        }
    }

    /// Whether it is of the boot that the system is in.
    pub fn is_of_this_boot(&self) -> bool {
        self.boot == boot_id()
    }

    /// The mark of a backing that has everything.
    #[must_use]
    pub fn whole(self) -> Mark {
        Mark {
            state: MarkState::Whole,
            ..self
        }
    }
}

/// Checkers, which repeat runs, have no time and no boot.
fn now_unix_s() -> u64 {
    if repeatable::is_repeated() {
        return 0;
    }
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or(Duration::ZERO).as_secs()
}

/// Read once: later the process may not be allowed to.
static BOOT_ID: LazyLock<String> = LazyLock::new(|| {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
});

/// To be called before the process gives up the right to read the system's files.
pub fn know_boot() {
    LazyLock::force(&BOOT_ID);
}

pub(super) fn boot_id() -> String {
    if repeatable::is_repeated() {
        return String::new();
    }
    BOOT_ID.clone()
}
