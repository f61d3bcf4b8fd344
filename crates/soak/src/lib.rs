//! `make soak`: real daemons under load while things go wrong, every answer compared with a model in
//! memory, and every byte of the backings at the end.
//!
//! Writes a report of what was lost, what was wrong, what stalled and how memory grew.

mod chaos;
mod front_end;
mod memory;
mod model;
mod place;
mod report;
mod requests;
mod stamp;
mod tally;
mod worker;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use clap::Args;
use fastrand::Rng;
use forebay_harness::{
    PoolMedium, Result, RunOptions, SeedOption, SubjectOptions, catch_signals, memory_folder,
    mount_obstacle, progress_bar,
};
use forebay_serve::Request;
use rustix::process::Signal;

use crate::chaos::Chaos;
use crate::front_end::Address;
use crate::memory::Sample;
use crate::model::{Model, Runs};
use crate::place::{MOUNTED, Place, Pools, VOLUMES};
use crate::requests::Choice;
use crate::tally::Tally;
use crate::worker::{Volume, Worker};

const SECONDS: u64 = 600;
const QUICK_SECONDS: u64 = 60;
/// Much less than the volumes: evictions and write-back never rest.
const POOL_BYTES: u64 = 48 << 20;
const VOLUME_BYTES: u64 = 64 << 20;
/// What fits a transaction of a pool on an SSD that is so small.
const SSD_LENGTH_MAX: u64 = 128 << 10;
const CLIENTS_PER_VOLUME: u64 = 2;

/// How daemons are loaded and broken.
#[derive(Args, Debug)]
pub struct Arguments {
    #[command(flatten)]
    subject: SubjectOptions,
    #[command(flatten)]
    seed: SeedOption,
    #[command(flatten)]
    run: RunOptions,
    /// How long to break things [default: 600, quick: 60]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: Option<u64>,
    /// What the pool lies on
    #[arg(long, value_enum, default_value_t)]
    medium: PoolMedium,
    /// A pool on an SSD stands between the pool and the backings
    #[arg(long)]
    stacked: bool,
    /// A directory on a disk, below which a pool on an SSD is made
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    disk: PathBuf,
    /// Where backings are made, and removed afterwards [default: in memory]
    #[arg(long, value_name = "DIR")]
    backings: Option<PathBuf>,
}

/// True if nothing was lost, wrong, late or an error.
///
/// # Errors
/// It cannot be done here, a daemon does what it must not, or a signal came.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let quick_or = arguments.run.pick(QUICK_SECONDS, SECONDS);
    let length = Duration::from_secs(arguments.seconds.unwrap_or(quick_or));
    let seed = arguments.seed.seed("soak");
    let forebay = arguments.subject.forebay()?;
    let backings = arguments.backings.clone().unwrap_or_else(memory_folder);
    let pools = Pools {
        medium: arguments.medium,
        disk: &arguments.disk,
        is_stacked: arguments.stacked,
    };
    let place = Place::new(&forebay, pools, &backings, POOL_BYTES, VOLUME_BYTES)?;
    if let Some(obstacle) = mount_obstacle() {
        eprintln!("skipped soak of the FUSE disk: {obstacle}");
    }
    let run = Run {
        place,
        tally: Tally::default(),
        volumes: volumes(seed),
        seed,
        length_max: match arguments.medium {
            PoolMedium::Memory | PoolMedium::PageDisk => u64::MAX,
            PoolMedium::Ssd => SSD_LENGTH_MAX,
        },
        is_interrupted: catch_signals()?,
    };
    let samples = run.all(length)?;
    if run.is_interrupted.load(SeqCst) {
        return Err("interrupted; nothing was compared at the end, no report".into());
    }
    let rows = report::rows(&run.tally, &samples, seed);
    arguments.run.finish("soak", &rows)?;
    let has_failed = run
        .tally
        .has_failed(arguments.medium.is_on_disk() || arguments.stacked);
    if has_failed {
        for message in run.tally.messages() {
            eprintln!("{message}");
        }
        // The place is removed; the log may say why.
        let log = arguments.run.report("soak").with_file_name("daemon.log");
        std::fs::write(&log, run.place.log())?;
        let log = log.display();
        eprintln!("FAILED; seed {seed}; what the daemons logged is in {log}");
    }
    Ok(!has_failed)
}

fn volumes(seed: u64) -> Vec<Volume> {
    let volume = |(index, name): (usize, &&str)| Volume {
        name: (*name).to_owned(),
        models: (0..CLIENTS_PER_VOLUME)
            .map(|_| Model::new(seed, index as u32, VOLUME_BYTES).into())
            .collect(),
        ..Volume::default()
    };
    VOLUMES.iter().enumerate().map(volume).collect()
}

