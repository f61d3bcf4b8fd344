//! What was measured of file buffers, to be written down: as a page, as JSON, as text.

use std::io;
use std::path::Path;

use forebay_harness::{Chart, Page, Section, Series, Shape, TextTable, digits, write_file};
use serde_json::{Value, json};

use super::counts::CountsRow;
use super::inodes::InodesRow;
use super::reported::{Compared, REPORTED};
use super::row::FilesRow;
use super::scope::{FilesScope, Pattern, Unit};
use super::stand::Contender;
use crate::figures::Setting;

/// What a run found.
#[derive(Clone, Copy, Debug)]
pub struct FilesReport<'a> {
    /// What it covered.
    pub scope: &'a FilesScope,
    /// Where and when, and what others did to the processors while it was timed.
    pub setting: &'a Setting,
    /// What was counted.
    pub counts: &'a [CountsRow],
    /// What was timed.
    pub rows: &'a [FilesRow],
    /// Sizes of inodes.
    pub inodes: &'a [InodesRow],
    /// What could not be measured, a line each.
    pub not_measured: &'a [String],
}

impl FilesReport<'_> {
    /// Writes `files.html` and `files.json` into `folder`, each whole or not at all.
    ///
    /// # Errors
    /// A file cannot be written; the error names it.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        let json = self.to_json().to_string() + "\n";
        write_file(&folder.join("files.json"), json.as_bytes())?;
        self.page().write(&folder.join("files.html"))
    }

    /// One object: `machine`, `counts`, `writes`, `inodes`, and `paper`, its numbers beside ours.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "machine": self.setting.to_json(),
            "is_quick": self.scope.is_quick,
            "counts": self.counts,
            "writes": self.rows,
            "inodes": self.inodes,
            "paper": self.compared(),
            "not_measured": self.not_measured,
        })
    }

    fn compared(&self) -> Vec<Compared> {
        let beside = |number: &super::Reported| number.beside(self.scope, self.setting, self.rows);
        REPORTED.iter().map(beside).collect()
    }

    fn page(&self) -> Page {
        let sections = [
            self.paper(),
            self.counted(),
            self.speeds(),
            self.latencies(),
            self.processors(),
            self.inodes(),
        ];
        let mut sections: Vec<Section> =
            sections.into_iter().filter(|one| !one.is_empty()).collect();
        if !self.not_measured.is_empty() {
            sections.push(Section {
                heading: "Not measured".into(),
                paragraphs: self.not_measured.to_vec(),
                ..Section::default()
            });
        }
        Page {
            title: "File buffers: AutoBahn's design and ours".into(),
            lead: self.lead(),
            sections,
            attachments: vec![(
                "files.json".into(),
                "application/json",
                self.to_json().to_string(),
            )],
        }
    }

    fn lead(&self) -> Vec<String> {
        let scope = self.scope;
        let mut lead = self.setting.sentences();
        lead.extend([
            format!(
                "The micro-benchmark of AutoBahn's paper (Cluster Computing 2019, §6.2): threads write to private files, \
                 each write durable when it returns. “autobahn” is the paper's design as an engine of this laboratory, \
                 “forebay” this project's file buffer; both are called in this process and have {} MiB of memory over \
                 the same folder. “disk, synced” is that folder's file system with O_SYNC, “disk, unsynced” the same \
                 without: durable at some time.",
                scope.region_bytes >> 20
            ),
            format!(
                "This machine has {} processors, the paper's 36 cores and two SSDs: what contention among many \
                 cores costs does not show here. Lines and fences are counted and exact; times are this machine's, the \
                 median of {} rounds in which all take turns. What the kernel does for these writes on threads of its own \
                 counts as others'.",
                self.setting.machine.cores,
                scope.rounds,
            ),
        ]);
        if scope.is_quick {
            lead.push("A quick run: fewer threads, smaller files, short times.".into());
        }
        lead
    }

    fn counted(&self) -> Section {
        let chart = |title: &str, y_label: &str, of: fn(&CountsRow) -> f64| {
            let contenders = [Contender::AutoBahn, Contender::Forebay];
            let cells = self.counted_cells();
            let series = contenders.map(|contender| Series {
                name: contender.as_str().into(),
                values: cells
                    .iter()
                    .map(|cell| self.count(contender, *cell).map(of))
                    .collect(),
                ..Series::default()
            });
            Chart {
                title: title.into(),
                x_label: "writes".into(),
                y_label: y_label.into(),
                places: cells.iter().map(|cell| name_of(*cell)).collect(),
                series: series.into(),
                ..Chart::default()
            }
        };
        let charts = match self.counts.is_empty() {
            true => Vec::new(),
            false => vec![
                Some(chart("cache lines of a write", "lines", |row| row.lines)),
                Some(chart("fences of a write", "fences", |row| row.fences)),
            ],
        };
        let mut section = Section::new(
            "What a write costs the memory",
            "Counted in the thread that writes, blocks cached. AutoBahn has blocks of 16 KiB: bytes behind the end go in \
             place and the file's size commits them, with a fence each (§5.2.2); anything else is a new copy of the \
             whole block and a switch of the inode's pointer, with a fence each (§5.2.1). Ours has blocks of 4 KiB \
             and a log, one fence.",
            charts,
        );
        section.is_folded = true;
        section
    }

    fn counted_cells(&self) -> Vec<(&'static str, usize)> {
        let mut cells = Vec::new();
        for row in self.counts {
            if !cells.contains(&(row.pattern, row.unit_bytes)) {
                cells.push((row.pattern, row.unit_bytes));
            }
        }
        cells
    }

    fn count(&self, contender: Contender, cell: (&str, usize)) -> Option<&CountsRow> {
        let mut rows = self.counts.iter();
        rows.find(|row| row.contender == contender && (row.pattern, row.unit_bytes) == cell)
    }

    /// Each contender over the numbers of threads.
    fn over_threads(
        &self,
        (title, y_label): (&str, &str),
        (pattern, unit): (Pattern, Unit),
        of: impl Fn(&FilesRow) -> f64,
    ) -> Chart {
        let value = |contender: &Contender, threads: &usize| {
            self.row(*contender, pattern, unit, *threads).map(&of)
        };
        let series = self.scope.contenders.iter().map(|contender| Series {
            name: contender.as_str().into(),
            values: self
                .scope
                .threads
                .iter()
                .map(|threads| value(contender, threads))
                .collect(),
            ..Series::default()
        });
        Chart {
            title: title.into(),
            x_label: "threads".into(),
            y_label: y_label.into(),
            places: self.scope.threads.iter().map(usize::to_string).collect(),
            series: series.collect(),
            shape: Shape::Lines,
            is_logarithmic: true,
        }
    }

    fn row(
        &self,
        contender: Contender,
        pattern: Pattern,
        unit: Unit,
        threads: usize,
    ) -> Option<&FilesRow> {
        self.rows.iter().find(|row| {
            row.contender == contender
                && row.pattern == pattern.as_str()
                && row.unit_bytes == unit.bytes
                && row.threads == threads
        })
    }

    fn speeds(&self) -> Section {
        let mut charts = Vec::new();
        for unit in &self.scope.units {
            for pattern in &self.scope.patterns {
                let title = format!("{}, {}", title_of(*pattern), unit.title);
                let mebibytes = |row: &FilesRow| row.bytes_s() / f64::from(1 << 20);
                charts.push(self.over_threads((&title, "MiB/s"), (*pattern, *unit), mebibytes));
            }
        }
        let scope = self.scope;
        let mut section = Section::new(
            "How fast",
            format!(
                "The paper's Figures 13 and 15, and 1. Appends of at most {} MiB in all; writes anywhere over {} MiB, {} \
                 times the memory, so that many blocks have to come from the disk and to go there.",
                scope.append_bytes >> 20,
                scope.files_bytes >> 20,
                scope.files_bytes / scope.region_bytes.max(1)
            ),
            charts.into_iter().filter(has_numbers).map(Some),
        );
        section.is_folded = true;
        section
    }

    fn latencies(&self) -> Section {
        let ends = [self.scope.threads.first(), self.scope.threads.last()];
        let mut ends: Vec<usize> = ends.into_iter().flatten().copied().collect();
        ends.dedup();
        let mut charts = Vec::new();
        for unit in &self.scope.units {
            for threads in &ends {
                charts.push(self.distribution(*unit, *threads));
            }
        }
        let mut section = Section::new(
            "How long an append takes",
            "The paper's Figure 14: the latency, in µs, that so many per cent of all writes had at most.",
            charts.into_iter().filter(has_numbers).map(Some),
        );
        section.is_folded = true;
        section
    }

    fn distribution(&self, unit: Unit, threads: usize) -> Chart {
        let row = |contender: &Contender| self.row(*contender, Pattern::Append, unit, threads);
        let shares = super::row::SHARES;
        let series = self.scope.contenders.iter().map(|contender| Series {
            name: contender.as_str().into(),
            values: shares
                .iter()
                .map(|share| Some(f64::from(row(contender)?.latency_ns(*share)?) / 1000.0))
                .collect(),
            ..Series::default()
        });
        let plural = if threads == 1 { "thread" } else { "threads" };
        Chart {
            title: format!("Appends of {}, {threads} {plural}", unit.title),
            x_label: "per cent of all writes".into(),
            y_label: "µs at most".into(),
            places: shares.map(|share| share.to_string()).into(),
            series: series.collect(),
            shape: Shape::Lines,
            is_logarithmic: true,
        }
    }

    fn processors(&self) -> Section {
        let threads = self.scope.threads.last().copied().unwrap_or(1);
        // A synced write takes so much of the kernel that no other bar could be seen beside it; the rows have it.
        let contenders = self.scope.contenders.iter().copied();
        let contenders: Vec<Contender> =
            contenders.filter(|one| *one != Contender::Synced).collect();
        let charts = self.scope.units.iter().map(|unit| {
            let series = |name: &str, of: fn(&FilesRow) -> f64| Series {
                name: name.into(),
                values: contenders
                    .iter()
                    .map(|contender| {
                        self.row(*contender, Pattern::Append, *unit, threads)
                            .map(of)
                    })
                    .collect(),
                ..Series::default()
            };
            let parts = [
                series("program and library", |row| row.user_ns),
                series("kernel", |row| row.kernel_ns),
            ];
            Chart {
                title: format!(
                    "Processors' time of an append of {}, {threads} threads",
                    unit.title
                ),
                x_label: "by".into(),
                y_label: "ns".into(),
                places: contenders.iter().map(|one| one.as_str().into()).collect(),
                // The first colours are the contenders'.
                series: Contender::ALL
                    .map(|_| Series::default())
                    .into_iter()
                    .chain(parts)
                    .collect(),
                ..Chart::default()
            }
        });
        let mut section = Section::new(
            "Where the processors' time goes",
            "What of the paper's Figures 1 and 15 user space can see: how much is spent outside the kernel and in it, \
             by writers and stages together, without the disk synced. Its “atomic operations” are instructions that a \
             profile of the kernel finds.",
            charts.filter(has_numbers).map(Some),
        );
        section.is_folded = true;
        section
    }

    fn inodes(&self) -> Section {
        if self.inodes.is_empty() {
            return Section::default();
        }
        let mut places: Vec<Option<u64>> = self.inodes.iter().map(|row| row.inode_bytes).collect();
        places.sort_unstable_by_key(|bytes| bytes.unwrap_or(u64::MAX));
        places.dedup();
        let contenders = [
            Contender::AutoBahn,
            Contender::Forebay,
            Contender::Synced,
            Contender::Unsynced,
        ];
        let series = contenders.map(|contender| Series {
            name: match contender {
                Contender::Unsynced => "ext4, unsynced".into(),
                other => other.as_str().into(),
            },
            values: places
                .iter()
                .map(|bytes| {
                    let mut rows = self.inodes.iter();
                    let row =
                        rows.find(|row| row.contender == contender && row.inode_bytes == *bytes);
                    row.map(|row| row.writes_s * 256.0 / f64::from(1 << 20))
                })
                .collect(),
            ..Series::default()
        });
        let name = |bytes: &Option<u64>| bytes.map_or("none".into(), |bytes| format!("{bytes} B"));
        let chart = Chart {
            title: "Appends of 256 B by size of an inode's record".into(),
            x_label: "inode's record".into(),
            y_label: "MiB/s".into(),
            places: places.iter().map(name).collect(),
            series: series.into(),
            ..Chart::default()
        };
        let mut section = Section::new(
            "Size of an inode",
            "The paper's Figure 3: inodes of ext4 that share a page share a buffer_head, whose atomic changes 36 cores \
             contend for; the larger an inode, the fewer share one. Here ext4 without a journal is made anew with each \
             size, in a file of the same folder. With as few processors as this machine has there is hardly anybody to \
             contend with, and no rise is to be expected. The buffers have no such page: of AutoBahn's engine two \
             records share a line at 32 bytes and none at more; ours keeps each file's size in a block of its own.",
            [Some(chart)],
        );
        section.is_folded = true;
        section
    }

    fn paper(&self) -> Section {
        let compared = self.compared();
        let shown = |ours: Option<f64>| ours.map_or("–".into(), digits);
        let row = |one: &Compared| {
            let plural = if one.threads == 1 {
                "thread"
            } else {
                "threads"
            };
            let verdict = match (one.holds, &one.not_judged) {
                (Some(true), _) => "holds".into(),
                (Some(false), _) => "does not hold".into(),
                (None, Some(why)) => format!("not judged: {why}"),
                (None, None) => "not measured".into(),
            };
            vec![
                format!("{} (ours: {} {plural})", one.what, one.threads),
                digits(one.paper),
                shown(one.autobahn),
                verdict,
                shown(one.forebay),
            ]
        };
        let columns = [
            "number",
            "paper",
            "its design here",
            "verdict",
            "forebay here",
        ];
        let table = TextTable {
            columns: columns.map(str::to_owned).into(),
            rows: compared.iter().map(row).collect(),
        };
        let mut section = Section {
            heading: "The paper's numbers beside ours".into(),
            paragraphs: vec![
                "All that its text has of the micro-benchmark, as ratios to ext4: how many times faster than the disk, \
                 synced or unsynced. Over 1 is for the buffer. What a disk takes to sync decides the first kind: that of \
                 a virtual machine is none of the paper's SSDs. A number holds if that of its design is within a factor of 1.25 and, as a \
                 ratio, at least half as far from 1, on the same side."
                    .into(),
            ],
            ..Section::default()
        };
        if !self.rows.is_empty() {
            section.words.push(("AutoBahn over ext4".into(), table));
        }
        section
    }
}

fn has_numbers(chart: &Chart) -> bool {
    let mut values = chart.series.iter().flat_map(|series| &series.values);
    values.any(Option::is_some)
}

fn title_of(pattern: Pattern) -> &'static str {
    match pattern {
        Pattern::Append => "At the end",
        Pattern::Uniform => "Anywhere",
        Pattern::Zipf => "By Zipf's law",
    }
}

fn name_of((pattern, unit_bytes): (&str, usize)) -> String {
    match unit_bytes {
        small if small < 1024 => format!("{pattern} {small} B"),
        large => format!("{pattern} {} KiB", large >> 10),
    }
}
