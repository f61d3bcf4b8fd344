//! `make bench-tpcc`: TPC-C on MariaDB on ext4, on disks that Forebay and the published designs serve, in turn in
//! one run. Tinca's Figures 8 and 12c with a real server; and with slow memory and slow disks its Figures 12a and 12b.
//!
//! Writes `report.json`, a list of named numbers, and `report.html`, one page. A database in which anything is wrong
//! afterwards makes the run fail.

mod consistency;
mod contender;
pub mod counters;
mod drive;
mod figure;
mod load;
mod media_page;
mod media_paper;
mod medium;
mod mix;
mod pace;
mod page;
pub mod paper;
mod random;
mod results;
mod scale;
mod schema;
mod server;
mod stack;
mod terminal;
#[cfg(test)]
mod tests;
mod transactions;
mod turn;

use std::path::{Path, PathBuf};

use clap::Args;
use forebay_harness::{
    Result, RunOptions, TempDir, check_interrupt, mount_obstacle, progress_bar, rows,
    temporary_folder,
};
use indicatif::ProgressBar;

use crate::context::program;
use crate::options::BenchOptions;
use crate::tpcc::contender::{CONTENDERS, Contender};
use crate::tpcc::figure::Figure;
use crate::tpcc::load::load;
use crate::tpcc::pace::{DISK_BYTES, JOURNAL_MIB, Pace};
use crate::tpcc::results::Results;
use crate::tpcc::server::Server;
use crate::tpcc::stack::{Site, Stack};
use crate::tpcc::turn::Subject;

/// The same database, whatever is measured on it.
const DATABASE_SEED: u64 = 1;
/// The server that fills it keeps it in memory.
const LOADING_POOL_BYTES: u64 = 256 << 20;

/// What is measured.
#[derive(Args, Debug)]
pub struct Arguments {
    #[command(flatten)]
    bench: BenchOptions,
    /// Which of the paper's figures
    #[arg(long, value_enum, default_value_t)]
    figure: Figure,
    /// The program that serves the published designs
    #[arg(
        long,
        value_name = "PATH",
        default_value = "target/release/forebay-lab"
    )]
    laboratory: PathBuf,
    /// Numbers of users, up to 100 [default: 5 to 60, of Figure 12 20]
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=100))]
    users: Vec<u32>,
    /// Transactions that are measured with each number of users [default: 10000, with --quick 1000, of Figure 12 600]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    transactions: Option<u64>,
}

/// Measures; true if nothing failed and no database was wrong.
///
/// # Errors
/// It cannot be done here, or a signal came.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let figure = arguments.figure;
    if figure == Figure::Media && !arguments.users.is_empty() {
        return Err("the paper's Figure 12 has 20 users; leave --users out".into());
    }
    let contenders = chosen(figure, &arguments.bench.only)?;
    let pace = paced(arguments);
    let site = site(arguments, &pace)?;
    let turns = contenders.len() * figure.media().len() * pace.rounds;
    let progress = progress_bar(turns as u64);
    let workshop = temporary_folder(arguments.bench.disk()?)?;
    progress.set_message("making the database");
    progress.tick();
    let image = make(&site, &pace, &workshop)?;
    let mut run = Run {
        figure,
        site: &site,
        pace: &pace,
        image: &image,
        progress,
        results: Results::default(),
        complaints: Vec::new(),
    };
    run.all(&contenders)?;
    run.progress.finish_and_clear();
    run.finish(&arguments.bench.run)
}

fn chosen(figure: Figure, only: &[String]) -> Result<Vec<Contender>> {
    let known = CONTENDERS.into_iter();
    let known: Vec<Contender> = known.filter(|known| figure.admits(*known)).collect();
    let find = |name: &String| {
        let found = known.iter().find(|known| known.name() == name).copied();
        let names = || known.iter().map(|known| known.name()).collect::<Vec<_>>();
        let all = || names().join(", ");
        found.ok_or_else(|| format!("{name} is not known of this figure; one of {}", all()).into())
    };
    match only.is_empty() {
        true => Ok(figure.usual().to_vec()),
        false => only.iter().map(find).collect(),
    }
}

fn paced(arguments: &Arguments) -> Pace {
    let bench = &arguments.bench;
    let mut pace = Pace::new(arguments.figure, bench.run.quick);
    pace.rounds = bench.rounds(pace.rounds);
    if !arguments.users.is_empty() {
        pace.users.clone_from(&arguments.users);
    }
    if let Some(transactions) = arguments.transactions {
        pace.goal.transactions = transactions;
    }
    pace
}

