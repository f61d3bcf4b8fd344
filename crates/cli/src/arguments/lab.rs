//! Options of the lab.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use forebay_lab::disk::DiskKind;
use forebay_lab::engines::EngineName;

use forebay_command::size;

/// What the lab is asked.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  forebay lab list
  forebay lab run tinca-7 --quick --out report
  forebay lab run counts --quick --json
  forebay lab trace requests.csv --engines tinca,forebay")]
pub struct LabOptions {
    /// What to do.
    #[command(subcommand)]
    pub command: LabCommand,
}

/// The lab's commands.
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Name every figure and what it shows.
    List(LabListOptions),
    /// Measure figures, or the counts of every engine and workload.
    Run(LabRunOptions),
    /// Replay a block trace of a real machine on the engines.
    Trace(LabTraceOptions),
}

/// How to list.
#[derive(Debug, Args)]
pub struct LabListOptions {
    /// Print one JSON list.
    #[arg(long)]
    pub json: bool,
}

/// What to measure.
#[derive(Debug, Args)]
#[command(
    after_help = "A figure is named like tinca-7a; tinca-7 is its three panels, tinca all of that paper,
all everything. counts is a row for each engine and workload.

Examples:
  forebay lab run all --quick --out report
  forebay lab run spindle-5a --engines tinca,spindle,forebay
  forebay lab run counts --quick --json"
)]
pub struct LabRunOptions {
    /// Figures by name or by the beginning of it, all, or counts.
    #[arg(required = true, value_name = "FIGURE")]
    pub figures: Vec<String>,
    /// Smaller sizes, fewer places, shorter times.
    #[arg(long)]
    pub quick: bool,
    /// Print JSON and nothing else; files are then written only with --out.
    #[arg(long)]
    pub json: bool,
    /// Where lab.html, lab.json and lab.csv are written.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Only these engines, like tinca,spindle,forebay.
    #[arg(long, value_delimiter = ',', value_name = "ENGINE")]
    pub engines: Vec<EngineName>,
    /// The same seed makes the same work.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Divide the papers' sizes by this instead.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=16384))]
    pub scale: Option<u32>,
    /// Where the memory to measure is made; nothing stays there.
    #[arg(long, default_value = "/dev/shm")]
    pub directory: PathBuf,
}

/// What to replay.
#[derive(Debug, Args)]
#[command(
    after_help = "The file is what blkparse prints, or CSV: with a heading that names op, offset_bytes and
length_bytes, or as the traces of MSR Cambridge. What is written is fresh bytes.

Examples:
  forebay lab trace requests.csv --engines tinca,forebay
  blkparse -i sda > sda.txt && forebay lab trace sda.txt --size 256M --disk hdd"
)]
pub struct LabTraceOptions {
    /// The trace.
    pub file: PathBuf,
    /// Only these engines, like tinca,spindle,forebay.
    #[arg(long, value_delimiter = ',', value_name = "ENGINE")]
    pub engines: Vec<EngineName>,
    /// Size of the cache.
    #[arg(long, default_value = "64M", value_parser = size::parse)]
    pub size: u64,
    /// The disk to imitate: ssd, hdd or none.
    #[arg(long, default_value = "ssd", value_parser = disk_kind)]
    pub disk: DiskKind,
    /// Requests in a hundred that fill the cache first and are not measured.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u8).range(0..=99))]
    pub warm_up: u8,
    /// The device to take of the trace, as it is written there; the first request's if not said.
    #[arg(long)]
    pub device: Option<String>,
    /// Take so many requests at most.
    #[arg(long, value_name = "NUMBER")]
    pub requests: Option<u64>,
    /// The same seed writes the same bytes.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Where the memory to measure is made; nothing stays there.
    #[arg(long, default_value = "/dev/shm")]
    pub directory: PathBuf,
    /// Print one JSON list and nothing else.
    #[arg(long)]
    pub json: bool,
}

fn disk_kind(text: &str) -> Result<DiskKind, String> {
    let kinds = [DiskKind::Ssd, DiskKind::Hdd, DiskKind::None];
    let found = kinds.into_iter().find(|kind| kind.as_str() == text);
    found.ok_or_else(|| format!("there is no disk {text}; there are ssd, hdd and none"))
}
