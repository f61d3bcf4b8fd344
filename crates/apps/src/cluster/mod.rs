//! `make cluster`: engines that keep copies on several machines, unchanged, with Forebay under each member; their nodes are
//! namespaces of this machine. How fast they acknowledge, whether anything acknowledged is missing after nodes were
//! killed in mid-load, and what happens when a node's pool is lost.
//!
//! Writes `report.json`, a list of named numbers, and `report.html`, one page. Anything lost makes the run fail.

mod brick;
mod engine;
mod engines;
mod etcd;
mod gluster;
mod hdfs;
mod hdfs_client;
mod hdfs_settings;
mod headline;
mod hosts;
mod kills;
mod kind;
mod load;
mod lost_pool;
mod manifest;
mod messages;
mod nats;
mod nats_connection;
mod node;
mod page;
mod paper;
mod results;
mod rpc;
mod speed;
mod tally;
mod workload;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use forebay_harness::{
    Result, Row, RunOptions, check_interrupt, find_program, mount_obstacle, progress_bar, rows,
};
use indicatif::ProgressBar;

use crate::cluster::brick::Site;
use crate::cluster::engines::{ENGINES, Known};
use crate::cluster::hosts::Hosts;
use crate::cluster::kind::{COST_KINDS, Kind, USUAL_KINDS};
use crate::cluster::results::Results;
use crate::cluster::speed::{Case, Pace};
use crate::cluster::tally::Tally;
use crate::delayed::{Delay, DelayOption, declared};
use crate::options::BenchOptions;

/// Of each node. Nothing is written back for want of room.
const POOL_BYTES: u64 = 128 << 20;

/// Of each node where it is counted what full caches cost.
const FULL_POOL_BYTES: u64 = 8 << 20;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// How fast engines acknowledge
    Speed,
    /// What full caches write to memory and disks, the published designs' beside ours
    Costs,
    /// Nodes killed in mid-load, their pools kept
    Kills,
    /// A node killed and its pool lost
    LostPool,
}

/// What is measured.
#[derive(Args, Debug)]
pub struct Arguments {
    #[command(flatten)]
    bench: BenchOptions,
    #[command(flatten)]
    delay: DelayOption,
    /// Only these parts
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PART")]
    parts: Vec<Part>,
    /// What the members' files lie on, where it is one of these [default: disk, tmpfs, mount, serve; of costs those with data in
    /// a journal, and Tinca without one]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "KIND")]
    kinds: Vec<Kind>,
    /// The program that serves the published designs
    #[arg(
        long,
        value_name = "PATH",
        default_value = "target/release/forebay-lab"
    )]
    laboratory: PathBuf,
    /// Seconds of each measurement [default: 5, with --quick 2]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: Option<u64>,
    /// Kill rounds of each engine on each kind of brick [default: 6, with --quick 2]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    kill_rounds: Option<u64>,
}

/// Measures; true if nothing failed and nothing was lost.
///
/// # Errors
/// It cannot be done here, or a signal came.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let bench = &arguments.bench;
    let engines = chosen(&bench.only)?;
    let is_wanted = |part: Part| arguments.parts.is_empty() || arguments.parts.contains(&part);
    let site = site(arguments, is_wanted(Part::Costs))?;
    let options = &bench.run;
    let mut run = Run {
        site: &site,
        rounds: bench.rounds(options.pick(1, 3)),
        time: Duration::from_secs(arguments.seconds.unwrap_or(options.pick(2, 5))),
        kill_rounds: arguments.kill_rounds.unwrap_or(options.pick(2, 6)),
        kinds: match arguments.kinds.is_empty() {
            true => USUAL_KINDS.to_vec(),
            false => arguments.kinds.clone(),
        },
        cost_kinds: chosen_kinds(&COST_KINDS, &arguments.kinds),
        progress: progress_bar(0),
        results: Results::default(),
        tally: Tally::default(),
        complaints: Vec::new(),
        failures: 0,
    };
    let engines = run.without_missing(engines);
    if is_wanted(Part::Speed) {
        run.speeds(&engines)?;
    }
    if is_wanted(Part::Costs) {
        run.costs(&engines)?;
    }
    for engine in &engines {
        if is_wanted(Part::Kills) {
            run.kills(engine)?;
        }
        if is_wanted(Part::LostPool) {
            run.lost_pools(engine)?;
        }
    }
    run.progress.finish_and_clear();
    run.finish(options)
}

/// All of them, or those that are chosen.
fn chosen_kinds(all: &[Kind], chosen: &[Kind]) -> Vec<Kind> {
    let is_chosen = |kind: &&Kind| chosen.is_empty() || chosen.contains(kind);
    all.iter().filter(is_chosen).copied().collect()
}

