//! The command line of `forebay-lab`: every option, with examples.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use forebay_command::disks::DiskSettings;
use forebay_command::{LogFormat, LogLevel, Trust, failure, size};
use forebay_dax::TrackerKind;
use forebay_lab::disk::DiskKind;
use forebay_lab::engines::EngineName;
use forebay_serve::nbd::NbdAddress;

use crate::delays::{DelayOptions, Turn, disk_kind};
use crate::tvarak::arguments::TvarakOptions;

/// The published NVM caches beside Forebay: their figures measured again, and each of them served as a disk.
#[derive(Debug, Parser)]
#[command(name = "forebay-lab", version, after_help = after_help())]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

fn after_help() -> String {
    let codes: Vec<String> = failure::EXIT_CODES
        .iter()
        .map(|(code, meaning)| format!("  {code}  {meaning}"))
        .collect();
    format!(
        "Exit codes:
{}

Examples, a figure of a paper, and a paper's cache under an ext4 of your own:
  forebay-lab list
  forebay-lab run tinca-7 --quick --out report
  truncate -s 1G disk.img
  forebay-lab create /dev/shm/forebay/tinca --size 256M --engine tinca --backing disk.img
  forebay-lab serve --memory /dev/shm/forebay/tinca --backing disk.img --fuse /mnt/forebay
  losetup --find --show /mnt/forebay/disk",
        codes.join("\n")
    )
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Name every figure and what it shows.
    List(ListOptions),
    /// Measure figures, or the counts of every engine and workload.
    Run(RunOptions),
    /// Print what became of every figure and table of the papers, as a table in Markdown.
    Verdicts(VerdictsOptions),
    /// Replay a block trace of a real machine on the engines.
    Trace(TraceOptions),
    /// Measure how long stores into mapped regions go without protection, and what protection costs transactions.
    Dax(DaxOptions),
    /// Measure AutoBahn's design beside our file buffer and the file system: small writes to private files.
    Files(FilesOptions),
    /// Simulate TVARAK's redundancy controllers: the paper's figures, bugs of DIMMs' firmware, traces of real programs.
    Tvarak(TvarakOptions),
    /// Make the cache of a published design, for one disk.
    Create(CreateOptions),
    /// Serve that disk over NBD, FUSE or vhost-user until told to stop.
    Serve(Box<ServeOptions>),
    /// Ask a running forebay-lab serve for its counters.
    Stat(AskOptions),
    /// Have it write everything dirty back to the disk and sync it.
    Flush(AskOptions),
    /// Turn the delays that it was started with off and on again.
    Delays(DelaysOptions),
    /// Print the completions of a shell.
    Completions(CompletionsOptions),
    /// Write the man pages.
    #[command(hide = true)]
    Man(ManOptions),
}

/// A cache to make.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  truncate -s 1G disk.img
  forebay-lab create /dev/shm/forebay/tinca --size 256M --engine tinca --backing disk.img

