//! Runs the grid: every point of every figure, the contenders in turn, round after round, and writes
//! what came out as JSON, CSV and a page.

use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_harness::{Row, median, progress_bar, rows};
use forebay_lab::elsewhere::{Rows, grid_claims};
use indicatif::ProgressBar;

use super::fio::{self, Outcome, Pace};
use super::grid_page::{self, Measured, shown};
use super::points::{FITTING_BYTES, Figure, Point};
use super::stage::{Contender, DISK, Latency, NONE, Stage};
use super::{has_tool, in_turn};
use crate::{Daemon, Result, Scratch};

/// What to run.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// Few points, once, briefly: three minutes instead of half an hour
    #[arg(long)]
    quick: bool,
    /// Only this figure; may be repeated
    #[arg(long = "figure", value_enum, value_name = "NAME")]
    figures: Vec<Figure>,
    /// Only this contender; may be repeated
    #[arg(long = "contender", value_enum, value_name = "NAME")]
    contenders: Vec<Contender>,
    /// Where the three files go
    #[arg(long, value_name = "FOLDER", default_value = "target/rig")]
    pub out: PathBuf,
}

/// How long and how often.
struct Plan {
    pace: Pace,
    rounds: u64,
}

impl Plan {
    fn new(is_quick: bool) -> Plan {
        let (ramp_ms, time_ms, rounds) = if is_quick {
            (50, 400, 1)
        } else {
            (100, 1000, 3)
        };
        Plan {
            pace: Pace {
                ramp: Duration::from_millis(ramp_ms),
                time: Duration::from_millis(time_ms),
            },
            rounds,
        }
    }
}

/// Runs the grid and writes `grid.json`, `grid.csv` and `grid.html`; returns the rows.
pub fn run(daemon: &Daemon, options: &Options) -> Result<Vec<Row>> {
    let scratch = Scratch::new()?;
    let chosen = |figure: &Figure| options.figures.is_empty() || options.figures.contains(figure);
    let figures: Vec<Figure> = Figure::ALL.into_iter().filter(chosen).collect();
    let wanted = |contender: &Contender| {
        options.contenders.is_empty() || options.contenders.contains(contender)
    };
    let has_what_it_needs = |contender: &Contender| match contender {
        Contender::Bcache => has_tool("make-bcache", "bcache"),
        _ => true,
    };
    if !has_tool("dmsetup", "rig-grid") {
        return Ok(Vec::new());
    }
    let contenders = Contender::ALL.into_iter().filter(wanted);
    let contenders: Vec<Contender> = contenders.filter(has_what_it_needs).collect();
    let (overflowing, fitting): (Vec<Figure>, Vec<Figure>) = figures
        .into_iter()
        .partition(|figure| *figure == Figure::BySet);
    let latencies: &[Latency] = if options.quick {
        &[DISK]
    } else {
        &[DISK, NONE]
    };
    let mut run = Run::new(daemon, &scratch, &contenders, options.quick);
    let mut scenes = vec![(fitting, DISK)];
    scenes.extend(
        latencies
            .iter()
            .map(|latency| (overflowing.clone(), *latency)),
    );
    scenes.retain(|(figures, _)| !figures.is_empty());
    run.count(&scenes);
    for (figures, latency) in &scenes {
        run.scene(figures, *latency)?;
    }
    run.progress.finish_and_clear();
    write(&options.out, &run.results, options.quick)
}

struct Run<'a> {
    daemon: &'a Daemon,
    scratch: &'a Scratch,
    contenders: &'a [Contender],
    is_quick: bool,
    plan: Plan,
    progress: ProgressBar,
    results: Vec<Measured>,
}

