//! Where Forebay loses to one of the other caches, and why.

use forebay_harness::{TextTable, digits};

use super::{FigureResult, counts_page};
use crate::engines::EngineName;
use crate::experiments::Spread;
use crate::measure::CountsRow;

/// Forebay loses where in the middle of the rounds it has so much more of what is better less, or so much less of what is better more.
const LOSING_FACTOR: f64 = 1.02;
/// The same in words, for readers.
pub(super) const RULE: &str = "Listed is each place at which, in the middle of the rounds' ratios, another cache is better by more than a fiftieth, \
     however far the rounds lie apart; beside it the least and the most of these ratios, Forebay's number over the other's. Times that \
     others disturbed while Forebay's were measured are left out.";

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
/// Times of ours that were measured on a loaded machine say of neither that it is.
pub(super) fn table(results: &[FigureResult], counts: &[CountsRow]) -> TextTable {
    let of_figures = results.iter().filter_map(|result| {
        let places = (0..result.places.len()).filter_map(|place| {
            let is_less_better = result.figure.metric.is_less_better()?;
            let ours = EngineName::Forebay.as_str();
            if result.is_loaded_at(result.series(ours)?, place) {
                return None;
            }
            let of = |key| {
                Some(Beside {
                    median: result.value(result.series(key)?, place)?,
                    ratio: result.ratio_spread((ours, place), (key, place)),
                })
            };
            Some(format!(
                "{}: {}",
                result.places[place],
                lost(is_less_better, of)?
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

/// What a row has in a column, and the same round by round.
type Column = (&'static str, bool, &'static str, fn(&CountsRow) -> Number);

struct Number {
    middle: f64,
    rounds: Vec<Option<f64>>,
}

impl Number {
    fn exact(number: f64) -> Number {
        Number {
            middle: number,
            rounds: vec![Some(number)],
        }
    }
}

const COLUMNS: [Column; 8] = [
    ("lines/write, as printed", true, INODES, |row| {
        Number::exact(row.lines_per_write)
    }),
    ("lines/write, with the cleaner", true, INODES, |row| {
        Number::exact(row.lines_per_write_cleaner)
    }),
    ("fences/write, as printed", true, "", |row| {
        Number::exact(row.fences_per_write)
    }),
    ("fences/write, with the cleaner", true, "", |row| {
        Number::exact(row.fences_per_write_cleaner)
    }),
    ("disk blocks/write, as printed", true, "", |row| {
        Number::exact(row.disk_blocks_per_write)
    }),
    ("disk blocks/write, with the cleaner", true, "", |row| {
        Number::exact(row.disk_blocks_per_write_cleaner)
    }),
    (
        "operations/s, as printed",
        false,
        WRITES_BACK_BESIDE,
        |row| Number {
            middle: row.ops_per_s,
            rounds: row.ops_per_s_runs.clone(),
        },
    ),
    ("operations/s, with the cleaner", false, "", |row| Number {
        middle: row.ops_per_s_cleaner,
        rounds: row.ops_per_s_cleaner_runs.clone(),
    }),
];

fn of_rows(counts: &[CountsRow]) -> Vec<Vec<String>> {
    let workloads = counts_page::workloads(counts);
    let find = |workload: &str, key: &str| counts_page::find(counts, workload, key);
    let rows = COLUMNS
        .iter()
        .filter_map(|(what, is_less_better, why, number)| {
            let places = workloads.iter().filter_map(|workload| {
                let ours = find(workload, EngineName::Forebay.as_str())?;
                if !is_less_better && ours.is_loaded {
                    return None;
                }
                let our_rounds = number(ours).rounds;
                let of = |key: &str| {
                    let number = number(find(workload, key)?);
                    Some(Beside {
                        median: number.middle,
                        ratio: Spread::of_ratios(&our_rounds, &number.rounds),
                    })
                };
                Some(format!("{workload}: {}", lost(*is_less_better, of)?))
            });
            row("Every engine on every workload", what, places, why)
        });
    rows.collect()
}

/// A cache's number, and Forebay's over it round by round; none over nothing.
struct Beside {
    median: f64,
    ratio: Option<Spread>,
}

/// What is lost, in words: to the best of those that are better by more than a little.
fn lost(is_less_better: bool, of: impl Fn(&'static str) -> Option<Beside>) -> Option<String> {
    let key = EngineName::Forebay.as_str();
    let ours = of(key)?.median;
    let others = EngineName::ALL.iter().filter(|other| other.as_str() != key);
    let others = others.flat_map(|other| [Some(other.as_str()), other.with_cleaner()]);
    let others = others.flatten();
    // How many times better the other is.
    let better = |other: &Beside| match (is_less_better, &other.ratio) {
        (true, Some(ratio)) => ratio.median,
        (false, Some(ratio)) => 1.0 / ratio.median,
        // Nothing at all is less than some.
        (true, None) if ours > 0.0 => f64::INFINITY,
        (_, None) => 0.0,
    };
    let others = others.filter_map(|other| Some((other, of(other)?)));
    let others = others.map(|(name, other)| (better(&other), name, other));
    let winners = others.filter(|(better, ..)| *better > LOSING_FACTOR);
    let (_, name, best) = winners.max_by(|(left, ..), (right, ..)| left.total_cmp(right))?;
    let apart = best.ratio.filter(|ratio| ratio.least != ratio.most);
    let apart = apart.map_or(String::new(), |ratio| {
        format!(" ({} to {})", digits(ratio.least), digits(ratio.most))
    });
    Some(format!(
        "{}; {name} {}{apart}",
        digits(ours),
        digits(best.median)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::testing::{figure, loaded};

    fn beside(median: f64, ratios: &[f64]) -> Option<Beside> {
        Some(Beside {
            median,
            ratio: Spread::of(ratios.to_vec()),
        })
    }

    #[test]
    fn the_best_wins_however_far_rounds_lie_apart_and_none_at_all_is_less_than_some() {
        let speed = |key| match key {
            "forebay" => beside(90.0, &[1.0]),
            "tinca" => beside(100.0, &[0.75, 0.9, 1.13]),
            "spindle-cleaner" => beside(98.0, &[0.91, 0.92, 0.93]),
            _ => None,
        };
        assert_eq!(
            lost(false, speed).as_deref(),
            Some("90.0; tinca 100 (0.750 to 1.13)")
        );
        assert_eq!(lost(true, speed), None);
        let blocks = |key| match key {
            "forebay" => beside(0.5, &[1.0]),
            "tinca" => beside(0.0, &[]),
            _ => None,
        };
        assert_eq!(lost(true, blocks).as_deref(), Some("0.500; tinca 0"));
        assert_eq!(lost(false, blocks), None);
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

    /// Others cannot have made another design faster, and a busy place says nothing of the rest of its figure.
    #[test]
    fn a_busy_place_hides_the_loss_of_no_other() {
        let values: [(&'static str, &[f64]); 2] =
            [("tinca", &[250.0, 210.0]), ("forebay", &[80.0, 80.0])];
        let mut figure = figure("tinca-7a", &["3/7", "5/5"], &values);
        let busy = loaded("tinca-7a", &["3/7", "5/5"], &values);
        figure.series[0].runs.clone_from(&busy.series[0].runs);
        figure.series[1].runs[0].clone_from(&busy.series[1].runs[0]);
        let table = table(&[figure], &[]);
        assert_eq!(table.rows[0][2], "5/5: 80.0; tinca 210");
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