struct Run {
    place: Place,
    tally: Tally,
    volumes: Vec<Volume>,
    seed: u64,
    length_max: u64,
    is_interrupted: Arc<AtomicBool>,
}

impl Run {
    /// Load, faults, and the comparison at the end; the samples of the daemons' memory.
    fn all(&self, length: Duration) -> Result<Vec<Sample>> {
        let (place, tally) = (&self.place, &self.tally);
        let mut chaos = Chaos {
            place,
            tally,
            volumes: &self.volumes,
            rng: Rng::with_seed(self.seed),
            is_interrupted: &self.is_interrupted,
            daemon: None,
        };
        let count_connections = |volume: &str| chaos::connections(place, volume);
        let (broken, was_called_off, samples) = std::thread::scope(|scope| {
            let samples = scope.spawn(|| memory::watch(tally));
            scope.spawn(|| tally.watch());
            scope.spawn(|| self.show(length));
            for volume in 0..self.volumes.len() {
                for client in 0..CLIENTS_PER_VOLUME {
                    let worker = self.worker(volume, client, &count_connections);
                    scope.spawn(|| worker.run());
                }
            }
            let broken = chaos.run(length);
            let was_called_off = self.is_interrupted.load(SeqCst);
            if broken.is_err() {
                // Clients would wait for a daemon that will not come.
                self.is_interrupted.store(true, SeqCst);
            }
            tally.is_over.store(true, SeqCst);
            (broken, was_called_off, samples.join().unwrap_or_default())
        });
        // What fails because of Ctrl-C is no finding.
        if let Err(error) = broken
            && !was_called_off
        {
            let messages = tally.messages().join("\n");
            return Err(format!("seed {}: {error}\n{messages}", self.seed).into());
        }
        if !self.is_interrupted.load(SeqCst) {
            self.compare(&mut chaos)?;
        }
        Ok(samples)
    }

    fn worker<'a>(
        &'a self,
        volume: usize,
        client: u64,
        count_connections: worker::CountConnections<'a>,
    ) -> Worker<'a> {
        let by_mount = volume == MOUNTED && client == 0 && self.place.has_fuse;
        let number = volume as u64 * CLIENTS_PER_VOLUME + client + 1;
        Worker {
            tally: &self.tally,
            volume: &self.volumes[volume],
            address: match by_mount {
                true => Address::Fuse(self.place.env.path("mount/disk")),
                false => Address::Nbd(self.place.nbd(), VOLUMES[volume].to_owned()),
            },
            choice: Choice {
                rng: Rng::with_seed(self.seed.wrapping_add(number << 32)),
                runs: Runs {
                    volume_bytes: VOLUME_BYTES,
                    clients: CLIENTS_PER_VOLUME,
                },
                client,
                version: 0,
                length_max: self.length_max,
            },
            count_connections,
            is_interrupted: &self.is_interrupted,
            front_end: None,
            generation: 0,
        }
    }

    /// Drains, ends the daemon, and compares every byte of every backing.
    fn compare(&self, chaos: &mut Chaos<'_>) -> Result<()> {
        chaos::ask(&self.place, &Request::new("set").with("flush_rate", 0))?;
        chaos::ask(&self.place, &Request::new("flush"))?;
        let code = chaos.down(Signal::TERM)?;
        if code != Some(0) {
            let tail = self.place.env.log_tail();
            self.tally
                .error(format!("the daemon ended with {code:?}; its log:\n{tail}"));
        }
        for volume in &self.volumes {
            self.place
                .compare(&self.tally, volume, "backing at the end")?;
        }
        for line in self.place.log().lines() {
            if line.contains("panicked") {
                self.tally.error(format!("a daemon logged: {line}"));
            }
        }
        Ok(())
    }

    /// A bar with what happens now, until the run is over.
    fn show(&self, length: Duration) {
        let bar = progress_bar(length.as_secs());
        while !self.tally.is_over.load(SeqCst) {
            let tally = &self.tally;
            bar.set_position(tally.elapsed_ns() / 1_000_000_000);
            bar.set_message(format!(
                "{} requests, {} faults, {} lost, {} wrong, {} stalls; {}",
                tally.operations.load(SeqCst),
                tally.faults().values().sum::<u64>(),
                tally.lost.load(SeqCst),
                tally.wrong.load(SeqCst),
                tally.stalls.load(SeqCst),
                tally.now(),
            ));
            std::thread::sleep(Duration::from_millis(250));
        }
        bar.finish_and_clear();
    }
}
