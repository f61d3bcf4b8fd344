//! One round: programs work, something is killed, the directory is brought back and compared.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use forebay_harness::{Failure, Group, Result, memory_folder};
use rustix::process::{Pid, Signal, kill_process};

use super::choice::Chooser;
use super::compare::{self, May};
use super::operation::{Answer, Operation};
use super::tree::Tree;
use crate::disk::Disk;
use crate::form::Form;
use crate::place::Place;
use crate::settings::Settings;
use crate::task::Task;

const THREADS: usize = 3;
/// Little enough that space is reclaimed and written back all the time.
const POOL_BYTES: u64 = 24 << 20;
const DISK_BYTES: u64 = 256 << 20;
const RECENT_MAX: usize = 60;
const CONNECT_DEADLINE: Duration = Duration::from_secs(60);
const END_DEADLINE: Duration = Duration::from_secs(120);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    Program,
    /// The mount's daemon; under the library, `forebay run`.
    Daemon,
    Both,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Return {
    /// `forebay recover`, and a look behind the mount.
    Recover,
    /// The next mount or `forebay run` does it.
    Next,
    /// `forebay recover` is killed too, and repeated.
    RecoverTwice,
}

/// A directory through all its rounds.
#[derive(Debug)]
pub struct Rounds {
    pub place: Place,
    settings: Settings,
    listener: UnixListener,
    parts: Vec<Part>,
    /// A copy from after the latest kill.
    kept: Option<PathBuf>,
    /// Whose power is cut; it goes after the place that lies on it.
    disk: Option<Disk>,
}

#[derive(Debug)]
struct Part {
    root: String,
    tree: Tree,
    chooser: Chooser,
    /// Told and not answered.
    in_flight: Option<Operation>,
    acknowledged: u64,
    /// The latest, for the report of a failure.
    recent: VecDeque<Operation>,
}

