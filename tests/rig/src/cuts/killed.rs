//! Sessions in which processes are killed: a real daemon over plain files, a guest on its disk.
//!
//! Files are in this machine's memory and outlive the processes; what is lost is what guest and daemon
//! had in theirs. Each round boots the guest anew, verifies the disk, and starts the next load on the
//! same file system, which so grows old.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use fastrand::Rng;
use forebay_harness::processor_time;
use forebay_lab::engines::EngineName;
use rustix::process::Signal;

use super::file_system::{self, FileSystem, Load, THREADS, Verdict};
use super::plan::{Kind, Round, Session};
use crate::workload::verify::Acknowledged;
use crate::{Daemon, Disk, Failure, Guest, GuestOptions, Job, Result, Scratch, Server};

const POOL_BYTES: u64 = 48 << 20;
/// XFS needs 300 MiB.
const DISK_BYTES: u64 = 320 << 20;
/// The disk, in the guest.
pub const DEVICE: &str = "/dev/vda";
/// Steps of every thread before the power may fail.
const WARM_STEPS: u64 = 3;
const WARM_LIMIT: Duration = Duration::from_secs(60);
const LOAD_MS_MAX: u64 = 800;
const BETWEEN_KILLS_MS_MAX: u64 = 60;

/// After the file system was made, until all is at rest: write-back, journal, timers.
const REST: Duration = Duration::from_secs(8);

/// A pool with a backing, and the process that serves it.
pub struct TestEnv<'a> {
    scratch: &'a Scratch,
    daemon: Daemon,
    pool: PathBuf,
    backing: PathBuf,
    socket: PathBuf,
    is_pool: bool,
    settings: Vec<String>,
}

/// Settings that differ from seed to seed; most of what can be switched off is on.
fn settings(rng: &mut Rng) -> Vec<String> {
    let dirty_low = rng.choice(&[0, 10, 50]).expect("there are some");
    let mut settings = vec!["--dirty-low".into(), dirty_low.to_string()];
    for switch in ["share-duplicates", "compare-writes", "defer-journal"] {
        let state = if rng.u32(..4) > 0 { "on" } else { "off" };
        settings.extend([format!("--{switch}"), state.to_owned()]);
    }
    settings
}

impl TestEnv<'_> {
    /// Makes backing and pool, or the region of a published design.
    pub fn new<'a>(
        scratch: &'a Scratch,
        forebay: PathBuf,
        engine: EngineName,
        rng: &mut Rng,
    ) -> Result<TestEnv<'a>> {
        let folder = scratch.new_folder("killed")?;
        let mut daemon = Daemon {
            forebay,
            log: folder.join("log"),
        };
        if engine != EngineName::Forebay {
            daemon = daemon.of_designs();
        }
        let env = TestEnv {
            scratch,
            daemon,
            pool: folder.join("pool"),
            backing: folder.join("backing"),
            socket: folder.join("socket"),
            is_pool: engine == EngineName::Forebay,
            settings: match engine {
                EngineName::Forebay => settings(rng),
                design => vec!["--engine".into(), design.to_string()],
            },
        };
        std::fs::File::create(&env.backing)?.set_len(DISK_BYTES)?;
        let (pool, backing) = (&env.pool, &env.backing);
        match engine {
            EngineName::Forebay => env.daemon.create_pool(pool, POOL_BYTES)?,
            design => {
                let name = design.as_str();
                env.daemon.create_design(name, pool, POOL_BYTES, backing)?;
            }
        }
        Ok(env)
    }

    /// A daemon on them.
    pub fn serve(&self) -> Result<Server> {
        let mut arguments: Vec<&OsStr> = vec![
            if self.is_pool { "--pool" } else { "--memory" }.as_ref(),
            self.pool.as_os_str(),
            "--backing".as_ref(),
            self.backing.as_os_str(),
            "--vhost-user".as_ref(),
            self.socket.as_os_str(),
        ];
        arguments.extend(self.settings.iter().map(OsStr::new));
        self.daemon.serve(&arguments)
    }

    /// Blocks that the pool has and the disk may lack; no daemon may be up.
    pub fn dirty_blocks(&self) -> Result<u64> {
        let mut command = self.daemon.command(&["info", "--json"]);
        let told = self.daemon.run(command.arg(&self.pool))?;
        let told: serde_json::Value = serde_json::from_str(&told)?;
        let blocks = told["dirty_blocks"].as_u64();
        blocks.ok_or_else(|| format!("no dirty blocks in {told}").into())
    }

    /// A guest with the disk.
    pub fn boot(&self) -> Result<Guest> {
        let disk = Disk::Vhost(self.socket.clone());
        Guest::boot(self.scratch, &GuestOptions::with_disks([disk]))
    }
}

