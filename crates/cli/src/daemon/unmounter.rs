//! A small process that keeps the right to unmount when the daemon gives it up, with `--user` or with most
//! files (`--allow-backing`).
//!
//! It knows the mount points from its command line and unmounts these alone, on a line from the
//! daemon, or when the daemon is gone. It reads nothing else and opens nothing.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use forebay_command::Failure;
use forebay_command::disks::Unmount;
use forebay_serve::mount_point::{self, MountIdentity};
use parking_lot::Mutex;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::arguments::UnmounterOptions;

/// The process, on the daemon's side. It ends by itself when this is dropped.
#[derive(Debug)]
pub struct Unmounter {
    mounts: Vec<MountIdentity>,
    pipes: Mutex<Pipes>,
    process: Child,
}

#[derive(Debug)]
struct Pipes {
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Unmounter {
    /// Starts it, while this process still is root.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(mounts: Vec<MountIdentity>) -> io::Result<Unmounter> {
        let mut process = Command::new(std::env::current_exe()?)
            .arg("unmounter")
            .arg("--device")
            .args(mounts.iter().map(|mount| &mount.device))
            .arg("--")
            .args(mounts.iter().map(|mount| &mount.directory))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Ctrl-C on the terminal is for the daemon, which then asks.
            .process_group(0)
            .spawn()?;
        let answers = process.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let pipes = Pipes {
            requests: process.stdin.take(),
            answers: BufReader::new(answers),
        };
        Ok(Unmounter {
            mounts,
            pipes: Mutex::new(pipes),
            process,
        })
    }

    fn ask(&self, number: usize, lazily: bool) -> io::Result<()> {
        let mut pipes = self.pipes.lock();
        let requests = pipes.requests.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        let verb = if lazily { "lazily" } else { "unmount" };
        writeln!(requests, "{verb} {number}")?;
        let mut answer = String::new();
        pipes.answers.read_line(&mut answer)?;
        match answer.trim_end() {
            "ok" => Ok(()),
            "busy" => Err(io::ErrorKind::ResourceBusy.into()),
            "gone" => Err(io::ErrorKind::NotFound.into()),
            "" => Err(io::Error::other("the process that unmounts has ended")),
            error => Err(io::Error::other(error.to_owned())),
        }
    }
}

impl Unmount for Unmounter {
    fn unmount(&self, mount: &MountIdentity, lazily: bool) -> Option<io::Result<()>> {
        let number = self.mounts.iter().position(|known| known == mount)?;
        Some(self.ask(number, lazily))
    }
}

impl Drop for Unmounter {
    fn drop(&mut self) {
        self.pipes.get_mut().requests = None;
        let _ = self.process.wait();
    }
}

/// The process itself.
pub fn run(options: &UnmounterOptions) -> Result<(), Failure> {
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        // It ends with the daemon, not before it: a flag that is never read ignores the signal.
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    if options.devices.len() != options.mounts.len() {
        return Err(Failure::Arguments(
            "one --device is needed for each mount point".into(),
        ));
    }
    let pairs = options.mounts.iter().zip(&options.devices);
    let mounts: Vec<MountIdentity> = pairs
        .map(|(directory, device)| MountIdentity {
            directory: directory.clone(),
            device: device.clone(),
        })
        .collect();
    for request in io::stdin().lock().lines().map_while(Result::ok) {
        let answer = match parse(&request, &mounts) {
            None => "not a request".to_owned(),
            Some((mount, lazily)) => match mount.unmount(lazily) {
                Ok(()) => "ok".to_owned(),
                Err(error) if error.kind() == io::ErrorKind::NotFound => "gone".to_owned(),
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => "busy".to_owned(),
                Err(error) => error.to_string().replace('\n', " "),
            },
        };
        if writeln!(io::stdout(), "{answer}").is_err() {
            // The daemon is gone; what it mounted is still to be unmounted.
            break;
        }
    }
    for mount in &mounts {
        if mount_point::is_dead(&mount.directory) {
            // The daemon was killed: its users get errors instead of hanging on a dead mount.
            let _ = mount.unmount(true);
        }
    }
    Ok(())
}

fn parse<'a>(request: &str, mounts: &'a [MountIdentity]) -> Option<(&'a MountIdentity, bool)> {
    let (verb, number) = request.split_once(' ')?;
    let mount = mounts.get(number.parse::<usize>().ok()?)?;
    match verb {
        "unmount" => Some((mount, false)),
        "lazily" => Some((mount, true)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_its_own_mounts_are_unmounted() {
        let mounts = ["/a", "/b"].map(|directory| MountIdentity {
            directory: directory.into(),
            device: "0:7".to_owned(),
        });
        assert_eq!(parse("unmount 1", &mounts), Some((&mounts[1], false)));
        assert_eq!(parse("lazily 0", &mounts), Some((&mounts[0], true)));
        for nonsense in ["", "unmount", "unmount 2", "unmount /c", "remove 0"] {
            assert_eq!(parse(nonsense, &mounts), None, "{nonsense}");
        }
    }
}
