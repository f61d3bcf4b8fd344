//! Settings that can be changed while the daemon runs: flags of `set`, parameters of a request.

use clap::{Args, ValueEnum};
use forebay_command::size;
use forebay_serve::{Refusal, RefusalKind, Request};
use serde::Deserialize;

/// When a read compares the data with its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verify {
    /// Every read.
    Always,
    /// Only write-back, partial updates and check.
    Never,
}

/// Which blocks leave first when space is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Replacement {
    /// SIEVE, the default.
    Sieve,
    /// Least recently used.
    Lru,
}

/// Whether something is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
pub struct Tunables {
    /// Percent of the pool that may be dirty before writers are slowed.
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    pub dirty_low: Option<u8>,
    /// Percent of the pool at which writers go as fast as the backing takes their blocks.
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
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
}

impl Tunables {
    /// Adds what is set to a request.
    pub fn fill(&self, request: Request) -> Request {
        request
            .with("dirty_low", self.dirty_low)
            .with("dirty_high", self.dirty_high)
            .with("flush_rate", self.flush_rate)
            .with("verify", self.verify.map(|value| value.to_name()))
            .with("replacement", self.replacement.map(|value| value.to_name()))
            .with(
                "defer_journal",
                self.defer_journal.map(|value| value.to_name()),
            )
            .with(
                "share_duplicates",
                self.share_duplicates.map(|value| value.to_name()),
            )
            .with(
                "compare_writes",
                self.compare_writes.map(|value| value.to_name()),
            )
    }

    /// Reads them back.
    ///
    /// Errors: an unknown parameter or a wrong value.
    pub fn of_request(request: &Request) -> Result<Tunables, Refusal> {
        request.knows_only(&[
            "dirty_low",
            "dirty_high",
            "flush_rate",
            "verify",
            "replacement",
            "defer_journal",
            "share_duplicates",
            "compare_writes",
        ])?;
        Ok(Tunables {
            dirty_low: percent(request, "dirty_low")?,
            dirty_high: percent(request, "dirty_high")?,
            flush_rate: request.number("flush_rate")?,
            verify: choice(request, "verify")?,
            replacement: choice(request, "replacement")?,
            defer_journal: choice(request, "defer_journal")?,
            share_duplicates: choice(request, "share_duplicates")?,
            compare_writes: choice(request, "compare_writes")?,
        })
    }
}

trait ToName {
    fn to_name(&self) -> String;
}

impl<T: ValueEnum> ToName for T {
    fn to_name(&self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

fn percent(request: &Request, name: &str) -> Result<Option<u8>, Refusal> {
    match request.number(name)? {
        None => Ok(None),
        Some(number @ 0..=100) => Ok(Some(number as u8)),
        Some(number) => Err(Refusal::new(
            RefusalKind::Invalid,
            format!("\"{name}\" is {number}; it is a percentage from 0 to 100"),
        )),
    }
}

fn choice<T: ValueEnum>(request: &Request, name: &str) -> Result<Option<T>, Refusal> {
    let parse = |text| T::from_str(text, false);
    request.text(name)?.map(parse).transpose().map_err(|_| {
        let names: Vec<String> = T::value_variants().iter().map(ToName::to_name).collect();
        Refusal::new(
            RefusalKind::Invalid,
            format!("\"{name}\" is one of {}", names.join(", ")),
        )
    })
}
