//! Daemons that are killed, that end under load, and that come second.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use rustix::process::Signal;

use super::Chaos;
use crate::place::{MOUNTED, VOLUMES};
use forebay_harness::Result;

/// In use: another process owns the pool.
const EXIT_IN_USE: i32 = 4;
/// The daemon ended before its disks were out of use.
const EXIT_DEADLINE: i32 = 6;
const SECOND_DEADLINE: Duration = Duration::from_secs(30);

impl Chaos<'_> {
    /// Starts a daemon; recovery, where the last one was killed.
    pub fn start(&mut self) -> Result<()> {
        let daemon = self.place.start()?;
        self.tally.daemon.store(daemon.id(), SeqCst);
        self.tally.generation.fetch_add(1, SeqCst);
        self.daemon = Some(daemon);
        Ok(())
    }

    /// SIGKILL with requests in flight, and recovery.
    pub fn kill(&mut self) -> Result<()> {
        self.tally.fault("daemon_killed");
        self.tally.open_fault();
        self.down(Signal::KILL)?;
        self.start()?;
        if self.rng.u32(..4) == 0 {
            // Once more at once: before and while clients find out what became of their requests.
            self.tally.fault("daemon_killed_again");
            self.pause(0..60);
            self.down(Signal::KILL)?;
            self.start()?;
        }
        self.tally.close_fault();
        Ok(())
    }

    /// SIGTERM under load: it has to end by itself and say that all is well, unless the mount is in
    /// use until the deadline.
    pub fn terminate(&mut self) -> Result<()> {
        if self.place.has_fuse && self.rng.u32(..3) == 0 {
            self.tally.fault("daemon_terminated_with_mount_in_use");
            return self.end_and_start(true);
        }
        self.tally.fault("daemon_terminated");
        self.without_clients(MOUNTED, |chaos| chaos.end_and_start(false))
    }

    fn end_and_start(&mut self, is_mount_in_use: bool) -> Result<()> {
        self.tally.open_fault();
        let code = self.down(Signal::TERM)?;
        let by_deadline = is_mount_in_use && code == Some(EXIT_DEADLINE);
        if code != Some(0) && !by_deadline {
            let tail = self.place.env.log_tail();
            self.tally.error(format!(
                "SIGTERM ended the daemon with {code:?}; its log:\n{tail}"
            ));
        }
        self.start()?;
        self.tally.close_fault();
        Ok(())
    }

    /// Ends the daemon; its exit code, none where a signal ended it.
    pub fn down(&mut self, signal: Signal) -> Result<Option<i32>> {
        self.tally.daemon.store(0, SeqCst);
        let daemon = self.daemon.take().ok_or("no daemon is up")?;
        Ok(daemon.status_after(signal)?.code())
    }

    /// Another daemon on the same pool is refused, and the first one serves on.
    pub fn second_daemon(&mut self) -> Result<()> {
        self.tally.fault("second_daemon");
        let mut second = self
            .place
            .env
            .command(&["serve", "--name", "second", "--nbd"]);
        second
            .arg(format!("unix:{}", self.place.env.path("second").display()))
            .arg("--pool")
            .arg(self.place.env.path("pool"))
            .arg("--backing")
            .arg(self.place.backing(VOLUMES[0]));
        match forebay_harness::run(&mut second, SECOND_DEADLINE) {
            Ok(output) if output.status.code() == Some(EXIT_IN_USE) => {}
            Ok(output) => self.tally.error(format!(
                "a second daemon on the pool was not refused: {}",
                output.told()
            )),
            Err(error) => self
                .tally
                .error(format!("a second daemon on the pool: {error}")),
        }
        Ok(())
    }
}
