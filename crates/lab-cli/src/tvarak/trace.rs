//! `forebay-lab tvarak trace`: a real program's trace on the designs.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::atomic::Ordering;

use forebay_command::{Failure, output, progress};
use forebay_tvarak::counts::LookUps;
use forebay_tvarak::figures::measured::Measured;
use forebay_tvarak::measure::Outcome;
use forebay_tvarak::trace::line::{Line, parse};
use forebay_tvarak::trace::replay::{Replay, ReplayError};
use forebay_tvarak::{Design, Parameters};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use crate::measuring;
use crate::tvarak::arguments::TvarakTrace;
use crate::tvarak::run::QUICK_DIVISOR;

/// Bytes of a line that are looked at: one that is longer is none of lackey's.
const LINE_BYTES_MOST: u64 = 256;
/// Lines between two looks at the clock and at Ctrl-C.
const TOLD_LINES: u64 = 1 << 16;
/// Bytes that are read at once.
const BUFFER_BYTES: usize = 1 << 18;

/// Lines of the trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Lines {
    accesses: u64,
    valgrinds: u64,
    unparsable: u64,
}

/// Runs a trace.
pub fn run(options: &TvarakTrace) -> Result<(), Failure> {
    let is_called_off = progress::called_off_flag()?;
    let divisor = if options.quick { QUICK_DIVISOR } else { 1 };
    let parameters = Parameters::paper()
        .scaled_down(divisor)
        .map_err(|error| Failure::Arguments(error.to_string()))?;
    let is_asked =
        |design: &Design| *design == Design::Baseline || options.designs.contains(design);
    let designs: Vec<Design> = Design::ALL.into_iter().filter(is_asked).collect();
    let mut replay = Replay::new(&parameters, &designs, &options.nvm)
        .map_err(|error| Failure::Arguments(error.to_string()))?;
    let (input, bytes) = open(&options.trace)?;
    let bar = bar(bytes);
    let lines = read(input, &mut replay, &mut |read_bytes, lines| {
        bar.set_position(read_bytes);
        bar.set_message(format!("{lines} lines"));
        !is_called_off.load(Ordering::SeqCst)
    })?;
    bar.finish_and_clear();
    let report = report(&lines, &replay);
    match options.json {
        true => output::json(&report),
        false => output::text_of_ours(&text(&report)),
    }
    match lines.accesses {
        0 => Err(Failure::Failed(
            "there is no access in the trace; make it with valgrind --tool=lackey --trace-mem=yes"
                .into(),
        )),
        _ => Ok(()),
    }
}

/// The trace, and its bytes if that is known.
fn open(path: &Path) -> Result<(Box<dyn Read>, Option<u64>), Failure> {
    if path == Path::new("-") {
        return Ok((Box::new(io::stdin()), None));
    }
    let named = |error: io::Error| Failure::Arguments(format!("{}: {error}", path.display()));
    let file = File::open(path).map_err(named)?;
    let metadata = file.metadata().map_err(named)?;
    let bytes = metadata.is_file().then_some(metadata.len());
    Ok((Box::new(file), bytes))
}

fn bar(bytes: Option<u64>) -> ProgressBar {
    match bytes {
        Some(bytes) => measuring::styled_bar(
            bytes,
            "[{bar:30}] {percent} %, {elapsed}, about {eta} left, {wide_msg}",
        ),
        None => ProgressBar::new_spinner().with_style(
            ProgressStyle::with_template("{spinner} {bytes} {elapsed} {wide_msg}")
                .unwrap_or_else(|_| ProgressStyle::default_spinner()),
        ),
    }
}