The engines are classic, ubj, tinca, spindle and forebay. A pool of Forebay is never overwritten.")]
pub struct CreateOptions {
    /// The file or device that is to be its memory.
    pub memory: PathBuf,
    /// Size of the memory, like 512M or 1G.
    #[arg(long, value_parser = size::parse)]
    pub size: u64,
    /// Which design.
    #[arg(long, value_name = "NAME")]
    pub engine: EngineName,
    /// The image file or block device whose blocks it will hold, for good.
    #[arg(long, value_name = "PATH")]
    pub backing: PathBuf,
    /// Overwrite what is there, unless it is a pool of Forebay.
    #[arg(long)]
    pub force: bool,
    /// Go on although the mark says that the newest data of the disk is elsewhere: what that cache had is
    /// given up.
    #[arg(long)]
    pub accept_stale: bool,
    /// Whose memory is taken.
    #[command(flatten)]
    pub trust: Trust,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// A cache to serve.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples, the second as slow as phase-change memory in front of an HDD:
  forebay-lab create /dev/shm/forebay/tinca --size 256M --engine tinca --backing disk.img
  forebay-lab serve --memory /dev/shm/forebay/tinca --backing disk.img --nbd unix:/run/tinca.nbd
  forebay-lab serve --memory /dev/shm/forebay/tinca --backing disk.img --fuse /mnt/forebay \
      --cleaner --memory-delay pcm --backing-delay hdd

Delays are really waited for: of the disk asleep, but for some tens of microseconds, of the memory spun. A request takes as long as \
that disk, or longer where the real one does; an image in memory has no times of its own. forebay-lab delays turns them off and on.

It may be killed at any time; the next one recovers. The first SIGTERM, SIGHUP or Ctrl-C ends it in order, \
and waits for a disk that is in use until the deadline; the second ends at once. What is dirty stays in the \
memory, and forebay-lab flush writes it back."
)]
pub struct ServeOptions {
    /// The file or device that forebay-lab create has made.
    #[arg(long, value_name = "PATH")]
    pub memory: PathBuf,
    /// Which design it has to hold; a pool of Forebay is served if forebay is asked for [default: the one that it holds].
    #[arg(long, value_name = "NAME")]
    pub engine: Option<EngineName>,
    /// Give the design the cleaner that all have in common: threads that write back and make room. Forebay has its own.
    #[arg(long)]
    pub cleaner: bool,
    /// As slow as what the disk and the memory are made.
    #[command(flatten)]
    pub delays: DelayOptions,
    /// The disk.
    #[command(flatten)]
    pub disk: DiskSettings,
    /// Listen for NBD clients: unix:PATH or tcp:HOST:PORT. May be repeated.
    #[arg(long, value_name = "ADDRESS")]
    pub nbd: Vec<NbdAddress>,
    /// Queues of the disk over vhost-user [default: one for each processor, up to 4].
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub vhost_user_queues: Option<u16>,
    /// Threads that serve requests of a FUSE disk.
    #[arg(long, value_name = "NUMBER", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: u16,
    /// Go on although the mark says that the newest data of the disk is elsewhere: what that cache had is
    /// given up.
    #[arg(long)]
    pub accept_stale: bool,
    /// Whose memory is taken.
    #[command(flatten)]
    pub trust: Trust,
    /// Seconds to wait for disks that are in use before ending at once [default: 30].
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(0..=86400))]
    pub shutdown_deadline: Option<u64>,
    /// Format of log lines on standard error [default: text].
    #[arg(long, value_enum)]
    pub log_format: Option<LogFormat>,
    /// Least important events that are logged [default: info].
    #[arg(long, value_enum)]
    pub log_level: Option<LogLevel>,
}

/// A cache that is served.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  forebay-lab stat /dev/shm/forebay/tinca --json
  forebay-lab flush /dev/shm/forebay/tinca")]
pub struct AskOptions {
    /// Its memory.
    pub memory: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// The delays of a cache that is served.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  forebay-lab delays /dev/shm/forebay/tinca off
  forebay-lab delays /dev/shm/forebay/tinca on")]
pub struct DelaysOptions {
    /// Its memory.
    pub memory: PathBuf,
    /// Whether they are waited for.
    #[arg(value_enum)]
    pub turn: Turn,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// Which shell.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  forebay-lab completions bash > /etc/bash_completion.d/forebay-lab")]
pub struct CompletionsOptions {
    /// The shell.
    pub shell: clap_complete::Shell,
}

/// Where the man pages go.
#[derive(Debug, Args)]
pub struct ManOptions {
    /// The directory; it is made where it is missing.
    pub directory: PathBuf,
}

/// How to list.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  forebay-lab list --json")]
pub struct ListOptions {
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
  forebay-lab run all --quick --out report
  forebay-lab run spindle-5a --engines tinca,spindle,forebay
  forebay-lab run counts --quick --json"
)]
pub struct RunOptions {
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
    /// Measure everything so often, in rounds, instead of 5 times, or 3 with --quick.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u8).range(1..=99))]
    pub runs: Option<u8>,
    /// The papers' engines store and flush the content of blocks, instead of streaming it as Forebay does.
    #[arg(long)]
    pub flush_content: bool,
    /// Where the memory to measure is made; nothing stays there.
    #[arg(long, default_value = "/dev/shm")]
    pub directory: PathBuf,
}

/// Which verdicts.
#[derive(Debug, Args)]
#[command(
    after_help = "Figures of the laboratory are judged as lab.json has them. What other programs measure is judged by their reports as they are now:
tvarak.json, tvarak-bugs.json and files.json in the same folder, and beside it rig/grid.json, rig/layers.json and apps/report.json.

Examples:
  forebay-lab verdicts
  forebay-lab verdicts target/lab --into docs/inside/papers.md"
)]
pub struct VerdictsOptions {
    /// Where lab.json is.
    #[arg(value_name = "DIR", default_value = "target/lab")]
    pub folder: PathBuf,
    /// Put them into this page, in the place of those that were put there before, and print nothing.
    #[arg(long, value_name = "FILE")]
    pub into: Option<PathBuf>,
}