fn chosen(only: &[String]) -> Result<Vec<&'static Known>> {
    let find = |name: &String| {
        let found = ENGINES.iter().find(|known| known.name == name);
        let names = || ENGINES.iter().map(|known| known.name).collect::<Vec<_>>();
        found.ok_or_else(|| format!("{name} is not known; one of {}", names().join(", ")).into())
    };
    match only.is_empty() {
        true => Ok(ENGINES.iter().collect()),
        false => only.iter().map(find).collect(),
    }
}

/// Errors: something is missing; the message says what.
fn site(arguments: &Arguments, counts_costs: bool) -> Result<Site> {
    if let Some(obstacle) = mount_obstacle() {
        return Err(obstacle.into());
    }
    for name in ["unshare", "nsenter", "ip", "mkfs.ext4", "losetup"] {
        if find_program(name).is_none() {
            let how = "`scripts/setup.sh cluster` installs it";
            return Err(format!("no {name} here; {how}").into());
        }
    }
    let laboratory = std::path::absolute(&arguments.laboratory)?;
    let has_design = |kind: &Kind| kind.design().is_some();
    let is_needed = counts_costs || arguments.kinds.iter().any(has_design);
    if is_needed && !laboratory.is_file() {
        let path = laboratory.display();
        return Err(format!("{path} is not there; name another by --laboratory").into());
    }
    let bench = &arguments.bench;
    Ok(Site {
        forebay: bench.subject.forebay()?,
        laboratory,
        memory: bench.memory.clone(),
        disk: bench.disk()?.to_owned(),
        disk_delay: arguments.delay.delay(),
        pool_bytes: POOL_BYTES,
    })
}

struct Run<'a> {
    site: &'a Site,
    rounds: usize,
    time: Duration,
    kill_rounds: u64,
    kinds: Vec<Kind>,
    cost_kinds: Vec<Kind>,
    progress: ProgressBar,
    results: Results,
    tally: Tally,
    complaints: Vec<String>,
    failures: usize,
}

