//! Tinca's figures and tables.

use super::entry::Standing::{Drawing, Here, Modelled};
use super::entry::{Entry, entry};
use crate::figures::Paper::Tinca;

const REAL_SERVER: &str = "With a real server, MariaDB on ext4 over each cache served as a disk: make bench-tpcc. Here a model of the transactions' \
     pages stands in, whose pages nearly all hit. It would take a quiet machine and the minutes that the paper ran to compare rates.";
const DELAYED_SERVER: &str = "With a real server, MariaDB on ext4 over each cache served with these delays: make bench-tpcc. Here a model of the \
     transactions' pages stands in. It would take a quiet machine and the minutes that the paper ran to compare rates.";
const REAL_CLUSTER: &str = "With real engines, HDFS and GlusterFS on four nodes of one machine, over each design served as a disk, lines flushed and blocks \
     written counted: make cluster. Here one node's file-system model stands in. It would take machines with a network between them to compare times.";

pub(super) const TINCA: &[Entry] = &[
    entry(Tinca, "Figure 1", "architectures", Drawing, ""),
    entry(
        Tinca,
        "Table 1",
        "memory technologies",
        Drawing,
        "Its delays of PCM and STT-RAM are what the memory imitates.",
    ),
    entry(Tinca, "Figure 2", "double writes", Drawing, ""),
    entry(
        Tinca,
        "Figure 3a",
        "traffic of a journal",
        Here("tinca-3a"),
        "",
    ),
    entry(
        Tinca,
        "Figure 3b",
        "cost of journal and flushes",
        Here("tinca-3b"),
        "",
    ),
    entry(
        Tinca,
        "Figure 4",
        "cost of cache metadata",
        Here("tinca-4"),
        "",
    ),
    entry(
        Tinca,
        "Figure 5",
        "layout and cache entry",
        Drawing,
        "Built: crates/lab/src/engines/tinca.",
    ),
    entry(
        Tinca,
        "Figure 6",
        "commit of a transaction",
        Drawing,
        "Built, and checked by crash images.",
    ),
    entry(
        Tinca,
        "Table 2",
        "benchmarks",
        Drawing,
        "Built: crates/lab/src/workload.",
    ),
    entry(
        Tinca,
        "Figure 7a",
        "fio: write throughput",
        Here("tinca-7a"),
        "",
    ),
    entry(
        Tinca,
        "Figure 7b",
        "fio: lines flushed",
        Here("tinca-7b"),
        "",
    ),
    entry(
        Tinca,
        "Figure 7c",
        "fio: disk blocks written",
        Here("tinca-7c"),
        "",
    ),
    entry(
        Tinca,
        "Figure 8a",
        "TPC-C: throughput",
        Modelled("tinca-8a"),
        REAL_SERVER,
    ),
    entry(
        Tinca,
        "Figure 8b",
        "TPC-C: lines flushed",
        Modelled("tinca-8b"),
        REAL_SERVER,
    ),
    entry(
        Tinca,
        "Figure 8c",
        "TPC-C: disk blocks written",
        Modelled("tinca-8c"),
        REAL_SERVER,
    ),
    entry(Tinca, "Figure 9", "a storage cluster", Drawing, ""),
    entry(
        Tinca,
        "Figure 10a",
        "TeraGen: time",
        Modelled("tinca-10a"),
        REAL_CLUSTER,
    ),
    entry(
        Tinca,
        "Figure 10b",
        "TeraGen: lines flushed",
        Modelled("tinca-10b"),
        REAL_CLUSTER,
    ),
    entry(
        Tinca,
        "Figure 10c",
        "TeraGen: disk blocks written",
        Modelled("tinca-10c"),
        REAL_CLUSTER,
    ),
    entry(
        Tinca,
        "Figure 11a",
        "Filebench: throughput",
        Modelled("tinca-11a"),
        REAL_CLUSTER,
    ),
    entry(
        Tinca,
        "Figure 11b",
        "Filebench: lines flushed",
        Modelled("tinca-11b"),
        REAL_CLUSTER,
    ),
    entry(
        Tinca,
        "Figure 11c",
        "Filebench: disk blocks written",
        Modelled("tinca-11c"),
        REAL_CLUSTER,
    ),
    entry(
        Tinca,
        "Figure 12a",
        "kinds of disk",
        Modelled("tinca-12a"),
        DELAYED_SERVER,
    ),
    entry(
        Tinca,
        "Figure 12b",
        "kinds of memory",
        Modelled("tinca-12b"),
        DELAYED_SERVER,
    ),
    entry(
        Tinca,
        "Figure 12c",
        "write hit ratio",
        Modelled("tinca-12c"),
        REAL_SERVER,
    ),
    entry(
        Tinca,
        "Figure 13",
        "blocks of a transaction",
        Here("tinca-13"),
        "",
    ),
];