impl Rounds {
    /// Makes the directory, and serves it.
    pub fn new(settings: &Settings, form: Form, has_power_cuts: bool) -> Result<Rounds> {
        let disk = match has_power_cuts {
            true => Some(Disk::new(&memory_folder(), DISK_BYTES)?),
            false => None,
        };
        let parent = disk.as_ref().map_or(settings.disk.clone(), Disk::path);
        let mut place = Place::new(form, settings, &parent, POOL_BYTES)?;
        let part = |index: usize| {
            let root = format!("part{index}");
            Part {
                tree: Tree::new(&root),
                chooser: Chooser::new(settings.seed + index as u64, &root),
                root,
                in_flight: None,
                acknowledged: 0,
                recent: VecDeque::new(),
            }
        };
        let parts: Vec<Part> = (0..THREADS).map(part).collect();
        for part in &parts {
            use std::os::unix::fs::PermissionsExt;
            let path = place.env.disk().join(&part.root);
            std::fs::create_dir(&path)?;
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755))?;
        }
        rustix::fs::syncfs(std::fs::File::open(place.env.disk())?)?;
        place.start()?;
        let listener = UnixListener::bind(place.env.path("socket"))?;
        listener.set_nonblocking(true)?;
        Ok(Rounds {
            place,
            settings: settings.clone(),
            listener,
            parts,
            kept: None,
            disk,
        })
    }

    /// Returns how many operations were acknowledged in it.
    ///
    /// Errors: something was lost, or wrong before the kill.
    pub fn one(&mut self, victim: Victim, back: Return, delay_ms: u64) -> Result<u64> {
        let mut programs = self.start_programs()?;
        let streams = self.accept(&mut programs)?;
        let pids = streams.iter().map(|(_, pid)| *pid).collect::<Vec<_>>();
        let before = self.acknowledged();
        let is_killed = AtomicBool::new(false);
        let outcome = std::thread::scope(|scope| {
            let is_killed = &is_killed;
            let mut all = Vec::new();
            for (part, (stream, _)) in self.parts.iter_mut().zip(streams) {
                all.push(scope.spawn(move || part.drive(stream, is_killed)));
            }
            std::thread::sleep(Duration::from_millis(delay_ms));
            is_killed.store(true, SeqCst);
            let cut = self.disk.as_ref().map_or(Ok(()), Disk::cut_power);
            let killed = cut.and_then(|()| kill(&mut self.place, &mut programs, &pids, victim));
            let driven: Vec<Result<()>> = all
                .into_iter()
                .map(|one| {
                    one.join()
                        .unwrap_or_else(|_| Err("the checker panicked".into()))
                })
                .collect();
            killed.and_then(|()| driven.into_iter().collect::<Result<()>>())
        });
        outcome?;
        self.end_programs(programs, victim)?;
        let may = May {
            lose_unsynced: self.disk.is_some(),
            tear_writes: self.place.form.is_mounted(),
        };
        if let Some(disk) = &self.disk {
            self.place.env.unmount();
            disk.restart()?;
        }
        self.kept = match &self.settings.keep {
            Some(keep) => Some(self.place.keep(keep, "latest")?),
            None => None,
        };
        self.bring_back(victim, back)?;
        for part in &mut self.parts {
            let in_flight = part.in_flight.take();
            let directory = match back {
                Return::Next => self.place.files(),
                _ => self.place.env.disk().to_owned(),
            };
            let (tree, in_flight) = (&mut part.tree, in_flight.as_ref());
            compare::settle(&directory, &part.root, tree, in_flight, may)?;
        }
        if self.place.form.is_mounted() && back != Return::Next {
            self.place.start()?;
        }
        Ok(self.acknowledged() - before)
    }

    /// Gives the copy of the latest round a name to stay.
    pub fn keep(&mut self, name: &str) -> Result<()> {
        if let Some(kept) = self.kept.take() {
            let to = kept.with_file_name(name);
            if to.exists() {
                std::fs::remove_dir_all(&to)?;
            }
            std::fs::rename(&kept, &to)?;
            eprintln!("kept in {}", to.display());
        }
        Ok(())
    }

    /// Ends what serves the directory, and compares once more, behind it.
    ///
    /// Errors: something is not as it was.
    pub fn end(mut self) -> Result<()> {
        self.place.stop()?;
        for part in &mut self.parts {
            compare::settle(
                self.place.env.disk(),
                &part.root,
                &mut part.tree,
                None,
                May::default(),
            )?;
        }
        Ok(())
    }

    fn acknowledged(&self) -> u64 {
        self.parts.iter().map(|part| part.acknowledged).sum()
    }

    /// Through the library the pool belongs to one process; a mount has users in several.
    fn start_programs(&self) -> Result<Vec<Group>> {
        let (processes, threads) = match self.place.form {
            Form::Preload => (1, THREADS),
            _ => (THREADS, 1),
        };
        let start = |_| {
            let task = Task::Work {
                directory: self.place.files(),
                socket: self.place.env.path("socket"),
                threads,
            };
            let mut command = task.program(&self.settings, &self.place)?;
            command.stdin(Stdio::null()).stderr(Stdio::null());
            Group::start(&mut command)
        };
        (0..processes).map(start).collect()
    }

    /// A connection and the process at its other end, for each part.
    fn accept(&self, programs: &mut [Group]) -> Result<Vec<(UnixStream, Pid)>> {
        let began = Instant::now();
        let mut streams = Vec::new();
        while streams.len() < THREADS {
            forebay_harness::check_interrupt()?;
            match self.listener.accept() {
                Ok((stream, _)) => {
                    stream.set_nonblocking(false)?;
                    let mut line = String::new();
                    // Nothing follows before the first operation is told.
                    BufReader::new(&stream).read_line(&mut line)?;
                    let pid =
                        Pid::from_raw(line.trim().parse()?).ok_or("a program without a pid")?;
                    streams.push((stream, pid));
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    for program in programs.iter_mut() {
                        if let Some(status) = program.ended()? {
                            return Err(format!("a program ended before its time: {status}").into());
                        }
                    }
                    if began.elapsed() > CONNECT_DEADLINE {
                        return Err("a program does not begin".into());
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(streams)
    }

    /// Waits for those that were not killed: their connections are gone.
    fn end_programs(&self, programs: Vec<Group>, victim: Victim) -> Result<()> {
        for mut program in programs {
            let is_run = self.place.form == Form::Preload && victim == Victim::Program;
            match is_run {
                // It brings the directory back itself.
                true => {
                    program.wait(END_DEADLINE)?;
                }
                false => program.kill()?,
            }
        }
        Ok(())
    }

    fn bring_back(&mut self, victim: Victim, back: Return) -> Result<()> {
        let is_served = self.place.form.is_mounted() && victim == Victim::Program;
        if is_served {
            return match back {
                Return::Next => Ok(()),
                _ => self.place.stop(),
            };
        }
        if self.place.form == Form::Plain {
            return Ok(());
        }
        match back {
            Return::Next if self.place.form.is_mounted() => self.place.start(),
            Return::Next => {
                let mut command = self.place.program("true".as_ref());
                forebay_harness::output(&mut command, END_DEADLINE).map(drop)
            }
            Return::Recover => self.place.recover(),
            Return::RecoverTwice => {
                self.place
                    .recover_killed(Duration::from_micros(fastrand::u64(500..30_000)))?;
                self.place.recover()
            }
        }
    }
}

impl Part {
    /// Tells operations until the program or what serves its files is gone.
    fn drive(&mut self, stream: UnixStream, is_killed: &AtomicBool) -> Result<()> {
        let mut answers = BufReader::new(stream.try_clone()?).lines();
        let mut stream = &stream;
        loop {
            let operation = self.chooser.draw(&self.tree);
            let mut line = serde_json::to_string(&operation)?;
            line.push('\n');
            let is_told = stream.write_all(line.as_bytes()).is_ok();
            self.in_flight = Some(operation.clone());
            let answer = match answers.next() {
                Some(Ok(answer)) if is_told => answer,
                _ if is_killed.load(SeqCst) => return Ok(()),
                _ => return Err(format!("the program is gone, at {operation:?}").into()),
            };
            match serde_json::from_str::<Answer>(&answer)? {
                Ok(number) if self.is_right(&operation, number) => self.acknowledge(operation),
                // Of a daemon that dies a read may get the part that was cached.
                _ if is_killed.load(SeqCst) => return Ok(()),
                Ok(_) => return Err(self.tell(&operation, "stale or wrong bytes")),
                Err(error) => return Err(self.tell(&operation, &error)),
            }
        }
    }

    fn is_right(&self, operation: &Operation, number: u64) -> bool {
        match operation {
            Operation::Read { slot, offset, len } => number == self.tree.read(*slot, *offset, *len),
            _ => true,
        }
    }

    fn acknowledge(&mut self, operation: Operation) {
        self.tree.apply(&operation);
        self.acknowledged += 1;
        self.in_flight = None;
        if self.recent.len() == RECENT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(operation);
    }

    fn tell(&self, operation: &Operation, what: &str) -> Failure {
        let recent = self.recent.iter().map(|one| format!("\n  {one:?}"));
        format!(
            "{operation:?}: {what}; before it:{}",
            recent.collect::<String>()
        )
        .into()
    }
}

fn kill(place: &mut Place, programs: &mut [Group], pids: &[Pid], victim: Victim) -> Result<()> {
    let program = |programs: &mut [Group]| -> Result<()> {
        if place.form == Form::Preload {
            // Only the program: `forebay run` stays, unless it is a victim too.
            let _ = kill_process(pids[0], Signal::KILL);
            return Ok(());
        }
        programs.iter_mut().try_for_each(Group::kill)
    };
    let is_program_first = fastrand::bool();
    if victim == Victim::Program || (victim == Victim::Both && is_program_first) {
        program(programs)?;
    }
    if victim != Victim::Program {
        match place.form {
            // With everything below it.
            Form::Preload => programs.iter_mut().try_for_each(Group::kill)?,
            _ => place.kill_daemon()?,
        }
    }
    if victim == Victim::Both && !is_program_first && place.form != Form::Preload {
        programs.iter_mut().try_for_each(Group::kill)?;
    }
    Ok(())
}
