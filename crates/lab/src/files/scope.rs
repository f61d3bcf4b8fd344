//! What is measured.

use std::time::Duration;

use forebay_harness::choice::Law;

use super::stand::Contender;

/// Where the writes of a thread go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// To the end of its file.
    Append,
    /// Anywhere in it, all places alike.
    Uniform,
    /// Anywhere in it by Zipf's law, exponent 0.99.
    Zipf,
}

impl Pattern {
    /// All of them.
    pub const ALL: [Pattern; 3] = [Pattern::Append, Pattern::Uniform, Pattern::Zipf];

    /// Its name in rows.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Pattern::Append => "append",
            Pattern::Uniform => "uniform",
            Pattern::Zipf => "zipf",
        }
    }

    /// By which law places are chosen; none at the end.
    #[must_use]
    pub fn law(self) -> Option<Law> {
        match self {
            Pattern::Append => None,
            Pattern::Uniform => Some(Law::Uniform),
            Pattern::Zipf => Some(Law::Zipf),
        }
    }
}

/// How large a write is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// In bytes.
    pub bytes: usize,
    /// For people.
    pub title: &'static str,
}

/// 256 bytes and 4 KiB are those of the paper's §3, 16 KiB of its §6.2.
pub const UNITS: [Unit; 3] = [
    Unit {
        bytes: 256,
        title: "256 B",
    },
    Unit {
        bytes: 4096,
        title: "4 KiB",
    },
    Unit {
        bytes: 16 << 10,
        title: "16 KiB",
    },
];

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// How much is written at once.
    pub unit: Unit,
    /// Where.
    pub pattern: Pattern,
    /// By how many threads.
    pub threads: usize,
}

/// What is measured.
#[derive(Clone, Debug, PartialEq)]
pub struct FilesScope {
    /// The contenders.
    pub contenders: Vec<Contender>,
    /// Sizes of writes.
    pub units: Vec<Unit>,
    /// Where they go.
    pub patterns: Vec<Pattern>,
    /// Threads at once, each with a file of its own; rising.
    pub threads: Vec<usize>,
    /// Bytes of a buffer's region.
    pub region_bytes: u64,
    /// Bytes of all files together that are written anywhere.
    pub files_bytes: u64,
    /// Bytes appended in a measurement at most.
    pub append_bytes: u64,
    /// How long a measurement lasts at most.
    pub length: Duration,
    /// Rounds, of which the median counts.
    pub rounds: usize,
    /// Writes whose lines and fences are counted.
    pub counted_writes: u64,
    /// Smaller sizes and shorter times.
    pub is_quick: bool,
}

impl FilesScope {
    /// A region of 64 MiB, a 64th of the paper's, before four times as much on the disk: some seven minutes.
    #[must_use]
    pub fn full() -> FilesScope {
        FilesScope {
            contenders: Contender::ALL.into(),
            units: UNITS.into(),
            patterns: Pattern::ALL.into(),
            threads: vec![1, 2, 4],
            region_bytes: 64 << 20,
            files_bytes: 256 << 20,
            append_bytes: 256 << 20,
            length: Duration::from_millis(700),
            rounds: 3,
            counted_writes: 4096,
            is_quick: false,
        }
    }

    /// A quarter of it: a minute or two.
    #[must_use]
    pub fn quick() -> FilesScope {
        FilesScope {
            threads: vec![1, 2],
            region_bytes: 32 << 20,
            files_bytes: 64 << 20,
            append_bytes: 64 << 20,
            length: Duration::from_millis(150),
            counted_writes: 1024,
            is_quick: true,
            ..FilesScope::full()
        }
    }

    /// Everything that is measured in a round, contenders last.
    pub fn cells(&self) -> impl Iterator<Item = Cell> + '_ {
        self.units.iter().flat_map(move |unit| {
            self.patterns.iter().flat_map(move |pattern| {
                self.threads.iter().map(move |threads| Cell {
                    unit: *unit,
                    pattern: *pattern,
                    threads: *threads,
                })
            })
        })
    }
}
