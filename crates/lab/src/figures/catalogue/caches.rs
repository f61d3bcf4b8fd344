//! The figures and tables of Spindle and of the block cache study.

use super::entry::Standing::{Beside, Drawing, Elsewhere, Here};
use super::entry::{Entry, entry};
use crate::elsewhere::Source::{Grid, Layers};
use crate::figures::Paper::{Spindle, Study};

const IN_GUESTS: &str = "bcache and dm-cache themselves run in a guest: make rig-grid, whose figure of this number has them beside ours.";
const GRID: &str = "Judged are bcache and dm-cache in a guest of one processor, over devices that are imitated: times of it. The engines in this report have \
     their times beside the study's numbers, not in their place.";
const LAYERS: &str = "Counted by dm's own statistics in place of blktrace, over imitated devices and on one virtual processor: counts and ratios hold, times \
     do not.";
const DEVICES: &str = "The devices are imitated and give back what they were told; what is compared is what a cache makes of two.";
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
        Elsewhere(Layers),
        DEVICES,
    ),
    entry(Study, "Figure 2", "bcache", Drawing, ""),
    entry(Study, "Figure 3", "dm-cache", Drawing, ""),
    entry(
        Study,
        "Figure 4",
        "time by layer, NVM and SSD",
        Elsewhere(Layers),
        LAYERS,
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
        Beside("study-5-half", Grid),
        GRID,
    ),
    entry(
        Study,
        "Figure 6",
        "time by layer of lookups",
        Elsewhere(Layers),
        LAYERS,
    ),
    entry(
        Study,
        "Figure 7a",
        "threads, small reads",
        Beside("study-7a", Grid),
        GRID,
    ),
    entry(
        Study,
        "Figure 7b",
        "threads, large reads",
        Beside("study-7b", Grid),
        GRID,
    ),
    entry(
        Study,
        "Figure 8a",
        "share of writes, small",
        Beside("study-8a", Grid),
        GRID,
    ),
    entry(
        Study,
        "Figure 8b",
        "share of writes, large",
        Beside("study-8b", Grid),
        GRID,
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
        Elsewhere(Layers),
        LAYERS,
    ),
    entry(
        Study,
        "Table 1",
        "the numbers of Figure 10",
        Elsewhere(Layers),
        LAYERS,
    ),
    entry(
        Study,
        "Figure 11",
        "working sets beyond the cache",
        Beside("study-11", Grid),
        GRID,
    ),
];
