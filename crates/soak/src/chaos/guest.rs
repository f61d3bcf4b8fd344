//! A volume that is detached and attached while others are under load. What is detached is whole in
//! its backing without the pool: every byte of it is compared.

use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use forebay_serve::Request;

use super::{Chaos, ask};
use crate::Result;
use crate::nbd_client;
use crate::place::{GUEST, VOLUMES};
use crate::verify;

const PATIENCE: Duration = Duration::from_secs(60);

impl Chaos<'_> {
    /// Detaches the guest, compares it, attaches it.
    pub fn guest_goes_and_comes(&mut self) -> Result<()> {
        self.tally.fault("detached_and_attached");
        let (name, volume) = (VOLUMES[GUEST], &self.volumes[GUEST]);
        volume.is_paused.store(true, SeqCst);
        let result = self.without_clients(name);
        volume.is_paused.store(false, SeqCst);
        result
    }

    fn without_clients(&self, name: &str) -> Result<()> {
        let volume = &self.volumes[GUEST];
        let began = Instant::now();
        while volume.waiting.load(SeqCst) < volume.alive.load(SeqCst) {
            if self.is_interrupted.load(SeqCst) || began.elapsed() > PATIENCE {
                return Err("the clients of the guest do not close their doors".into());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let detach = Request::new("detach").with("volume", name);
        // The daemon sees the end of a connection a moment later than its client.
        while let Err(error) = ask(self.place, &detach) {
            if began.elapsed() > PATIENCE {
                return Err(format!("detach {name}: {error}").into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        if nbd_client::Client::open(&self.place.nbd(), name).is_ok() {
            self.tally.error(format!("{name} is detached and opens"));
        }
        verify::backing(self.place, self.tally, volume, "detached backing")?;
        let attach = Request::new("attach")
            .with("backing", self.place.backing(name).display().to_string())
            .with("name", name);
        ask(self.place, &attach)?;
        Ok(())
    }
}
