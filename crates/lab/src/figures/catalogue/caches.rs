//! The figures and tables of Spindle and of the block cache study.

use super::entry::Standing::{Drawing, Here, Missing};
use super::entry::{Entry, entry};
use crate::figures::Paper::{Spindle, Study};

const IN_GUESTS: &str = "bcache and dm-cache themselves run in a guest: make rig-grid, whose figure of this number has them beside ours.";
const TRACED: &str = "It would take a request traced through the layers of a guest's kernel (blktrace, btt) and, to mean what the paper's means, an \
     NVDIMM and an SSD below it: time at an emulated device is the emulation's.";

pub(super) const SPINDLE_AND_STUDY: &[Entry] = &[
    entry(Spindle, "Figure 1", "architecture", Drawing, ""),
    entry(
        Spindle,
        "Figure 2",
        "metadata write amplification",
        Drawing,
        "",
    ),
    entry(
        Spindle,
        "Figure 3",
        "layout",
        Drawing,
        "Built: crates/lab/src/engines/spindle.",
    ),
    entry(
        Spindle,
        "Figure 4",
        "commit of a transaction",
        Drawing,
        "Built, and checked by crash images.",
    ),
    entry(
        Spindle,
        "Figure 5a",
        "fio: throughput",
        Here("spindle-5a"),
        "",
    ),
    entry(
        Spindle,
        "Figure 5b",
        "fio: lines flushed",
        Here("spindle-5b"),
        "",
    ),
    entry(
        Spindle,
        "Table 1",
        "benchmarks",
        Drawing,
        "Built: crates/lab/src/workload.",
    ),
    entry(
        Spindle,
        "Figure 6, fileserver",
        "throughput by file size",
        Here("spindle-6-fileserver"),
        "",
    ),
    entry(
        Spindle,
        "Figure 6, webproxy",
        "throughput by file size",
        Here("spindle-6-webproxy"),
        "",
    ),
    entry(
        Spindle,
        "Figure 6, varmail",
        "throughput by file size",
        Here("spindle-6-varmail"),
        "",
    ),
    entry(
        Study,
        "Figure 1",
        "devices and caches",
        Missing,
        "It would take the HDD, the SSD and the NVDIMM themselves: it compares devices, and an emulated one gives back what it was told.",
    ),
    entry(Study, "Figure 2", "bcache", Drawing, ""),
    entry(Study, "Figure 3", "dm-cache", Drawing, ""),
    entry(
        Study,
        "Figure 4",
        "time by layer, NVM and SSD",
        Missing,
        TRACED,
    ),
    entry(
        Study,
        "Figure 5, an eighth",
        "lookup",
        Here("study-5-eighth"),
        IN_GUESTS,
    ),
    entry(
        Study,
        "Figure 5, half",
        "lookup",
        Here("study-5-half"),
        IN_GUESTS,
    ),
    entry(
        Study,
        "Figure 6",
        "time by layer of lookups",
        Missing,
        TRACED,
    ),
    entry(
        Study,
        "Figure 7a",
        "threads, small reads",
        Here("study-7a"),
        IN_GUESTS,
    ),
    entry(
        Study,
        "Figure 7b",
        "threads, large reads",
        Here("study-7b"),
        IN_GUESTS,
    ),
    entry(
        Study,
        "Figure 8a",
        "share of writes, small",
        Here("study-8a"),
        IN_GUESTS,
    ),
    entry(
        Study,
        "Figure 8b",
        "share of writes, large",
        Here("study-8b"),
        IN_GUESTS,
    ),
    entry(
        Study,
        "Figure 9",
        "threads, reads and writes",
        Here("study-9"),
        IN_GUESTS,
    ),
    entry(
        Study,
        "Figure 10",
        "time by layer, reads and writes",
        Missing,
        TRACED,
    ),
    entry(
        Study,
        "Table 1",
        "the numbers of Figure 10",
        Missing,
        TRACED,
    ),
    entry(
        Study,
        "Figure 11",
        "working sets beyond the cache",
        Here("study-11"),
        IN_GUESTS,
    ),
];