/// Makes the cuts of a session; `done` hears of each.
pub fn run(
    scratch: &Scratch,
    forebay: &std::path::Path,
    session: &Session,
    done: &mut dyn FnMut(Round),
) -> Result<()> {
    let mut rng = Rng::with_seed(session.seed);
    let env = TestEnv::new(scratch, forebay.to_path_buf(), session.engine, &mut rng)?;
    let mut server = Some(env.serve()?);
    let mut guest = env.boot()?;
    file_system::make(&mut guest, session.file_system, DEVICE)?;
    for index in 0..session.rounds {
        let load = Load {
            seed: rng.u64(..),
            number: u64::from(index),
            is_syncing: session.kind != Kind::WithoutFsync,
        };
        let job = load.start(&mut guest)?;
        warm_up(&load, &mut guest, &job)?;
        forebay_harness::sleep(Duration::from_millis(rng.u64(..LOAD_MS_MAX)))?;
        let reports = guest.shared().to_path_buf();
        let reported = || load.acknowledged_in(&reports);
        let reported_before = cut(session.kind, &mut rng, guest, &mut server, &reported)?;
        if server.is_none() {
            server = Some(env.serve()?);
        }
        let least_and_most = reported_before.into_iter().zip(reported()?);
        let acknowledged = least_and_most.map(|(least, most)| Acknowledged { least, most });
        let acknowledged: Vec<_> = acknowledged.collect();
        guest = env.boot()?;
        let verdict = file_system::verify(
            &mut guest,
            session.file_system,
            DEVICE,
            &load,
            &acknowledged,
        )?;
        let is_over = matches!(verdict, Verdict::Broken(_)) || index + 1 == session.rounds;
        done(Round {
            number: session.first_round + index,
            acknowledged: acknowledged.iter().map(|steps| steps.least).sum(),
            undecided: 0,
            segments_reused: 0,
            verdict,
        });
        if is_over {
            break;
        }
        file_system::mount_again(&mut guest, session.file_system, DEVICE, &load)?;
    }
    guest.shut_down()
}

/// Waits until every thread of the load was acknowledged something.
pub fn warm_up(load: &Load, guest: &mut Guest, job: &Job) -> Result<()> {
    let warm = forebay_harness::wait_for(WARM_LIMIT, || {
        if let Some(output) = guest.poll(job)? {
            let (status, text) = (output.status, output.text);
            return Err(Failure::from(format!(
                "the load ended with {status}: {text}"
            )));
        }
        let acknowledged = load.acknowledged(guest)?;
        let is_warm = acknowledged.iter().all(|&steps| steps >= WARM_STEPS);
        Ok(is_warm.then_some(()))
    })?;
    warm.ok_or_else(|| {
        let console = guest.console_tail();
        format!("{THREADS} threads did not do {WARM_STEPS} steps each in a minute:\n{console}")
            .into()
    })
}

/// Kills what the kind says; returns what `reported` said last while the daemon lived.
///
/// What a guest reports after that proves nothing of the daemon, which no longer answers: a kernel
/// whose disk has just died can call an fsync done all the same. It was seen with ext4 and
/// `data=journal` (6.1), once in some hundred cuts, presumably where the journal was aborted by the
/// commit for another thread's fsync and nothing was left to commit.
fn cut(
    kind: Kind,
    rng: &mut Rng,
    guest: Guest,
    server: &mut Option<Server>,
    reported: &dyn Fn() -> Result<Vec<u64>>,
) -> Result<Vec<u64>> {
    let pause = Duration::from_millis(rng.u64(..BETWEEN_KILLS_MS_MAX));
    let is_guest_first = rng.bool();
    let mut kill_server = || -> Result<Vec<u64>> {
        let server = server.take().ok_or("no daemon is up")?;
        let before = reported()?;
        server.status_after(Signal::KILL)?;
        Ok(before)
    };
    match kind {
        Kind::Daemon => {
            let before = kill_server()?;
            forebay_harness::sleep(pause)?;
            guest.cut_power()?;
            Ok(before)
        }
        Kind::Both if is_guest_first => {
            guest.cut_power()?;
            kill_server()
        }
        Kind::Both => {
            let before = kill_server()?;
            guest.cut_power()?;
            Ok(before)
        }
        _ => {
            guest.cut_power()?;
            reported()
        }
    }
}

/// Percent of one processor that the daemon uses while a guest has its disk mounted and is idle.
pub fn idle_processor_percent(
    scratch: &Scratch,
    forebay: &std::path::Path,
    time: Duration,
) -> Result<f64> {
    let mut rng = fastrand::Rng::with_seed(0);
    let env = TestEnv::new(
        scratch,
        forebay.to_path_buf(),
        EngineName::Forebay,
        &mut rng,
    )?;
    let server = env.serve()?;
    let mut guest = env.boot()?;
    file_system::make(&mut guest, FileSystem::Ext4Ordered, DEVICE)?;
    guest.must_run("echo content >/mnt/a/file && sync", REST)?;
    forebay_harness::sleep(REST)?;
    let (began, used_before) = (Instant::now(), processor_time(server.id())?);
    forebay_harness::sleep(time)?;
    let used = processor_time(server.id())? - used_before;
    let percent = 100.0 * used.as_secs_f64() / began.elapsed().as_secs_f64();
    guest.must_run("umount /mnt/a", REST)?;
    guest.shut_down()?;
    Ok(percent)
}
