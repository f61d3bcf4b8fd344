//! Where Forebay loses to one of the other caches, and why.

use forebay_harness::{TextTable, digits};

use super::FigureResult;
use crate::engines::EngineName;
use crate::experiments::Spread;
use crate::measure::CountsRow;

/// Forebay loses where it has so much more of what is better less, or so much less of what is better more.
const LOSING_FACTOR: f64 = 1.02;

/// Of figures whose times have writes in them.
pub(super) const WRITES_BACK_BESIDE: &str = "Forebay writes back on threads of its own, so that its clients need not; on few cores, or on a \
     loaded machine, these take turns with the client. As printed the others do the same work in the client's own time; with the cleaner they \
     have such threads, too.";
/// Of figures of cached reads.
pub(super) const CHECKS_READS: &str = "Forebay compares each block that it hands over with its checksum, a second pass over all bytes; the other caches \
     have no checksums and hand over what is there. That is the price of finding damage. It shows most where many blocks are read at once, \
     64 to 256 KiB, for a copy alone then runs at the speed of memory.";
const INODES: &str = "Of metadata alone Spindle flushes ten lines for an inode of 256 bytes: its record, its place, Head. Forebay logs the bytes that changed \
     with a checksum and writes the block back later, which makes as many lines or a few percent more for a third of the fences.";

/// Every figure with a place, and every number with a workload, at which one of the papers' caches is better by more than a little.
/// Times of a loaded machine say of neither that it is.
pub(super) fn table(results: &[FigureResult], counts: &[CountsRow]) -> TextTable {
    let judged = results.iter().filter(|result| !result.is_loaded());
    let of_figures = judged.filter_map(|result| {
        let places = (0..result.places.len()).filter_map(|place| {
            let is_less_better = result.figure.metric.is_less_better()?;
            let spread = |key| result.spread(result.series(key)?, place);
            Some(format!(
                "{}: {}",
                result.places[place],
                lost(is_less_better, spread)?
            ))
        });
        row(
            &result.figure.heading(),
            result.figure.metric.label(),
            places,
            result.figure.loses,
        )
    });
    TextTable {
        columns: ["where", "what", "Forebay; the best other", "why"]
            .map(str::to_owned)
            .into(),
        rows: of_figures.chain(of_rows(counts)).collect(),
    }
}

fn row(
    heading: &str,
    what: &str,
    places: impl Iterator<Item = String>,
    why: &str,
) -> Option<Vec<String>> {
    let places: Vec<String> = places.collect();
    let why = if why.is_empty() { "not explained" } else { why };
    (!places.is_empty()).then(|| {
        [heading, what, &places.join("; "), why]
            .map(str::to_owned)
            .into()
    })
}

fn of_rows(counts: &[CountsRow]) -> Vec<Vec<String>> {
    type Number = fn(&CountsRow) -> Option<Spread>;
    let columns: [(&str, bool, &str, Number); 8] = [
        ("lines/write, as printed", true, INODES, |row| {
            exactly(row.lines_per_write)
        }),
        ("lines/write, with the cleaner", true, INODES, |row| {
            exactly(row.lines_per_write_cleaner)
        }),
        ("fences/write, as printed", true, "", |row| {
            exactly(row.fences_per_write)
        }),
        ("fences/write, with the cleaner", true, "", |row| {
            exactly(row.fences_per_write_cleaner)
        }),
        ("disk blocks/write, as printed", true, "", |row| {
            exactly(row.disk_blocks_per_write)
        }),
        ("disk blocks/write, with the cleaner", true, "", |row| {
            exactly(row.disk_blocks_per_write_cleaner)
        }),
        (
            "operations/s, as printed",
            false,
            WRITES_BACK_BESIDE,
            |row| {
                judged(row).map(|row| Spread {
                    median: row.ops_per_s,
                    least: row.ops_per_s_least,
                    most: row.ops_per_s_most,
                })
            },
        ),
        ("operations/s, with the cleaner", false, "", |row| {
            judged(row).map(|row| Spread {
                median: row.ops_per_s_cleaner,
                least: row.ops_per_s_cleaner_least,
                most: row.ops_per_s_cleaner_most,
            })
        }),
    ];
    let mut workloads: Vec<&str> = counts.iter().map(|row| row.workload.as_str()).collect();
    workloads.dedup();
    let rows = columns
        .into_iter()
        .filter_map(|(what, is_less_better, why, number)| {
            let places = workloads.iter().filter_map(|workload| {
                let is_of = |row: &&CountsRow, key| row.workload == *workload && row.engine == key;
                let spread = |key| number(counts.iter().find(|row| is_of(row, key))?);
                Some(format!("{workload}: {}", lost(is_less_better, spread)?))
            });
            row("Every engine on every workload", what, places, why)
        });
    rows.collect()
}

