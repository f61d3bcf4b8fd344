//! `make bench-tpcc`: TPC-C on MariaDB on ext4, on disks that Forebay and the published designs serve, in turn in
//! one run. Tinca's Figures 8 and 12c with a real server.
//!
//! Writes `report.json`, a list of named numbers, and `report.html`, one page. A database in which anything is wrong
//! afterwards makes the run fail.

mod consistency;
mod contender;
mod counters;
mod drive;
mod load;
mod machine;
mod mix;
mod pace;
mod page;
mod paper;
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
    Result, RunOptions, SubjectOptions, TempDir, check_interrupt, mount_obstacle, progress_bar,
    rows, temporary_folder,
};
use indicatif::ProgressBar;

use crate::context::{is_in_memory, program};
use crate::tpcc::contender::{CONTENDERS, Contender};
use crate::tpcc::load::load;
use crate::tpcc::pace::{DISK_BYTES, JOURNAL_MIB, Pace};
use crate::tpcc::results::Results;
use crate::tpcc::server::Server;
use crate::tpcc::stack::{Site, Stack};

/// The same database, whatever is measured on it.
const DATABASE_SEED: u64 = 1;
/// The server that fills it keeps it in memory.
const LOADING_POOL_BYTES: u64 = 256 << 20;

/// What is measured.
#[derive(Args, Debug)]
pub struct Arguments {
    #[command(flatten)]
    subject: SubjectOptions,
    #[command(flatten)]
    run: RunOptions,
    /// The program that serves the published designs
    #[arg(
        long,
        value_name = "PATH",
        default_value = "target/release/forebay-lab"
    )]
    laboratory: PathBuf,
    /// A directory on a disk, for the files behind the caches
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    disk: PathBuf,
    /// A directory in memory, for the caches
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    memory: PathBuf,
    /// Only these: bare, classic, tinca, tinca_without_journal, forebay, forebay_late
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// How often each has its turn [default: 3]
    #[arg(long)]
    rounds: Option<usize>,
    /// Numbers of users, up to 100 [default: 5 to 60]
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=100))]
    users: Vec<u32>,
    /// Transactions that are measured with each number of users [default: 10000, with --quick 1000]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    transactions: Option<u64>,
}

/// Measures; true if nothing failed and no database was wrong.
///
/// # Errors
/// It cannot be done here, or a signal came.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let contenders = chosen(&arguments.only)?;
    let pace = paced(arguments);
    let site = site(arguments, &pace)?;
    let progress = progress_bar((contenders.len() * pace.rounds) as u64);
    let workshop = temporary_folder(&arguments.disk)?;
    progress.set_message("making the database");
    progress.tick();
    let image = make(&site, &pace, &workshop)?;
    let mut run = Run {
        site: &site,
        pace: &pace,
        image: &image,
        progress,
        results: Results::default(),
        complaints: Vec::new(),
    };
    run.all(&contenders)?;
    run.progress.finish_and_clear();
    run.finish(&arguments.run)
}

fn chosen(only: &[String]) -> Result<Vec<Contender>> {
    let find = |name: &String| {
        let found = CONTENDERS.into_iter().find(|known| known.name() == name);
        let known = || CONTENDERS.map(Contender::name).join(", ");
        found.ok_or_else(|| format!("{name} is not known; one of {}", known()).into())
    };
    match only.is_empty() {
        true => Ok(CONTENDERS.to_vec()),
        false => only.iter().map(find).collect(),
    }
}

fn paced(arguments: &Arguments) -> Pace {
    let mut pace = Pace::new(arguments.run.quick);
    if let Some(rounds) = arguments.rounds {
        pace.rounds = rounds.max(1);
    }
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
    if is_in_memory(&arguments.disk)? {
        let disk = arguments.disk.display();
        return Err(format!("{disk} is in memory; name a directory on a disk by --disk").into());
    }
    Ok(Site {
        forebay: arguments.subject.forebay()?,
        laboratory,
        memory: arguments.memory.clone(),
        disk: arguments.disk.clone(),
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
    site: &'a Site,
    pace: &'a Pace,
    image: &'a Path,
    progress: ProgressBar,
    results: Results,
    complaints: Vec<String>,
}

impl Run<'_> {
    /// All rounds; another contender begins each.
    ///
    /// Errors: only Ctrl-C.
    fn all(&mut self, contenders: &[Contender]) -> Result<()> {
        for round in 0..self.pace.rounds {
            for turn in 0..contenders.len() {
                self.turn(contenders[(round + turn) % contenders.len()], round)?;
            }
        }
        Ok(())
    }

    fn turn(&mut self, contender: Contender, round: usize) -> Result<()> {
        let title = contender.title();
        self.progress.set_message(title);
        self.progress.tick();
        let turn = turn::run(self.site, self.pace, self.image, (contender, round));
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
        let mut rows = self.results.rows();
        let wrong = self.complaints.len() as f64;
        rows.push(forebay_harness::Row::new(
            "tpcc_failures",
            wrong,
            "failures",
        ));
        let report = options.report("tpcc");
        rows::write(&report, &rows)?;
        let html = report.with_extension("html");
        page::page(&self.results, &rows, &self.complaints, self.pace).write(&html)?;
        if !options.json {
            // For people the middle is enough; the page has whiskers.
            rows.retain(|row| !row.name.ends_with("_min") && !row.name.ends_with("_max"));
        }
        rows::print(&rows, options.json)?;
        eprintln!("written to {} and {}", report.display(), html.display());
        Ok(self.complaints.is_empty())
    }
}
