//! The campaign of mapped regions: its trials are `forebay-dax`'s own, as they look at its inside.

use forebay_dax::{Counted, Report, replay_campaign, run_campaign};
use forebay_harness::{Result, Row, RunOptions, check_interrupt, progress_bar, rows};
use std::time::Instant;

use super::told;
use crate::campaign::{hush_panics, merge};

/// Runs trials from the number `first` on; true if nothing was wrong.
///
/// # Errors
/// The report cannot be written; it was called off.
pub fn run(options: &RunOptions, first: u64, trials: u64, threads: usize) -> Result<bool> {
    hush_panics();
    let bar = progress_bar(trials).with_message("trials");
    let started = Instant::now();
    let report = run_campaign(first, trials, threads, &|| {
        bar.inc(1);
        check_interrupt().is_ok()
    });
    bar.finish_and_clear();
    check_interrupt()?;
    told::violations(" --pools regions", &report.violations);
    let struck: u64 = report.counted.iter().map(|counted| counted.struck).sum();
    println!(
        "{struck} faults in {trials} trials in {:.1} s, {} violations",
        started.elapsed().as_secs_f64(),
        report.violations.len()
    );
    let all = rows_of(&report);
    merge(Some(&options.report("faults")), &all)?;
    if options.json {
        rows::print(&all, true)?;
    } else {
        tell(&report);
    }
    Ok(report.violations.is_empty())
}

/// Runs trials again, in words; true if nothing was wrong.
pub fn replay(numbers: &[u64]) -> bool {
    let mut all_right = true;
    for number in numbers {
        let (story, wrong) = replay_campaign(*number);
        println!("{}", story.join("\n"));
        all_right &= told::verdict(*number, wrong);
    }
    all_right
}

fn tell(report: &Report) {
    println!(
        "{:36} injected  struck   found  repaired overwritten in_window",
        ""
    );
    for counted in &report.counted {
        let Counted {
            name,
            injected,
            struck,
            found,
            repaired,
            overwritten,
            in_window,
            ..
        } = counted;
        println!(
            "{name:36} {injected:8} {struck:7} {found:7} {repaired:9} {overwritten:11} {in_window:9}"
        );
    }
}

fn rows_of(report: &Report) -> Vec<Row> {
    let wrong = report.violations.len() as f64;
    let mut all = vec![Row::new("regions_wrong_bytes".to_owned(), wrong, "trials")];
    for counted in &report.counted {
        let row = |what: &str, value: u64| {
            let name = format!("regions_{}_{what}", counted.name);
            Row::new(name, value as f64, "faults")
        };
        all.extend([
            row("injected", counted.injected),
            row("struck", counted.struck),
            row("found", counted.found),
            row("repaired", counted.repaired),
            row("overwritten", counted.overwritten),
            row("in_window", counted.in_window),
        ]);
    }
    all
}
