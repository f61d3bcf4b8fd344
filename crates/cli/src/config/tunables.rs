//! Settings that can be changed while the daemon runs: flags of `set`, parameters of a request.

use clap::{Args, ValueEnum};
use forebay_command::size;
use forebay_serve::control::Parameters;
use serde::de::{Error, Unexpected};
use serde::{Deserialize, Deserializer, Serialize};

/// When a read compares the data with its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verify {
    /// Every read.
    Always,
    /// One read in 16, write-back, partial updates and check.
    Sampled,
    /// As never, and a scrub every day at 100 MiB a second.
    Scrub,
    /// Only write-back, partial updates and check.
    Never,
}

/// Which blocks leave first when space is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Replacement {
    /// SIEVE, the default.
    Sieve,
    /// Least recently used.
    Lru,
}

/// Whether something is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Switch {
    /// Yes.
    On,
    /// No.
    Off,
}

impl Switch {
    /// Whether it is on.
    pub fn is_on(self) -> bool {
        self == Switch::On
    }
}

/// Settings that can also be changed while the daemon runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tunables {
    /// Percent of the pool that may be dirty before writers are slowed.
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    #[serde(deserialize_with = "percent")]
    pub dirty_low: Option<u8>,
    /// Percent of the pool at which writers go as fast as the backing takes their blocks.
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    #[serde(deserialize_with = "percent")]
    pub dirty_high: Option<u8>,
    /// Bytes a second that write-back may write, like 100M; 0 for no limit.
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub flush_rate: Option<u64>,
    /// When reads are compared with their checksums.
    #[arg(long, value_enum)]
    pub verify: Option<Verify>,
    /// Which blocks leave first.
    #[arg(long, value_enum)]
    pub replacement: Option<Replacement>,
    /// Write the journals of file systems back last, since they are overwritten soon.
    #[arg(long, value_enum, value_name = "SWITCH")]
    pub defer_journal: Option<Switch>,
    /// Whether a whole block whose bytes the pool has already shares them.
    #[arg(long, value_enum, value_name = "SWITCH")]
    pub share_duplicates: Option<Switch>,
    /// Whether a whole block is compared with what is cached.
    #[arg(long, value_enum, value_name = "SWITCH")]
    pub compare_writes: Option<Switch>,
    /// Bytes of a run of reads beyond which its misses are not brought in, like 4M; 0 for none.
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub sequential_cutoff: Option<u64>,
    /// Bytes that are read ahead of a run of reads at most, up to 64M; 0 for none.
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub read_ahead: Option<u64>,
}

impl Parameters for Tunables {
    const COMMAND: &'static str = "set";
}

fn percent<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u8>, D::Error> {
    let given = Option::<u64>::deserialize(deserializer)?;
    match given {
        Some(number @ 101..) => {
            let found = Unexpected::Unsigned(number);
            Err(D::Error::invalid_value(
                found,
                &"a percentage from 0 to 100",
            ))
        }
        given => Ok(given.map(|number| number as u8)),
    }
}
