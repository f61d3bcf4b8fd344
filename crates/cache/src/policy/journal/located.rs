//! Journals as they are found: where each lies, and how large they may be together.

/// Runs of one journal; a real one has a few, and what is beyond them is written like other blocks.
pub(super) const RUNS_MAX: usize = 4096;
/// Journals of one volume.
const JOURNALS_MAX: usize = 256;
/// Bytes of the journals of one volume; file systems make theirs 1 to 2 GiB at most unless told otherwise.
pub(super) const JOURNAL_BYTES_MAX: u64 = 4 << 30;
/// A larger share of a volume is not believed to be journals, and put in order at others' cost, unless
/// they are small.
const JOURNAL_SHARE_MAX: u64 = 4;
const JOURNAL_BYTES_SMALL: u64 = 64 << 20;

/// How a journal's blocks tell their age.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalKind {
    /// ext3, ext4, ocfs2: block headers carry the number of their transaction.
    Jbd2,
    /// xfs: every sector begins with the number of its lap.
    Xfs,
}

/// A piece of a journal that lies together on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalRun {
    /// Where it begins in the journal, in bytes.
    pub journal_offset: u64,
    /// Where it begins on the volume, in bytes.
    pub disk_offset: u64,
    /// How long it is.
    pub bytes: u64,
}

/// A journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Journal {
    /// How its blocks tell their age.
    pub kind: JournalKind,
    /// Where it lies, in the order of the journal; all within the volume.
    pub runs: Vec<JournalRun>,
    /// Which bytes of the journal are the ring; the others are rewritten more often than once a lap.
    pub ring: std::ops::Range<u64>,
    /// Where in the journal the part begins that is still needed, if the journal said so when it was
    /// found; what lies before it is dead.
    pub live_from: Option<u64>,
}

/// What `locate` found.
#[derive(Clone, Debug, Default)]
pub struct Located {
    /// The journals.
    pub journals: Vec<Journal>,
    /// Bytes of the volume that decided it: when their blocks change, look again.
    pub watched_offsets: Vec<u64>,
    /// A file system is there whose journal could not be read yet.
    pub is_incomplete: bool,
    /// Bytes of all journals.
    journal_bytes: u64,
}

impl Located {
    /// Adds the journal of a file system, which has most of its volume of `volume_bytes` for others.
    pub(super) fn add(&mut self, journal: Journal, volume_bytes: u64) {
        let share = (volume_bytes / JOURNAL_SHARE_MAX).max(JOURNAL_BYTES_SMALL);
        self.add_within(share.min(JOURNAL_BYTES_MAX), journal);
    }

    /// Adds a journal if all of them have at most `bytes_max` then.
    pub(super) fn add_within(&mut self, bytes_max: u64, journal: Journal) {
        let before = self.journal_bytes;
        let bytes = journal
            .runs
            .iter()
            .fold(before, |bytes, run| bytes.saturating_add(run.bytes));
        let is_sane = !journal.runs.is_empty() && bytes <= bytes_max;
        if is_sane && self.journals.len() < JOURNALS_MAX {
            self.journal_bytes = bytes;
            self.journals.push(journal);
        }
    }
}
