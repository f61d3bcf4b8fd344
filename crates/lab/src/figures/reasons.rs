//! Why some of our numbers are not the papers', as far as it can be counted: sentences with this run's own counts in them.

use super::FigureResult;
use crate::experiments::Outcome;
use crate::measure::Measurement;
use forebay_harness::digits;

/// Lines that a block of the journal or of a checkpoint costs Classic: its own, and those of its metadata block.
const CLASSIC_BLOCK_LINES: f64 = 128.0;
/// Lines that a block costs Tinca (Tinca §4.4).
const TINCA_BLOCK_LINES: f64 = 68.0;
/// Milliseconds of the emulated HDD's seek.
const SEEK_MS: f64 = 4.0;

/// What explains the figure's differences; none where nothing was counted that does.
pub(super) fn reason(result: &FigureResult) -> Option<String> {
    match result.figure.name {
        "tinca-7c" => journal_blocks(result),
        "tinca-8b" => checkpoints(result),
        "tinca-12a" => reads_of_an_hdd(result),
        "spindle-5b" => metadata_blocks(result),
        _ => None,
    }
}

/// The first run of a series at a place; the designs of which reasons are told have the same counts in each.
fn counted<'a>(result: &'a FigureResult, key: &str, place: &str) -> Option<&'a Measurement> {
    let runs = result.series(key)?.runs.get(result.place(place)?)?;
    match &runs.as_ref()?.iter().next()?.outcome {
        Outcome::Work(work) => Some(&work.measurement),
        Outcome::Blocks(_) => None,
    }
}

fn journal_blocks(result: &FigureResult) -> Option<String> {
    let classic = counted(result, "classic", "3/7")?;
    let tinca = counted(result, "tinca", "3/7")?;
    let frames = 2.0 * classic.done.commits as f64 / classic.asked.writes as f64;
    let (of_classic, of_tinca) = (
        classic.disk_blocks_per_write(),
        tinca.disk_blocks_per_write(),
    );
    Some(format!(
        "Classic writes to the disk what Tinca does, and its journal once: at 3/7 {} of blocks and {} of the journal make {} for a write. \
         {} of it are the descriptor and the commit block of each transaction, which has {} blocks here, as fio commits every eight \
         operations; JBD2 commits every five seconds, and then they are next to nothing. Without them tinca ÷ classic is {} at 3/7.",
        digits(of_tinca),
        digits(of_classic - of_tinca),
        digits(of_classic),
        digits(frames),
        digits(classic.blocks_per_transaction()),
        digits(of_tinca / (of_classic - frames)),
    ))
}

fn checkpoints(result: &FigureResult) -> Option<String> {
    let [few, many] = ["5", "60"].map(|users| {
        let classic = counted(result, "classic", users)?;
        let lines = classic.lines_per_operation();
        let in_log = classic.done.blocks_committed + 2 * classic.done.commits;
        let log = in_log as f64 * CLASSIC_BLOCK_LINES / classic.operations as f64;
        let tinca = counted(result, "tinca", users)?.lines_per_operation();
        Some([tinca, log, lines - log])
    });
    let (few, many) = (few?, many?);
    let [tinca, log, rest] = [0, 1, 2].map(|which| changed(few[which], many[which]));
    Some(format!(
        "From 5 to 60 users a transaction's lines of Tinca {tinca}, those of Classic's log {log}, and those of its checkpoints and \
         cleaning {rest}. In the paper Tinca ÷ Classic rises from 0.298 to 0.362; which of the two its users change the text does not say."
    ))
}

/// From one number to another, in words; what is less than a twentieth is no change.
fn changed(from: f64, to: f64) -> String {
    let words = match to / from {
        ratio if ratio > 1.05 => "grow",
        ratio if ratio < 0.95 => "shrink",
        _ => "stay",
    };
    format!("{words} ({} and {})", digits(from), digits(to))
}

/// What an operation of a design asks of the disk, and how long it takes.
struct OnDisk {
    reads: f64,
    requests: f64,
    blocks: f64,
    ms: f64,
}

impl OnDisk {
    fn of(result: &FigureResult, key: &str, place: &str) -> Option<OnDisk> {
        let measured = counted(result, key, place)?;
        let ops_per_s = result.value(result.series(key)?, result.place(place)?)?;
        let backing = &measured.done.backing;
        let each = |count: u64| count as f64 / measured.operations as f64;
        Some(OnDisk {
            reads: each(backing.reads),
            requests: each(backing.writes),
            blocks: each(backing.blocks_written),
            ms: 1e3 / ops_per_s,
        })
    }
}

