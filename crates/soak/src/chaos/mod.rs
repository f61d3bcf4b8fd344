//! Whatever goes wrong meanwhile, one thing after the other, each counted by its name.
//!
//! The first part of a run kills and ends daemons; in the second one daemon lives on, so that its
//! memory can be watched, and only gentle things happen. While a daemon is down, and while a backing
//! fails, requests may fail and be slow; everything else has to pass unnoticed.

mod backing;
mod daemon;
mod guest;
mod hostile;

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use fastrand::Rng;
use forebay_harness::Daemon;
use forebay_serve::{Client, Request};
use serde_json::Value;

use crate::place::{Place, VOLUMES};
use crate::tally::Tally;
use crate::worker::Volume;
use forebay_harness::Result;

/// Part of a run in which daemons are killed.
const KILLING_PART: f64 = 0.4;

pub struct Chaos<'a> {
    pub place: &'a Place,
    pub tally: &'a Tally,
    pub volumes: &'a [Volume],
    pub rng: Rng,
    pub is_interrupted: &'a AtomicBool,
    pub daemon: Option<Daemon>,
}

/// Asks the daemon of a place.
///
/// Errors: no daemon serves it, or the daemon refuses.
pub fn ask(place: &Place, request: &Request) -> Result<Value> {
    let mut client = Client::connect(&place.control())?.ok_or("no daemon answers")?;
    Ok(client.request(request, |_| true)?)
}

/// Connections of NBD clients to a volume; `None` where no daemon answers.
pub fn connections(place: &Place, volume: &str) -> Option<u64> {
    let stat = ask(place, &Request::new("stat")).ok()?;
    let volumes = stat["volumes"].as_array()?;
    let found = volumes.iter().find(|found| found["name"] == volume)?;
    found["nbd_connections"].as_u64()
}

impl Chaos<'_> {
    /// Breaks things until `length` is over or Ctrl-C; a daemon is up on return.
    ///
    /// Errors: no daemon can be started, or one does what it must not.
    pub fn run(&mut self, length: Duration) -> Result<()> {
        let began = Instant::now();
        self.start()?;
        while began.elapsed() < length && !self.is_interrupted.load(SeqCst) {
            let is_killing = began.elapsed() < length.mul_f64(KILLING_PART);
            let pause_ms = if is_killing { 100..900 } else { 200..2000 };
            self.pause(pause_ms);
            if is_killing && self.rng.u32(..100) < 55 {
                if self.rng.u32(..3) == 0 {
                    self.terminate()?;
                } else {
                    self.kill()?;
                }
            } else {
                self.be_gentle()?;
            }
            let ended = self.daemon.as_mut().map(Daemon::ended).transpose()?;
            if let Some(status) = ended.flatten() {
                let tail = self.place.env.log_tail();
                return Err(
                    format!("the daemon ended by itself, {status}; its log:\n{tail}").into(),
                );
            }
        }
        Ok(())
    }

    fn be_gentle(&mut self) -> Result<()> {
        match self.rng.u32(..14) {
            0..3 => self.change_settings(),
            3..6 => self.fail_backing(),
            6 => self.second_daemon(),
            7 | 8 => self.hostile_nbd(),
            9 => self.hostile_control(),
            10 | 11 => self.guest_goes_and_comes(),
            12 => self.flush(),
            _ => self.out_of_range(),
        }
    }

    fn pause(&mut self, range_ms: Range<u64>) {
        let until = Instant::now() + Duration::from_millis(self.rng.u64(range_ms));
        while Instant::now() < until && !self.is_interrupted.load(SeqCst) {
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn ask(&self, request: &Request) -> Result<Value> {
        ask(self.place, request)
    }

    fn any_volume(&mut self) -> &'static str {
        VOLUMES[self.rng.usize(..VOLUMES.len())]
    }

    /// Everything that is dirty goes to the backings under load.
    fn flush(&mut self) -> Result<()> {
        self.tally.fault("flush_under_load");
        let volume = self.any_volume();
        self.ask(&Request::new("flush").with("volume", volume))?;
        Ok(())
    }

    fn change_settings(&mut self) -> Result<()> {
        self.tally.fault("settings_changed");
        let low = self.rng.u64(5..60);
        let high = self.rng.u64(low + 5..95);
        let rate = [0, 0, 64 << 20, 256 << 20][self.rng.usize(..4)];
        let verify = if self.rng.u32(..3) == 0 {
            "never"
        } else {
            "always"
        };
        let replacement = if self.rng.bool() { "sieve" } else { "lru" };
        let request = Request::new("set")
            .with("dirty_low", low)
            .with("dirty_high", high)
            .with("flush_rate", rate)
            .with("verify", verify)
            .with("replacement", replacement);
        let shown = self.ask(&request)?;
        if shown["dirty_low_per_mille"] != low * 10 || shown["replacement"] != replacement {
            self.tally.error(format!("set {request:?} came to {shown}"));
        }
        Ok(())
    }
}