/// Reads all lines, a part of each at most, and runs them. `told` hears of bytes and lines so far.
fn read(
    input: impl Read,
    replay: &mut Replay,
    told: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Lines, Failure> {
    let mut input = BufReader::with_capacity(BUFFER_BYTES, input);
    let (mut lines, mut line) = (Lines::default(), Vec::new());
    let (mut read_bytes, mut count) = (0, 0);
    let failed = |error: io::Error| Failure::Failed(format!("the trace cannot be read: {error}"));
    loop {
        line.clear();
        let mut part = (&mut input).take(LINE_BYTES_MOST);
        let bytes = part.read_until(b'\n', &mut line).map_err(failed)?;
        if bytes == 0 {
            return Ok(lines);
        }
        read_bytes += bytes as u64;
        count += 1;
        match line.pop_if(|last| *last == b'\n') {
            Some(_) => take(&line, &mut lines, replay)?,
            // Its rest is read away; or the trace ends with half a line.
            None => {
                lines.unparsable += 1;
                read_bytes += input.skip_until(b'\n').map_err(failed)? as u64;
            }
        }
        if count % TOLD_LINES == 0 && !told(read_bytes, count) {
            return Err(measuring::called_off());
        }
    }
}

fn take(line: &[u8], lines: &mut Lines, replay: &mut Replay) -> Result<(), Failure> {
    match parse(line) {
        Line::Valgrinds => lines.valgrinds += 1,
        Line::Unparsable => lines.unparsable += 1,
        Line::Access(access) => {
            lines.accesses += 1;
            let ran = replay.access(&access);
            ran.map_err(|error: ReplayError| Failure::Failed(error.to_string()))?;
        }
    }
    Ok(())
}

fn report(lines: &Lines, replay: &Replay) -> Value {
    let (parameters, outcomes) = replay.outcomes();
    let baseline = outcomes.first().map(|(_, outcome)| *outcome);
    let rows = outcomes.iter().map(|(design, outcome)| {
        let baseline = baseline.as_ref().unwrap_or(outcome);
        row(parameters, *design, outcome, baseline)
    });
    json!({
        "lines": {
            "accesses": lines.accesses,
            "valgrinds": lines.valgrinds,
            "unparsable": lines.unparsable,
        },
        "program": replay.traffic(),
        "designs": rows.collect::<Vec<Value>>(),
    })
}

fn row(parameters: &Parameters, design: Design, outcome: &Outcome, baseline: &Outcome) -> Value {
    let [own, of_baseline] = [outcome, baseline].map(|one| Measured::new(parameters, one));
    let (counts, nvm) = (&outcome.counts, &outcome.nvm);
    let over = |own: u64, baseline: u64| own as f64 / baseline.max(1) as f64;
    let mut row = json!({
        "design": design.as_str(),
        "runtime_ns": own.runtime_ns,
        "runtime_over_baseline": over(own.runtime_ns, of_baseline.runtime_ns),
        "energy_pj": own.energy_pj,
        "energy_over_baseline": over(own.energy_pj, of_baseline.energy_pj),
        "nvm_reads": nvm.all_reads(),
        "nvm_writes": nvm.all_writes(),
        "nvm_redundancy_accesses": own.nvm_redundancy_accesses,
        "dram_reads": counts.dram_reads,
        "dram_writes": counts.dram_writes,
    });
    let caches: [(&str, LookUps); 6] = [
        ("l1d", counts.l1d),
        ("l1i", counts.l1i),
        ("l2", counts.l2),
        ("llc", counts.llc),
        ("llc_redundancy", counts.llc_redundancy),
        ("controller", counts.controller),
    ];
    for (name, look_ups) in caches {
        row[format!("{name}_look_ups")] = look_ups.all().into();
        row[format!("{name}_hits")] = look_ups.hits.into();
    }
    row
}

fn text(report: &Value) -> String {
    let (lines, program) = (&report["lines"], &report["program"]);
    let mut text = format!(
        "{} lines of accesses, {} of valgrind's, {} that are neither\n\
         {} instructions, {} loads ({} of NVM), {} stores ({} of NVM); {} lines of NVM and {} pages of DRAM\n\n\
         {:<15} {:>12} {:>8} {:>8} {:>12} {:>12} {:>8} {:>12} {:>8} {:>12} {:>12}",
        lines["accesses"],
        lines["valgrinds"],
        lines["unparsable"],
        program["instructions"],
        program["loads"],
        program["nvm_loads"],
        program["stores"],
        program["nvm_stores"],
        program["nvm_lines"],
        program["dram_pages"],
        "design",
        "runtime_us",
        "x base",
        "energy x",
        "nvm_reads",
        "nvm_writes",
        "l1d hit",
        "l1d",
        "l1i hit",
        "llc",
        "controller",
    );
    let number = |row: &Value, name: &str| row[name].as_u64().unwrap_or(0);
    let share = |row: &Value, name: &str| {
        let all = number(row, &format!("{name}_look_ups")).max(1);
        number(row, &format!("{name}_hits")) as f64 / all as f64
    };
    for row in report["designs"].as_array().into_iter().flatten() {
        text += &format!(
            "\n{:<15} {:>12} {:>8.3} {:>8.3} {:>12} {:>12} {:>8.4} {:>12} {:>8.4} {:>12} {:>12}",
            row["design"].as_str().unwrap_or_default(),
            number(row, "runtime_ns") / 1000,
            row["runtime_over_baseline"].as_f64().unwrap_or_default(),
            row["energy_over_baseline"].as_f64().unwrap_or_default(),
            number(row, "nvm_reads"),
            number(row, "nvm_writes"),
            share(row, "l1d"),
            number(row, "l1d_look_ups"),
            share(row, "l1i"),
            number(row, "llc_look_ups") + number(row, "llc_redundancy_look_ups"),
            number(row, "controller_look_ups"),
        );
    }
    text
}