fn reads_of_an_hdd(result: &FigureResult) -> Option<String> {
    let tinca = OnDisk::of(result, "tinca", "HDD")?;
    let classic = OnDisk::of(result, "classic", "HDD")?;
    let more = match tinca.reads / classic.reads {
        ratio if ratio > 1.05 => "more than",
        ratio if ratio < 0.95 => "fewer than",
        _ => "as many as",
    };
    let seeks = |one: &OnDisk| digits(one.reads * SEEK_MS);
    Some(format!(
        "On the HDD a transaction of Tinca waits for {} reads, {more} Classic's {}: up to {} and {} ms of seeks, of the {} and {} ms that it \
         takes. Tinca's writes to the disk are {} blocks in {} requests, Classic's {} in {}; an HDD takes what is adjacent for the price \
         of one seek. Which reads the paper's machine made its text does not say.",
        digits(tinca.reads),
        digits(classic.reads),
        seeks(&tinca),
        seeks(&classic),
        digits(tinca.ms),
        digits(classic.ms),
        digits(tinca.blocks),
        digits(tinca.requests),
        digits(classic.blocks),
        digits(classic.requests),
    ))
}

fn metadata_blocks(result: &FigureResult) -> Option<String> {
    let mixes = ["0/10", "3/7", "5/5", "7/3"].map(|mix| {
        let tinca = counted(result, "tinca", mix)?;
        let spindle = counted(result, "spindle", mix)?;
        let beside = tinca.lines_per_write() / TINCA_BLOCK_LINES - 1.0;
        let ratio = spindle.lines_per_write() / tinca.lines_per_write();
        Some(format!("{mix}: {} and {}", digits(beside), digits(ratio)))
    });
    let mixes: Option<Vec<String>> = mixes.into_iter().collect();
    Some(format!(
        "How much Spindle saves follows from the blocks of inodes that are committed beside each block of data, for each of which Tinca \
         flushes {TINCA_BLOCK_LINES} lines and Spindle some 14. By mix, those blocks for a write and the ratio: {}. The paper's 0.674 lies \
         where ours has three such blocks for four writes. Its text says neither how many files its fio has nor how often it commits; and it \
         counts lines for a write, so that 10/0, where we have nothing but inodes, may not be among its five.",
        mixes?.join("; ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::Runs;
    use crate::figures::testing::figure;

    #[test]
    fn reasons_are_told_where_their_designs_were_measured() {
        let values: [(&'static str, &[f64]); 3] = [
            ("classic", &[100.0; 4]),
            ("tinca", &[200.0; 4]),
            ("spindle", &[300.0; 4]),
        ];
        for (name, places) in [
            ("tinca-7c", &["3/7", "5/5", "7/3"][..]),
            ("tinca-8b", &["5", "60"]),
            ("tinca-12a", &["SSD", "HDD"]),
            ("spindle-5b", &["0/10", "3/7", "5/5", "7/3"]),
        ] {
            let of = |series| reason(&figure(name, places, series));
            assert!(of(&values).is_some(), "{name}");
            assert!(of(&values[..1]).is_none(), "{name}");
        }
        assert!(reason(&figure("tinca-7a", &["3/7"], &values)).is_none());
    }

    /// Gives the runs of each series so many disk reads an operation.
    fn with_reads(result: &mut FigureResult, reads: [u64; 2]) {
        for (series, reads) in result.series.iter_mut().zip(reads) {
            for runs in series.runs.iter_mut().flatten() {
                let altered = runs.iter().cloned().map(|mut run| {
                    if let Outcome::Work(work) = &mut run.outcome {
                        work.measurement.done.backing.reads = reads * work.measurement.operations;
                    }
                    Some(run)
                });
                *runs = Runs::new(altered.collect());
            }
        }
    }

    #[test]
    fn a_reason_says_what_was_counted_whichever_way_it_went() {
        let values: [(&'static str, &[f64]); 2] = [("classic", &[100.0]), ("tinca", &[200.0])];
        let said = |reads| {
            let mut result = figure("tinca-12a", &["HDD"], &values);
            with_reads(&mut result, reads);
            reason(&result).expect("counted")
        };
        let more = said([1, 2]);
        let wanted = "Tinca waits for 2.00 reads, more than Classic's 1.00: up to 8.00 and 4.00 ms of seeks, of the 5.00 and 10.0 ms";
        assert!(more.contains(wanted), "{more}");
        assert!(said([2, 1]).contains("1.00 reads, fewer than Classic's 2.00"));
        assert!(said([3, 3]).contains("3.00 reads, as many as Classic's 3.00"));
    }

    #[test]
    fn a_twentieth_is_no_change() {
        assert_eq!(changed(507.0, 509.0), "stay (507 and 509)");
        assert_eq!(changed(280.0, 758.0), "grow (280 and 758)");
        assert_eq!(changed(758.0, 280.0), "shrink (758 and 280)");
    }
}
