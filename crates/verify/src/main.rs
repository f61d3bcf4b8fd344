//! `forebay-verify`: everything that verifies and measures Forebay, each a subcommand that says its seed, how
//! much it does, its progress and its report in the same words.
//!
//! Exit code 0 where all was well, 1 where something was found wrong, 2 where it could not be done.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use forebay_harness::{Result, exit_code, json, run_watched, watch_parent};

/// Verifies and measures Forebay
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "Examples:
  forebay-verify soak --quick --seed 7
  forebay-verify torture kill power --rounds 500
  forebay-verify crash run --images 100000 --seed 7
  forebay-verify faults --quick
  forebay-verify power cuts --quick
  forebay-verify apps --quick --only redis,sqlite
  forebay-verify apps --only sqlite,sync-4k --places disk,mount_ssd,slow_disk,ssd_pool_slow_disk
  forebay-verify tpcc --quick --only classic,tinca,forebay
  forebay-verify tpcc --figure 12 --quick
  forebay-verify cluster --quick --only etcd
  forebay-verify bench --case commit_1x4k_lines

Each writes target/NAME/report.json. Exit code 0: all is well; 1: something is wrong; 2: it could not be done."
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Ends when its input does
    #[arg(long, hide = true, global = true)]
    watched: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Daemons under load while they are killed and misled, every byte compared with a model
    Soak(forebay_soak::Arguments),
    /// Files behind Forebay: at random, against POSIX, through kills and bad days of the disk
    Torture(forebay_torture::Arguments),
    /// Crash images of the pool, of the file buffer and of the papers' engines, each recovered and compared
    Crash(forebay_check::Arguments),
    /// Members of mirrored pools that do one thing wrong each: a bit turned over, a write lost or elsewhere, a member dead
    Faults(forebay_check::FaultArguments),
    /// Power cuts and measurements under the kernels of guests
    Power(forebay_rig::Arguments),
    /// Programs that people use, on a disk, in memory and on files that Forebay buffers
    Apps(forebay_apps::Arguments),
    /// TPC-C on MariaDB on ext4, on disks that Forebay and the published designs serve
    Tpcc(forebay_apps::TpccArguments),
    /// Engines of several machines with Forebay under each member: their speed, nodes killed, pools lost
    Cluster(forebay_apps::ClusterArguments),
    /// Commits, reads and recovery beside raw memory and libpmem: the program forebay-bench
    #[command(disable_help_flag = true)]
    Bench {
        /// As forebay-bench takes them; --help lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// What torture does as a child of itself
    #[command(hide = true)]
    TortureTask {
        #[arg(value_parser = json::<forebay_torture::Task>)]
        task: forebay_torture::Task,
    },
    /// What apps does as a child of itself
    #[command(hide = true)]
    AppsTask {
        #[arg(value_parser = json::<forebay_apps::Task>)]
        task: forebay_apps::Task,
    },
}

/// Whether faults can be switched on in what is linked here: cargo builds a package once for all that are built
/// together, so one that asks for them gives them to all.
const HAS_MUTANTS: bool = forebay::internals::mutants::IN_BUILD
    || forebay_files::mutants::IN_BUILD
    || forebay_pmem::mutants::IN_BUILD;

fn main() -> ExitCode {
    let Arguments { command, watched } = Arguments::parse();
    let outcome = match command {
        _ if HAS_MUTANTS => Err(REFUSAL.into()),
        Command::TortureTask { task } => forebay_torture::run_task(task).map(|()| true),
        Command::AppsTask { task } => task.run().map(|()| true),
        Command::Bench { arguments } => bench(&arguments),
        // A program of its own too, in whose place this process goes on.
        Command::Crash(arguments) if arguments.is_of_mutants() => forebay_check::run(&arguments),
        command if watched => watch_parent().and_then(|()| run(&command)),
        _ => match run_watched("--watched") {
            Ok(code) => return code,
            Err(error) => Err(error),
        },
    };
    exit_code("forebay-verify", outcome)
}

/// What a program with faults in it says of all that is to measure or to prove the program that ships.
const REFUSAL: &str = "this program was built with the faults of the feature mutants in it, which are for \
                       crash mutants alone; build it without: cargo build --release -p forebay-verify";

fn run(command: &Command) -> Result<bool> {
    match command {
        Command::Soak(arguments) => forebay_soak::run(arguments),
        Command::Torture(arguments) => forebay_torture::run(arguments),
        Command::Crash(arguments) => forebay_check::run(arguments),
        Command::Faults(arguments) => forebay_check::run_faults(arguments),
        Command::Power(arguments) => forebay_rig::run(arguments),
        Command::Apps(arguments) => forebay_apps::run(arguments),
        Command::Tpcc(arguments) => forebay_apps::run_tpcc(arguments),
        Command::Cluster(arguments) => forebay_apps::run_cluster(arguments),
        Command::Bench { .. } | Command::TortureTask { .. } | Command::AppsTask { .. } => Ok(true),
    }
}

/// A program of its own, in whose place this process goes on: its allocator counts every byte, which would slow
/// down the others, and its instruction counts belong to what is linked with it.
fn bench(arguments: &[OsString]) -> Result<bool> {
    let program = std::env::current_exe()?.with_file_name("forebay-bench");
    let error = std::process::Command::new(&program).args(arguments).exec();
    let program = program.display();
    Err(format!("{program}: {error}; cargo build --release -p forebay-bench makes it").into())
}
