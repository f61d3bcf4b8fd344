//! The command line of `forebay-lab tvarak`.

use std::ops::Range;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use forebay_tvarak::Design;
use forebay_tvarak::figures::plan::Figure;
use forebay_tvarak::name::Workload;
use forebay_tvarak::nvm::fault::FaultKind;

/// TVARAK's simulator.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  forebay-lab tvarak run all --quick
  forebay-lab tvarak run fio --quick")]
pub struct TvarakOptions {
    /// What to do.
    #[command(subcommand)]
    pub command: TvarakCommand,
}

/// What it does.
#[derive(Debug, Subcommand)]
pub enum TvarakCommand {
    /// Run the paper's figures, judge its claims and write the report; or simulate workloads on each design.
    Run(TvarakRun),
    /// Halve and double what the paper does not give: which of its claims depend on that.
    Sweep(TvarakSweep),
    /// Plant bugs of DIMMs' firmware, cut power, let DIMMs die: what is detected, what is repaired.
    Bugs(TvarakBugs),
    /// Run the trace of a real program on the designs.
    Trace(TvarakTrace),
    /// Print what the paper's text says of its results, each sentence with its section.
    Claims(TvarakClaims),
}

/// What to simulate.
#[derive(Debug, Args)]
#[command(
    after_help = "Figures are fig8, fig9, fig10, dimms (eight DIMMs of NVM), technology (NVM as fast as DRAM), and all. Each of their cells is kept
in OUT/tvarak-cells.jsonl as soon as it is measured: a run that was interrupted goes on where it was. The report, tvarak.html,
tvarak.json and tvarak.csv, has every figure that was measured so far at this scale, and what became of the paper's claims.

Workloads are fio-seq-read, fio-seq-write, fio-rand-read, fio-rand-write; stream-copy, stream-scale, stream-add,
stream-triad; redis-set, redis-get; of each of ctree, btree and rbtree -insert, -update, -balanced and -read;
nstore-update-heavy, nstore-balanced, nstore-read-heavy. fio, stream, redis, tree and nstore are all of theirs, tree-insert
is that of all three trees. Of them a row for each design is printed, and nothing is kept. The designs are baseline, naive, ev,
ev-cached, tvarak, tvarak-adaptive, txb-object, txb-page, async, regions and regions-sync. The same seed and parameters give the same run, to the bit.

Examples:
  forebay-lab tvarak run all --quick
  forebay-lab tvarak run fig8 fig9 --out report
  forebay-lab tvarak run all --measured
  forebay-lab tvarak run fio --quick
  forebay-lab tvarak run --paper-size
  forebay-lab tvarak run stream-triad --designs baseline,tvarak --json
  forebay-lab tvarak run fio-rand-write --vary nvm.banks=1/2 --designs tvarak"
)]
pub struct TvarakRun {
    /// Figures, or workloads by name or all of one kind.
    #[arg(required_unless_present = "paper_size", value_name = "FIGURE|WORKLOAD", value_parser = asked)]
    pub what: Vec<Asked>,
    /// Instead of either: run one workload of each application (redis-set, ctree-insert, nstore-balanced) with all of the paper's operations
    /// and with a tenth of them, and say by how many points overheads move. Kept in OUT/paper-size.
    #[arg(long, conflicts_with_all = ["what", "designs", "check", "seed", "vary", "seeds", "measured"])]
    pub paper_size: bool,
    /// Only these designs, beside the baseline; of figures, the others' cells are left for another run.
    #[arg(long, value_delimiter = ',', value_name = "DESIGN")]
    pub designs: Vec<Design>,
    /// Caches and work of a 32nd of the paper's; of figures, one seed, and of the claims orders alone.
    #[arg(long)]
    pub quick: bool,
    /// Of workloads: look at every byte, every checksum and all parity after each run.
    #[arg(long)]
    pub check: bool,
    /// The machine and the work, instead of what is built in: TOML as in crates/tvarak/parameters.toml.
    #[arg(long, value_name = "FILE")]
    pub parameters: Option<PathBuf>,
    /// Multiply one parameter that the paper does not give, like nvm.banks=2 or cores.fill_buffers=1/2.
    #[arg(long, value_name = "NAME=FACTOR", value_parser = vary, conflicts_with = "parameters")]
    pub vary: Option<(String, [u64; 2])>,
    /// Of workloads: the same seed makes the same work [default: 1].
    #[arg(long)]
    pub seed: Option<u64>,
    /// How figures are run.
    #[command(flatten)]
    pub cells: CellsOptions,
    /// Print one JSON object of figures, or one list of workloads' rows, and nothing else.
    #[arg(long)]
    pub json: bool,
}

/// How cells are run, and where they are kept.
#[derive(Debug, Args)]
pub struct CellsOptions {
    /// Of figures: runs of each cell that chance has a part in [default: 3, with --quick 1].
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..=100))]
    pub seeds: Option<u64>,
    /// Of figures: the folder of the cells and the report.
    #[arg(long, value_name = "FOLDER", default_value = "target/lab")]
    pub out: PathBuf,
    /// Of figures: cells at the same time [default: as many as there are processors]. One may take 4 GiB of memory.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub threads: Option<u16>,
    /// Of figures: run nothing; write the report of what was measured.
    #[arg(long)]
    pub measured: bool,
}

/// What the sweep does.
#[derive(Debug, Args)]
#[command(
    after_help = "Each parameter that the paper does not give is halved and doubled, under one workload of each program (those of the paper's
section 4.7), on the baseline, TVARAK and the two designs in software. The report is that of the figures; it says which of the
claims' verdicts change. Cells are kept as those of figures are.