impl<'a> Run<'a> {
    fn new(
        daemon: &'a Daemon,
        scratch: &'a Scratch,
        contenders: &'a [Contender],
        is_quick: bool,
    ) -> Run<'a> {
        Run {
            daemon,
            scratch,
            contenders,
            is_quick,
            plan: Plan::new(is_quick),
            progress: progress_bar(0),
            results: Vec::new(),
        }
    }

    /// Tells the progress bar how much there is to do.
    fn count(&self, scenes: &[(Vec<Figure>, Latency)]) {
        let runs = |figure: &Figure| {
            let takers = self.contenders.iter().filter(|one| figure.has(**one));
            figure.points(self.is_quick).len() as u64 * takers.count() as u64 * self.plan.rounds
        };
        let figures = scenes.iter().flat_map(|(figures, _)| figures);
        self.progress.set_length(figures.map(runs).sum());
    }

    /// A guest of its own for some figures.
    fn scene(&mut self, figures: &[Figure], latency: Latency) -> Result<()> {
        self.progress.set_message("a guest boots");
        let mut stage = Stage::set(self.scratch, self.daemon, self.contenders, latency)?;
        if figures != [Figure::BySet] {
            self.progress.set_message("caches are filled");
            for contender in self.contenders {
                // Written, because dm-writecache keeps nothing else; whole cache blocks, for dm-cache.
                let device = contender.device();
                fio::pass(&mut stage.guest, device, FITTING_BYTES, true)?;
                fio::pass(&mut stage.guest, device, FITTING_BYTES, false)?;
            }
        }
        for figure in figures {
            for point in figure.points(self.is_quick) {
                self.point(&mut stage, &point, latency)?;
            }
        }
        stage.strike()
    }

    fn point(&mut self, stage: &mut Stage, point: &Point, latency: Latency) -> Result<()> {
        let (figure, key) = (point.figure, &point.key);
        let takers = self.contenders.iter().copied();
        let takers: Vec<Contender> = takers.filter(|one| figure.has(*one)).collect();
        if figure == Figure::BySet {
            for contender in takers.iter().filter(|contender| contender.is_cache()) {
                let message = format!("{} {key} filled: {}", figure.key(), contender.name());
                self.progress.set_message(message);
                stage.warm(*contender, point.job.span_bytes, latency)?;
            }
        }
        let outcomes = in_turn(takers.len(), self.plan.rounds, |number, round| {
            let contender = takers[number];
            let message = format!("{} {key} {}", figure.key(), contender.name());
            self.progress.set_message(message);
            self.progress.inc(1);
            let (guest, device) = (&mut stage.guest, contender.device());
            point.job.run(guest, device, self.plan.pace, round)
        })?;
        for (contender, rounds) in takers.into_iter().zip(outcomes) {
            let of = |value: fn(&Outcome) -> f64| median(rounds.iter().map(value).collect());
            let medians = (
                of(|outcome| outcome.iops),
                of(|outcome| outcome.bytes_per_s),
                of(|outcome| outcome.latency_us),
            );
            let (Some(iops), Some(bytes_per_s), Some(latency_us)) = medians else {
                continue;
            };
            let range = rounds
                .iter()
                .fold((f64::INFINITY, 0.0_f64), |(least, most), outcome| {
                    (least.min(outcome.iops), most.max(outcome.iops))
                });
            self.results.push(Measured {
                point: point.clone(),
                latency,
                contender,
                outcome: Outcome {
                    iops,
                    bytes_per_s,
                    latency_us,
                },
                iops_range: range,
            });
        }
        Ok(())
    }
}

fn write(folder: &Path, results: &[Measured], is_quick: bool) -> Result<Vec<Row>> {
    let list = rows_of(results);
    let json = folder.join("grid.json");
    rows::write(&json, &list)?;
    let csv = csv(results);
    forebay_harness::write_file(&folder.join("grid.csv"), csv.as_bytes())?;
    let json = std::fs::read_to_string(&json)?;
    let said = grid_claims(&Rows::new(&list));
    grid_page::page(results, &said, is_quick, [json, csv]).write(&folder.join("grid.html"))?;
    Ok(list)
}

/// A row a point and contender: what its figure shows.
fn rows_of(results: &[Measured]) -> Vec<Row> {
    let row = |result: &Measured| {
        let Point { figure, key, .. } = &result.point;
        let slow = match result.latency == NONE {
            true => "_slow0ms",
            false => "",
        };
        let name = format!("{}_{key}{slow}_{}", figure.key(), result.contender.key());
        let (value, unit) = shown(result);
        Row::new(name, value, unit)
    };
    results.iter().map(row).collect()
}

/// Everything, a line a point and contender.
fn csv(results: &[Measured]) -> String {
    let mut text = String::from(
        "figure,contender,slow_latency_us,access,engine,depth,threads,block_bytes,working_set_bytes,\
         write_percent,fsync,iops,iops_least,iops_most,bytes_per_s,latency_us\r\n",
    );
    for result in results {
        let job = &result.point.job;
        let (engine, depth) = match job.engine {
            fio::Engine::Synchronous => ("psync", 1),
            fio::Engine::Asynchronous(depth) => ("libaio", depth),
        };
        let access = match job.access {
            fio::Access::Random | fio::Access::RandomApart => "random",
            fio::Access::Sequential => "sequential",
        };
        let outcome = &result.outcome;
        text += &format!(
            "{},{},{},{access},{engine},{depth},{},{},{},{},{},{},{},{},{},{}\r\n",
            result.point.figure.key(),
            result.contender.key(),
            result.latency.shown_us,
            job.jobs,
            job.block_bytes,
            job.span_bytes,
            job.write_percent,
            u8::from(job.is_synced),
            outcome.iops,
            result.iops_range.0,
            result.iops_range.1,
            outcome.bytes_per_s,
            outcome.latency_us,
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The laboratory finds the rows by the names that they have here.
    #[test]
    fn what_the_text_says_is_judged_by_the_rows() {
        let measured = |figure: Figure, contender, value: f64| {
            let points = figure.points(false).into_iter();
            points.map(move |point| Measured {
                point,
                latency: DISK,
                contender,
                outcome: Outcome {
                    iops: value,
                    bytes_per_s: value,
                    latency_us: value,
                },
                iops_range: (value, value),
            })
        };
        let mut results: Vec<Measured> = Vec::new();
        for figure in Figure::ALL {
            for (contender, value) in [
                (Contender::Bcache, 70.0),
                (Contender::DmCache, 80.0),
                (Contender::RawFast, 100.0),
            ] {
                results.extend(measured(figure, contender, value));
            }
        }
        let claims = grid_claims(&Rows::new(&rows_of(&results)));
        assert!(claims.iter().all(|claim| claim.ours != "–"), "{claims:?}");
    }
}