/// What to replay.
#[derive(Debug, Args)]
#[command(
    after_help = "The file is what blkparse prints, or CSV: with a heading that names op, offset_bytes and
length_bytes, or as the traces of MSR Cambridge. What is written is fresh bytes.

Examples:
  forebay-lab trace requests.csv --engines tinca,forebay
  blkparse -i sda > sda.txt && forebay-lab trace sda.txt --size 256M --disk hdd"
)]
pub struct TraceOptions {
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

/// What to measure of mapped regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DaxPart {
    /// How long stores go without protection, behind which passes come.
    Windows,
    /// What transactions pay with none, with passes, and with checksums and parity at their ends.
    Transactions,
}

/// Which windows to measure, and what transactions pay.
#[derive(Debug, Args)]
#[command(
    after_help = "A page of a mapped region is not protected from its first store to the end of the pass that covers it:
its window. The periods are 0.1, 0.3, 1, 3, 10 and 30 s, with --quick 0.1, 0.2 and 0.4 s.
Transactions are those of libpmemobj's maps and of a table like Redis', with no redundancy (none), with passes
(async), and with checksums and parity made at their ends, by object or by page (txb-object, txb-page).

Examples:
  forebay-lab dax --quick --out report
  forebay-lab dax --only windows --periods 0.1,1 --trackers async-wp,compare --json
  forebay-lab dax --only transactions --out report"
)]
pub struct DaxOptions {
    /// Fewer periods, a smaller region, fewer keys, shorter times.
    #[arg(long)]
    pub quick: bool,
    /// Measure one of the two alone.
    #[arg(long, value_enum, value_name = "PART")]
    pub only: Option<DaxPart>,
    /// Only these periods, in seconds: 0.1 to 30.
    #[arg(long, value_delimiter = ',', value_name = "SECONDS", value_parser = period)]
    pub periods: Vec<Duration>,
    /// Only these trackers, like async-wp,fault,compare.
    #[arg(long, value_delimiter = ',', value_name = "TRACKER")]
    pub trackers: Vec<TrackerKind>,
    /// Size of the region whose windows are measured, instead of 256M, or of 16M with --quick.
    #[arg(long, value_parser = size::parse)]
    pub size: Option<u64>,
    /// Print one JSON list and nothing else; files are then written only with --out.
    #[arg(long)]
    pub json: bool,
    /// Where dax.html and dax.json are written.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Where the region is made; nothing stays there.
    #[arg(long, default_value = "/dev/shm")]
    pub directory: PathBuf,
}

/// What to measure of file buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FilesPart {
    /// Cache lines and fences of a write, exact.
    Counts,
    /// Writes a second, latencies, and the processors' time.
    Times,
    /// Appends by size of an inode's record.
    Inodes,
}

/// Which file buffers to measure.
#[derive(Debug, Args)]
#[command(
    after_help = "Threads append, or write anywhere or by Zipf's law, 256 bytes, 4 KiB or 16 KiB to private files, each write
durable when it returns: through AutoBahn's design, through our buffer, and to the file system with O_SYNC and without.

Examples:
  forebay-lab files --quick --out report
  forebay-lab files --only counts --json
  forebay-lab files --files /srv/scratch --threads 1,2,4,8"
)]
pub struct FilesOptions {
    /// Fewer threads, smaller files, short times.
    #[arg(long)]
    pub quick: bool,
    /// Measure one part alone.
    #[arg(long, value_enum, value_name = "PART")]
    pub only: Option<FilesPart>,
    /// Numbers of threads, instead of 1,2,4.
    #[arg(long, value_delimiter = ',', value_name = "NUMBER", value_parser = threads)]
    pub threads: Vec<usize>,
    /// Print one JSON object and nothing else; files are then written only with --out.
    #[arg(long)]
    pub json: bool,
    /// Where files.html and files.json are written.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Where the files are written, on the disk to compare with; nothing stays there.
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    pub files: PathBuf,
    /// Where the regions are made; nothing stays there.
    #[arg(long, default_value = "/dev/shm")]
    pub directory: PathBuf,
}

fn threads(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=32).contains(number));
    number.ok_or_else(|| format!("{text} is no number of threads; give 1 to 32"))
}

fn period(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok();
    let period = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let allowed = Duration::from_millis(100)..=Duration::from_secs(30);
    let period = period.filter(|period| allowed.contains(period));
    period.ok_or_else(|| format!("{text} is no period; give seconds from 0.1 to 30"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Arguments::command().debug_assert();
    }
}