Examples:
  forebay-lab tvarak sweep --quick
  forebay-lab tvarak sweep --out report"
)]
pub struct TvarakSweep {
    /// Caches and work of a 32nd of the paper's.
    #[arg(long)]
    pub quick: bool,
    /// How cells are run.
    #[command(flatten)]
    pub cells: CellsOptions,
    /// Print one JSON object and nothing else.
    #[arg(long)]
    pub json: bool,
}

/// A figure or all, or workloads.
#[derive(Clone, Debug)]
pub enum Asked {
    /// Figures.
    Figures(Vec<Figure>),
    /// Workloads.
    Workloads(Vec<Workload>),
}

/// What to plant.
#[derive(Debug, Args)]
#[command(
    after_help = "Each trial runs programs at random on a machine with small caches over a small file, plants one bug, and compares
every byte that is read, and every byte, checksum and parity in the end.

Examples:
  forebay-lab tvarak bugs --quick --out target/lab
  forebay-lab tvarak bugs --bugs 10000 --json
  forebay-lab tvarak bugs --kinds lost_write --design ev"
)]
pub struct TvarakBugs {
    /// How many of each kind have to be there to be detected, and how many cuts and deaths there are.
    #[arg(long, value_name = "NUMBER", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub bugs: u64,
    /// 200 of each.
    #[arg(long, conflicts_with = "bugs")]
    pub quick: bool,
    /// Only these kinds: lost_write, misdirected_write, misdirected_read.
    #[arg(long, value_delimiter = ',', value_name = "KIND", value_parser = kind)]
    pub kinds: Vec<FaultKind>,
    /// The design, one with a controller: the others verify nothing.
    #[arg(long, default_value = "tvarak", value_parser = protecting)]
    pub design: Design,
    /// The first trial's seed.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Where tvarak-bugs.json is written, by which the laboratory's report judges the paper's first two figures.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print one JSON object and nothing else.
    #[arg(long)]
    pub json: bool,
}

/// Which trace, and on what.
#[derive(Debug, Args)]
#[command(
    after_help = "The trace is what valgrind --tool=lackey --trace-mem=yes prints. It is read once, all designs beside each other, and not kept.
A trace tells no transactions: designs that keep redundancy at their end (txb-object, txb-page, regions-sync) are refused.

Examples:
  valgrind --tool=lackey --trace-mem=yes --log-fd=9 ./mapcli btree map.pool 9>&1 >/dev/null 2>/dev/null | forebay-lab tvarak trace - --nvm 10000000000-1000a000000
  forebay-lab tvarak trace map.trace --nvm 10000000000-10008000000 --designs tvarak,naive --json"
)]
pub struct TvarakTrace {
    /// The trace; - for standard input.
    #[arg(value_name = "FILE|-")]
    pub trace: PathBuf,
    /// The program's addresses that are the mapped file, in hexadecimal digits, whole pages; all others are DRAM.
    #[arg(long, value_name = "START-END", value_parser = range)]
    pub nvm: Vec<Range<u64>>,
    /// The designs, beside the baseline.
    #[arg(
        long,
        alias = "design",
        value_delimiter = ',',
        value_name = "DESIGN",
        default_value = "tvarak"
    )]
    pub designs: Vec<Design>,
    /// Caches of a 32nd of the paper's.
    #[arg(long)]
    pub quick: bool,
    /// Print one JSON object and nothing else.
    #[arg(long)]
    pub json: bool,
}

/// How to print the claims.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  forebay-lab tvarak claims --json")]
pub struct TvarakClaims {
    /// Print one JSON list.
    #[arg(long)]
    pub json: bool,
}

fn asked(text: &str) -> Result<Asked, String> {
    let is_meant = |figure: &Figure| text == "all" || text == figure.as_str();
    let figures: Vec<Figure> = Figure::ALL.into_iter().filter(is_meant).collect();
    if !figures.is_empty() {
        return Ok(Asked::Figures(figures));
    }
    Workload::named(text)
        .map(Asked::Workloads)
        .map_err(|error| {
            let names = Figure::ALL.map(Figure::as_str).join(", ");
            format!("there is no figure {text}; there are all, {names}. As a workload: {error}")
        })
}

fn kind(text: &str) -> Result<FaultKind, String> {
    let found = FaultKind::ALL
        .into_iter()
        .find(|kind| kind.as_str() == text);
    found.ok_or_else(|| {
        let names = FaultKind::ALL.map(FaultKind::as_str).join(", ");
        format!("there is no kind {text}; there are {names}")
    })
}

fn protecting(text: &str) -> Result<Design, String> {
    match text.parse::<Design>()? {
        design if design.has_controller() => Ok(design),
        design => Err(format!(
            "{} has nothing to detect bugs with when it reads",
            design.as_str()
        )),
    }
}

fn vary(text: &str) -> Result<(String, [u64; 2]), String> {
    let wrong = || format!("{text} is no NAME=FACTOR like nvm.banks=2 or nvm.banks=1/2");
    let (name, factor) = text.split_once('=').ok_or_else(wrong)?;
    let (times, over) = factor.split_once('/').unwrap_or((factor, "1"));
    let number = |text: &str| {
        let number = text.parse::<u64>().ok();
        number
            .filter(|number| (1..=1024).contains(number))
            .ok_or_else(wrong)
    };
    Ok((name.to_owned(), [number(times)?, number(over)?]))
}

fn range(text: &str) -> Result<Range<u64>, String> {
    let number = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok();
    let ends = text.split_once('-');
    ends.and_then(|(start, end)| Some(number(start)?..number(end)?))
        .ok_or_else(|| format!("{text} is no START-END like 10000000000-10008000000"))
}