impl Run<'_> {
    fn without_missing(&mut self, engines: Vec<&'static Known>) -> Vec<&'static Known> {
        let is_there = |known: &&Known| match known.obstacle() {
            None => true,
            Some(obstacle) => {
                self.say(obstacle);
                false
            }
        };
        engines.into_iter().filter(is_there).collect()
    }

    /// Errors: only Ctrl-C.
    fn speeds(&mut self, engines: &[&'static Known]) -> Result<()> {
        let pace = Pace {
            time: self.time,
            fills_caches: false,
        };
        let cases: Vec<(&Known, &[Case])> = engines
            .iter()
            .map(|engine| (*engine, engine.cases))
            .collect();
        let kinds = self.kinds.clone();
        self.all_rounds(self.site, &cases, (&kinds[..], pace))
    }

    /// The same of small pools that are full.
    ///
    /// Errors: only Ctrl-C.
    fn costs(&mut self, engines: &[&'static Known]) -> Result<()> {
        let site = Site {
            pool_bytes: FULL_POOL_BYTES,
            ..self.site.clone()
        };
        let pace = Pace {
            time: self.time,
            fills_caches: true,
        };
        let with_cases = |engine: &&'static Known| Some((*engine, engine.costs?));
        let engines: Vec<(&Known, &[Case])> = engines.iter().filter_map(with_cases).collect();
        let kinds = self.cost_kinds.clone();
        self.all_rounds(&site, &engines, (&kinds[..], pace))
    }

    /// In each round one engine after the other, on each kind, another of which begins.
    ///
    /// Errors: only Ctrl-C.
    fn all_rounds(
        &mut self,
        site: &Site,
        engines: &[(&Known, &[Case])],
        (kinds, pace): (&[Kind], Pace),
    ) -> Result<()> {
        let turns = engines.len() * kinds.len() * self.rounds;
        self.progress.inc_length(turns as u64);
        for round in 0..self.rounds {
            for (engine, cases) in engines {
                for turn in 0..kinds.len() {
                    let kind = kinds[(round + turn) % kinds.len()];
                    self.turn(site, (engine, kind, round), (cases, pace))?;
                }
            }
        }
        Ok(())
    }

    fn turn(
        &mut self,
        site: &Site,
        (engine, kind, round): (&Known, Kind, usize),
        what: (&[Case], Pace),
    ) -> Result<()> {
        let title = format!("{} on {}", engine.title, kind.title());
        self.begin(&title);
        let turn = speed::turn(site, kind, &mut *(engine.make)(), what);
        check_interrupt()?;
        self.progress.inc(1);
        match turn {
            Ok(turn) => {
                for number in turn.numbers {
                    self.results.add(kind, round, number);
                }
                for complaint in turn.complaints {
                    self.fail(format!("{title}, round {}: {complaint}", round + 1));
                }
            }
            Err(error) => self.fail(format!("{title}, round {}: {error}", round + 1)),
        }
        Ok(())
    }

    /// Errors: only Ctrl-C.
    fn kills(&mut self, engine: &'static Known) -> Result<()> {
        let rounds = self.kill_rounds;
        let kinds = self.chosen_of(engine.killed_on);
        self.progress.inc_length(rounds * kinds.len() as u64);
        for kind in kinds {
            let title = format!("kills of {} on {}", engine.title, kind.title());
            self.begin(&title);
            let done = self.kill_rounds_on(engine, kind);
            check_interrupt()?;
            if let Err(error) = done {
                self.fail(format!("{title}: {error}"));
            }
        }
        Ok(())
    }

    fn kill_rounds_on(&mut self, known: &'static Known, kind: Kind) -> Result<()> {
        let mut engine = (known.make)();
        let mut hosts = Hosts::start(self.site, kind, engine.nodes())?;
        engine.start(&hosts)?;
        for number in 0..self.kill_rounds as usize {
            let round = kills::round(&mut hosts, &mut *engine, number)
                .map_err(|error| format!("round {}: {error}", number + 1))?;
            self.progress.inc(1);
            self.tally.add_round(known.name, kind, &round);
            if let Some(example) = round.checked.example {
                let name = format!("{} on {}", known.title, kind.title());
                let losses = round.checked.losses;
                let number = number + 1;
                self.fail(format!(
                    "{name}, kill round {number}: {losses} losses; {example}"
                ));
            }
        }
        Ok(())
    }

    /// Errors: only Ctrl-C.
    fn lost_pools(&mut self, engine: &'static Known) -> Result<()> {
        let kinds = self.chosen_of(engine.lost_on);
        self.progress.inc_length(kinds.len() as u64);
        for kind in kinds {
            let title = format!("lost pool of {} on {}", engine.title, kind.title());
            self.begin(&title);
            let lost = lost_pool::lost_pool(self.site, kind, engine.make);
            check_interrupt()?;
            self.progress.inc(1);
            match lost {
                Ok(lost) => {
                    let complaints = [lost.complaint.clone(), lost.readmitted.example.clone()];
                    for complaint in complaints.into_iter().flatten() {
                        self.fail(format!("{title}: {complaint}"));
                    }
                    if lost.accepted.as_ref().is_some_and(|one| one.losses == 0) {
                        self.say(format!("{title}: --accept-stale lost nothing this time"));
                    }
                    self.tally.add_lost_pool(engine.name, kind, lost);
                }
                Err(error) => self.fail(format!("{title}: {error}")),
            }
        }
        Ok(())
    }

    fn chosen_of(&self, usual: &[Kind]) -> Vec<Kind> {
        let is_chosen = |kind: &&Kind| self.kinds.contains(kind);
        usual.iter().filter(is_chosen).copied().collect()
    }

    fn begin(&self, title: &str) {
        self.progress.set_message(title.to_owned());
        self.progress.tick();
    }

    fn fail(&mut self, complaint: String) {
        self.failures += 1;
        self.say(complaint);
    }

    fn say(&mut self, complaint: String) {
        self.progress.suspend(|| eprintln!("{complaint}"));
        self.complaints.push(complaint);
    }

    fn finish(&self, options: &RunOptions) -> Result<bool> {
        let mut rows = self.results.rows();
        rows.extend(self.tally.rows());
        let failures = self.failures as f64;
        rows.push(Row::new("cluster_failures", failures, "failures"));
        let rows = declared(self.site.disk_delay, rows);
        let report = options.report("cluster");
        rows::write(&report, &rows)?;
        let html = report.with_extension("html");
        let told = page::Told {
            rounds: self.rounds,
            seconds: self.time.as_secs(),
            is_quick: options.quick,
            disk: self.site.disk_delay.map(Delay::told),
            complaints: &self.complaints,
        };
        page::page(&self.results, &self.tally, &rows, &told).write(&html)?;
        match options.json {
            true => rows::print(&rows, true)?,
            false => print!("{}", crate::judged::summary(headline::BARS, &rows)),
        }
        if let Some(delay) = self.site.disk_delay {
            eprintln!("disk of each node: {delay}; it is not this machine's own");
        }
        eprintln!("written to {} and {}", report.display(), html.display());
        Ok(self.failures == 0)
    }
}