/// A row whose times can be judged: what others did at the time cannot have made another design faster.
fn judged(row: &CountsRow) -> Option<&CountsRow> {
    (!row.is_loaded || row.engine != EngineName::Forebay.as_str()).then_some(row)
}

fn exactly(number: f64) -> Option<Spread> {
    Some(Spread {
        median: number,
        least: number,
        most: number,
    })
}

/// What is lost, in words: to the best of those that are better by more than a little and whose runs do not overlap with ours.
fn lost(is_less_better: bool, spread: impl Fn(&'static str) -> Option<Spread>) -> Option<String> {
    let key = EngineName::Forebay.as_str();
    let ours = spread(key)?;
    let others = EngineName::ALL.iter().filter(|other| other.as_str() != key);
    let others = others.flat_map(|other| [Some(other.as_str()), other.with_cleaner()]);
    let others = others.flatten();
    let others = others.filter_map(|other| Some((other, spread(other)?)));
    let wins = |other: &Spread| match is_less_better {
        true => ours.median > other.median * LOSING_FACTOR && ours.least > other.most,
        false => other.median > ours.median * LOSING_FACTOR && ours.most < other.least,
    };
    let winners = others.filter(|(_, other)| wins(other));
    let better = |left: f64, right: f64| match is_less_better {
        true => left.total_cmp(&right),
        false => right.total_cmp(&left),
    };
    let (name, best) = winners.min_by(|(_, left), (_, right)| better(left.median, right.median))?;
    Some(format!(
        "{}; {name} {}",
        digits(ours.median),
        digits(best.median)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::testing::{figure, loaded};

    #[test]
    fn the_best_of_those_that_are_apart_wins_and_none_at_all_is_less_than_some() {
        let ends = |median, least, most| {
            Some(Spread {
                median,
                least,
                most,
            })
        };
        let speed = |key| match key {
            "forebay" => ends(90.0, 89.0, 91.0),
            "tinca" => ends(100.0, 80.0, 120.0),
            "spindle-cleaner" => ends(98.0, 97.0, 99.0),
            _ => None,
        };
        assert!(lost(false, speed).is_some_and(|lost| lost.contains("spindle-cleaner")));
        let blocks = |key| match key {
            "forebay" => ends(0.5, 0.5, 0.5),
            "tinca" => ends(0.0, 0.0, 0.0),
            _ => None,
        };
        assert!(lost(true, blocks).is_some_and(|lost| lost.contains("tinca")));
    }

    #[test]
    fn what_is_lost_is_said_beside_the_best() {
        let values: [(&'static str, &[f64]); 3] = [
            ("classic", &[100.0, 100.0, 100.0]),
            ("tinca", &[250.0, 210.0, 90.0]),
            ("forebay", &[80.0, 300.0, 99.0]),
        ];
        let table = table(&[figure("tinca-7a", &["3/7", "5/5", "7/3"], &values)], &[]);
        assert_eq!(table.rows.len(), 1);
        assert_eq!(table.rows[0][2], "3/7: 80.0; tinca 250");
        assert_eq!(table.rows[0][3], WRITES_BACK_BESIDE);
        let loaded = loaded("tinca-7a", &["3/7", "5/5", "7/3"], &values);
        assert!(super::table(&[loaded], &[]).rows.is_empty());
    }

    #[test]
    fn runs_that_overlap_are_no_loss() {
        let spread = |key| {
            let (median, least, most) = match key {
                "forebay" => (90.0, 85.0, 96.0),
                "tinca" => (100.0, 95.0, 101.0),
                _ => return None,
            };
            Some(Spread {
                median,
                least,
                most,
            })
        };
        assert_eq!(lost(false, spread), None);
        assert_eq!(lost(true, |key| exactly(spread(key)?.median)), None);
        let apart = |key| exactly(spread(key)?.median);
        assert_eq!(lost(false, apart).as_deref(), Some("90.0; tinca 100"));
    }

    /// Every figure but that of sizes says which way is better.
    #[test]
    fn a_metric_says_which_way_is_better() {
        for figure in crate::figures::all() {
            let is_size = figure.name == "tinca-13";
            assert_eq!(
                figure.metric.is_less_better().is_none(),
                is_size,
                "{}",
                figure.name
            );
        }
    }
}
