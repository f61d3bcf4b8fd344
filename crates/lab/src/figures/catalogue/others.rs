//! The figures and tables of TVARAK and of AutoBahn, which other programs reproduce.

use super::entry::Standing::{Drawing, Elsewhere};
use super::entry::{Entry, entry};
use crate::elsewhere::Source::{Applications, Bugs, Files, Simulator};
use crate::figures::Paper::{AutoBahn, Tvarak};

const PLANTED: &str = "Bugs planted at random; one counts as injected when it made a difference.";
const COUNTED: &str = "Lines of NVM are counted.";
const CLAIMS: &str = "Claim by claim in tvarak.html, with what explains those that do not hold. Numbers are judged at the paper's sizes, orders at any.";
const STORES: &str = "With Forebay in AutoBahn's place, over as many databases as there are processors: one database's latencies can be judged on any machine, 32 and \
     64 at once not on few processors. The paper times a commit in the store, here it is an update from the client's side.";
const MICRO_BENCHMARK: &str = "Of AutoBahn's own design, as an engine of the lab. Ratios to ext4, whose disk here is none of the paper's two NVMe disks of 3.5 GiB/s; what \
     more threads do than there are processors is not judged.";
const PROFILE: &str = "Of its profile user space sees processors' time outside the kernel and in it; one that tells atomic instructions apart is missing.";

pub(super) const TVARAK_AND_AUTOBAHN: &[Entry] = &[
    entry(Tvarak, "Figure 1", "a lost write", Elsewhere(Bugs), PLANTED),
    entry(
        Tvarak,
        "Figure 2",
        "a misdirected write",
        Elsewhere(Bugs),
        PLANTED,
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
        Elsewhere(Simulator),
        COUNTED,
    ),
    entry(
        Tvarak,
        "Figure 5",
        "efficient verification",
        Elsewhere(Simulator),
        COUNTED,
    ),
    entry(
        Tvarak,
        "Figure 6",
        "efficient updates",
        Elsewhere(Simulator),
        COUNTED,
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
        Elsewhere(Simulator),
        CLAIMS,
    ),
    entry(
        Tvarak,
        "Figure 9",
        "design choices",
        Elsewhere(Simulator),
        CLAIMS,
    ),
    entry(
        Tvarak,
        "Figure 10",
        "ways of the cache",
        Elsewhere(Simulator),
        CLAIMS,
    ),
    entry(
        AutoBahn,
        "Figure 1",
        "appends without fsync on ext4",
        Elsewhere(Files),
        PROFILE,
    ),
    entry(AutoBahn, "Table 1", "the server", Drawing, ""),
    entry(AutoBahn, "Figure 2", "the shared buffer head", Drawing, ""),
    entry(
        AutoBahn,
        "Figure 3",
        "inode sizes on ext4",
        Elsewhere(Files),
        PROFILE,
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
        Elsewhere(Applications),
        STORES,
    ),
    entry(
        AutoBahn,
        "Figure 12",
        "commit latencies",
        Elsewhere(Applications),
        STORES,
    ),
    entry(
        AutoBahn,
        "Figure 13",
        "write throughput",
        Elsewhere(Files),
        MICRO_BENCHMARK,
    ),
    entry(
        AutoBahn,
        "Figure 14",
        "latencies of appends",
        Elsewhere(Files),
        MICRO_BENCHMARK,
    ),
    entry(
        AutoBahn,
        "Figure 15",
        "time of appends",
        Elsewhere(Files),
        MICRO_BENCHMARK,
    ),
];