/// Errors: something is missing; the message says what.
fn site(arguments: &Arguments, pace: &Pace) -> Result<Site> {
    if let Some(obstacle) = mount_obstacle() {
        return Err(obstacle.into());
    }
    for name in [
        "mariadbd",
        "mariadb-install-db",
        "mkfs.ext4",
        "tune2fs",
        "losetup",
    ] {
        program(name)
            .map_err(|error| error.to_string().replace("setup.sh apps", "setup.sh tpcc"))?;
    }
    let laboratory = std::path::absolute(&arguments.laboratory)?;
    if !laboratory.is_file() {
        let path = laboratory.display();
        return Err(format!("{path} is not there; name another by --laboratory").into());
    }
    let bench = &arguments.bench;
    let disk = match arguments.figure {
        Figure::Users => bench.disk()?,
        // A disk that is made slow has no times of its own.
        Figure::Media => bench.memory_with(DISK_BYTES + pace.cache_bytes())?,
    };
    Ok(Site {
        forebay: bench.subject.forebay()?,
        laboratory,
        memory: bench.memory.clone(),
        disk: disk.to_owned(),
        cache_bytes: pace.cache_bytes(),
    })
}

/// Makes the file of a disk with the database on it.
fn make(site: &Site, pace: &Pace, workshop: &TempDir) -> Result<PathBuf> {
    let image = workshop.path().join("original.img");
    let stack = Stack::make(site, &image, DISK_BYTES, JOURNAL_MIB)?;
    Server::install(&stack.env, &stack.data())?;
    let server = Server::start(&stack.env, &stack.data(), LOADING_POOL_BYTES)?;
    let mut connection = server.connect(None)?;
    // It is not the making that must survive a crash.
    mysql::prelude::Queryable::query_drop(
        &mut connection,
        "SET GLOBAL innodb_flush_log_at_trx_commit = 0, SESSION unique_checks = 0",
    )?;
    load(&mut connection, &pace.scale(), DATABASE_SEED)?;
    drop(connection);
    server.end()?;
    stack.close()?;
    Ok(image)
}

struct Run<'a> {
    figure: Figure,
    site: &'a Site,
    pace: &'a Pace,
    image: &'a Path,
    progress: ProgressBar,
    results: Results,
    complaints: Vec<String>,
}

impl Run<'_> {
    /// All rounds, in each one medium after the other; another contender begins each.
    ///
    /// Errors: only Ctrl-C.
    fn all(&mut self, contenders: &[Contender]) -> Result<()> {
        let media = self.figure.media();
        for round in 0..self.pace.rounds {
            for (number, medium) in media.iter().enumerate() {
                for turn in 0..contenders.len() {
                    self.turn(Subject {
                        contender: contenders[(round + number + turn) % contenders.len()],
                        medium: *medium,
                        round,
                    })?;
                }
            }
        }
        Ok(())
    }

    fn turn(&mut self, subject: Subject) -> Result<()> {
        let round = subject.round;
        let title = subject.title();
        self.progress.set_message(title.clone());
        self.progress.tick();
        let turn = turn::run(self.site, self.pace, self.image, subject);
        check_interrupt()?;
        self.progress.inc(1);
        match turn {
            Ok(turn) => {
                for measured in turn.measured {
                    self.results.add(measured);
                }
                for violation in turn.violations {
                    self.complain(format!("{title}, round {}: {violation}", round + 1));
                }
            }
            Err(error) => self.complain(format!("{title}, round {}: {error}", round + 1)),
        }
        Ok(())
    }

    fn complain(&mut self, complaint: String) {
        self.progress.suspend(|| eprintln!("{complaint}"));
        self.complaints.push(complaint);
    }

    fn finish(&self, options: &RunOptions) -> Result<bool> {
        let mut rows = match self.figure {
            Figure::Users => self.results.rows("tpcc"),
            Figure::Media => media_page::rows(&self.results),
        };
        let wrong = self.complaints.len() as f64;
        rows.push(forebay_harness::Row::new(
            "tpcc_failures",
            wrong,
            "failures",
        ));
        let report = options.report(self.figure.run());
        rows::write(&report, &rows)?;
        let html = report.with_extension("html");
        let page = match self.figure {
            Figure::Users => page::page,
            Figure::Media => media_page::page,
        };
        page(&self.results, &rows, &self.complaints, self.pace).write(&html)?;
        if !options.json {
            // For people the middle is enough; the page has whiskers.
            rows.retain(|row| !row.name.ends_with("_min") && !row.name.ends_with("_max"));
        }
        rows::print(&rows, options.json)?;
        eprintln!("written to {} and {}", report.display(), html.display());
        Ok(self.complaints.is_empty())
    }
}
