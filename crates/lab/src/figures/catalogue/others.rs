//! The figures and tables of TVARAK and of AutoBahn, which other programs reproduce.

use super::entry::Standing::{Drawing, Elsewhere};
use super::entry::{Entry, entry};
use crate::figures::Paper::{AutoBahn, Tvarak};

const SIMULATED: &str = "forebay-lab tvarak run all";
const APPLICATIONS: &str = "make bench-apps";
const FILES: &str = "forebay-lab files";
const TWO_CORES: &str = "Drawn for up to 16 threads or as many as there are processors, with Forebay in AutoBahn's place; the paper's numbers are of 36 \
     cores and NVMe disks of 3.5 GiB/s and cannot be compared on few cores.";
const MICRO_BENCHMARK: &str = "AutoBahn's own design, our file buffer and ext4 beside each other; ratios to ext4 as the paper's text has them. Rates of 36 cores \
     cannot be compared on few.";
const FEW_PROCESSORS: &str = "In part: processors' time outside the kernel and in it, and appends by the size of an inode's record. Threads that contend for one \
     buffer head of ext4 take dozens of processors, and a profile that tells atomic instructions apart.";

pub(super) const TVARAK_AND_AUTOBAHN: &[Entry] = &[
    entry(
        Tvarak,
        "Figure 1",
        "a lost write",
        Elsewhere("forebay-lab tvarak bugs"),
        "Planted ten thousand times each, all found and repaired.",
    ),
    entry(
        Tvarak,
        "Figure 2",
        "a misdirected write",
        Elsewhere("forebay-lab tvarak bugs"),
        "Planted ten thousand times each, all found and repaired.",
    ),
    entry(
        Tvarak,
        "Table 1",
        "trade-offs of designs",
        Drawing,
        "Those that it names are simulated: page and object checksums, asynchronous, TVARAK.",
    ),
    entry(
        Tvarak,
        "Figure 3",
        "checksums and parity",
        Drawing,
        "Built: crates/tvarak.",
    ),
    entry(
        Tvarak,
        "Figure 4",
        "the naive design",
        Elsewhere(SIMULATED),
        "Its 65 lines read are counted.",
    ),
    entry(
        Tvarak,
        "Figure 5",
        "efficient verification",
        Elsewhere(SIMULATED),
        "Its lines are counted.",
    ),
    entry(
        Tvarak,
        "Figure 6",
        "efficient updates",
        Elsewhere(SIMULATED),
        "Its lines are counted.",
    ),
    entry(
        Tvarak,
        "Figure 7",
        "where the controllers are",
        Drawing,
        "Built: crates/tvarak.",
    ),
    entry(
        Tvarak,
        "Table 2",
        "applications",
        Drawing,
        "Built, those that are not at hand reconstructed.",
    ),
    entry(
        Tvarak,
        "Table 3",
        "parameters",
        Drawing,
        "Those of the simulator.",
    ),
    entry(
        Tvarak,
        "Figure 8",
        "runtime, energy, accesses",
        Elsewhere(SIMULATED),
        "Judged claim by claim in tvarak.html.",
    ),
    entry(
        Tvarak,
        "Figure 9",
        "design choices",
        Elsewhere(SIMULATED),
        "Judged claim by claim in tvarak.html.",
    ),
    entry(
        Tvarak,
        "Figure 10",
        "ways of the cache",
        Elsewhere(SIMULATED),
        "Judged claim by claim in tvarak.html.",
    ),
    entry(
        AutoBahn,
        "Figure 1",
        "appends without fsync on ext4",
        Elsewhere(FILES),
        FEW_PROCESSORS,
    ),
    entry(AutoBahn, "Table 1", "the server", Drawing, ""),
    entry(AutoBahn, "Figure 2", "the shared buffer head", Drawing, ""),
    entry(
        AutoBahn,
        "Figure 3",
        "inode sizes on ext4",
        Elsewhere(FILES),
        FEW_PROCESSORS,
    ),
    entry(AutoBahn, "Figure 4", "architecture", Drawing, ""),
    entry(AutoBahn, "Table 2", "metadata", Drawing, ""),
    entry(AutoBahn, "Figure 5", "design", Drawing, ""),
    entry(
        AutoBahn,
        "Figure 6",
        "the pipeline",
        Drawing,
        "Built: crates/lab/src/autobahn. Ours: crates/cache/src/background.",
    ),
    entry(
        AutoBahn,
        "Figure 7",
        "the queue",
        Drawing,
        "Built: crates/lab/src/autobahn. Ours: crates/cache/src/table/word_set_queue.rs.",
    ),
    entry(
        AutoBahn,
        "Figure 8",
        "a block written while flushed",
        Drawing,
        "",
    ),
    entry(
        AutoBahn,
        "Figure 9",
        "update in place",
        Drawing,
        "Built: crates/lab/src/autobahn. Ours: crates/files.",
    ),
    entry(AutoBahn, "Figure 10", "batches", Drawing, ""),
    entry(
        AutoBahn,
        "Figure 11",
        "YCSB over several databases",
        Elsewhere(APPLICATIONS),
        TWO_CORES,
    ),
    entry(
        AutoBahn,
        "Figure 12",
        "commit latencies",
        Elsewhere(APPLICATIONS),
        TWO_CORES,
    ),
    entry(
        AutoBahn,
        "Figure 13",
        "write throughput",
        Elsewhere(FILES),
        MICRO_BENCHMARK,
    ),
    entry(
        AutoBahn,
        "Figure 14",
        "latencies of appends",
        Elsewhere(FILES),
        MICRO_BENCHMARK,
    ),
    entry(
        AutoBahn,
        "Figure 15",
        "time of appends",
        Elsewhere(FILES),
        MICRO_BENCHMARK,
    ),
];
