//! Runs every point of every figure, the contenders in turn, and writes what came out as JSON, CSV and a page.

use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_harness::{Row, progress_bar, rows};
use forebay_lab::elsewhere::{Rows, layer_claims};

use super::contender::Contender;
use super::measured::Measured;
use super::page::{COUNTS, TIMES, page};
use super::points::Figure;
use super::probe::{self, Layers};
use super::stage::Stage;
use crate::measure::fio::Pace;
use crate::measure::{has_tool, in_turn};
use crate::{Daemon, Result, Scratch};

/// What to run.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// Once, briefly: a minute or two instead of five
    #[arg(long)]
    quick: bool,
    /// Only this figure of the study; may be repeated
    #[arg(long = "figure", value_enum, value_name = "NAME")]
    figures: Vec<Figure>,
    /// Where the three files go
    #[arg(long, value_name = "FOLDER", default_value = "target/rig")]
    pub out: PathBuf,
}

/// Runs them and writes `layers.json`, `layers.csv` and `layers.html`; returns the rows.
pub fn run(daemon: &Daemon, options: &Options) -> Result<Vec<Row>> {
    let is_chosen =
        |figure: &Figure| options.figures.is_empty() || options.figures.contains(figure);
    let figures: Vec<Figure> = Figure::ALL.into_iter().filter(is_chosen).collect();
    if !has_tool("dmsetup", "layers") {
        return Ok(Vec::new());
    }
    let is_wanted = |contender: &Contender| {
        let mut figures = figures.iter();
        figures.any(|figure| figure.contenders().contains(contender))
    };
    let can_be_had = |contender: &Contender| {
        let mut tools = contender.tools().iter();
        tools.all(|(tool, what)| has_tool(tool, what))
    };
    let contenders = Contender::ALL.into_iter().filter(is_wanted);
    let contenders: Vec<Contender> = contenders.filter(can_be_had).collect();
    let (time_ms, rounds) = if options.quick { (400, 1) } else { (1000, 3) };
    let pace = Pace {
        // A round before those that count warms up.
        ramp: Duration::ZERO,
        time: Duration::from_millis(time_ms),
    };
    let progress = progress_bar(0);
    progress.set_message("a guest boots");
    let scratch = Scratch::new()?;
    let mut stage = Stage::set(&scratch, daemon, &contenders)?;
    let mut results = Vec::new();
    for point in figures.iter().flat_map(|figure| figure.points()) {
        let takers = point.figure.contenders().iter().copied();
        let takers: Vec<Contender> = takers.filter(|one| contenders.contains(one)).collect();
        let outcomes = in_turn(takers.len(), rounds + 1, |number, round| {
            let contender = takers[number];
            progress.set_message(format!(
                "{} {} {}",
                point.figure.key(),
                point.key,
                contender.name()
            ));
            progress.tick();
            probe::run(&mut stage, &point, contender, pace, round)
        })?;
        for (contender, runs) in takers.into_iter().zip(outcomes) {
            let runs = &runs[1..];
            let iops = runs.iter().map(|run| run.iops);
            let least = iops.clone().fold(f64::INFINITY, f64::min);
            results.extend(Layers::median(runs).map(|layers| Measured {
                point: point.clone(),
                contender,
                layers,
                iops_range: (least, iops.fold(0.0, f64::max)),
            }));
        }
    }
    stage.strike()?;
    progress.finish_and_clear();
    write(&options.out, &results, options.quick)
}

fn write(folder: &Path, results: &[Measured], is_quick: bool) -> Result<Vec<Row>> {
    let list: Vec<Row> = results.iter().flat_map(rows_of).collect();
    let json = folder.join("layers.json");
    rows::write(&json, &list)?;
    let csv = csv(results);
    forebay_harness::write_file(&folder.join("layers.csv"), csv.as_bytes())?;
    let json = std::fs::read_to_string(&json)?;
    let said = layer_claims(&Rows::new(&list));
    page(results, &said, is_quick, [json, csv]).write(&folder.join("layers.html"))?;
    Ok(list)
}

/// What is told of a point and contender: throughput, shares of the time, requests.
fn rows_of(result: &Measured) -> Vec<Row> {
    let point = &result.point;
    let start = format!(
        "{}_{}_{}",
        point.figure.key(),
        point.key,
        result.contender.key()
    );
    let row = |name: &str, value: f64, unit: &str| {
        let name = name.replace(", ", "_").replace(' ', "_");
        Row::new(format!("{start}_{name}"), value, unit)
    };
    let layers = &result.layers;
    let mut list = vec![row("iops", layers.iops, "IOPS")];
    list.extend(TIMES.map(|(name, number)| row(&format!("{name} us"), number(layers), "µs")));
    list.extend(COUNTS.map(|(name, number)| row(name, number(layers), "ratio")));
    list
}

/// Everything, a line a point and contender.
fn csv(results: &[Measured]) -> String {
    let mut text = String::from("figure,point,contender,iops,iops_least,iops_most");
    for (name, _) in TIMES {
        text += &format!(",{name} µs");
    }
    for (name, _) in COUNTS {
        text += &format!(",\"{name}\"");
    }
    text += "\r\n";
    for result in results {
        let (point, layers) = (&result.point, &result.layers);
        let (least, most) = result.iops_range;
        text += &format!(
            "{},{},{},{},{least},{most}",
            point.figure.key(),
            point.key,
            result.contender.key(),
            layers.iops,
        );
        for (_, number) in TIMES.iter().chain(&COUNTS) {
            text += &format!(",{}", number(layers));
        }
        text += "\r\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The laboratory finds the rows by the names that they have here.
    #[test]
    fn what_the_text_says_is_judged_by_the_rows() {
        let layers = Layers {
            iops: 100.0,
            user_us: 1.0,
            above_us: 20.0,
            cache_us: 10.0,
            device_us: 9.0,
            ..Layers::default()
        };
        let points = Figure::ALL.iter().flat_map(|figure| figure.points());
        let measured = points.flat_map(|point| {
            let contenders = point.figure.contenders().iter();
            contenders.map(move |contender| Measured {
                point: point.clone(),
                contender: *contender,
                layers,
                iops_range: (0.0, 0.0),
            })
        });
        let rows: Vec<Row> = measured.flat_map(|one| rows_of(&one)).collect();
        let claims = layer_claims(&Rows::new(&rows));
        assert!(claims.iter().all(|claim| claim.ours != "–"), "{claims:?}");
    }
}
