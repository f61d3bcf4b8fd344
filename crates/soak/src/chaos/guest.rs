//! A volume that is detached and attached while others are under load. What is detached is whole in
//! its backing without the pool: every byte of it is compared.

use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use forebay_serve::Request;

use super::{Chaos, ask};
use crate::place::{GUEST, VOLUMES};
use crate::worker::Volume;
use forebay_harness::Result;
use forebay_harness::nbd;

const PATIENCE: Duration = Duration::from_secs(60);

impl Chaos<'_> {
    /// Detaches the guest, compares it, attaches it.
    pub fn guest_goes_and_comes(&mut self) -> Result<()> {
        self.tally.fault("detached_and_attached");
        self.without_clients(GUEST, |chaos| chaos.detach_and_attach(VOLUMES[GUEST]))
    }

    /// Has the clients of a volume close their front ends meanwhile; they know then of every request what
    /// became of it.
    pub fn without_clients(
        &mut self,
        volume: usize,
        act: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        let volume = &self.volumes[volume];
        volume.is_paused.store(true, SeqCst);
        let result = self.wait_for_clients(volume).and_then(|()| act(self));
        volume.is_paused.store(false, SeqCst);
        result
    }

    fn wait_for_clients(&self, volume: &Volume) -> Result<()> {
        let began = Instant::now();
        while volume.waiting.load(SeqCst) < volume.alive.load(SeqCst) {
            if self.is_interrupted.load(SeqCst) || began.elapsed() > PATIENCE {
                let name = &volume.name;
                return Err(format!("the clients of {name} do not close their front_ends").into());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    fn detach_and_attach(&self, name: &str) -> Result<()> {
        let began = Instant::now();
        let detach = Request::new("detach").with("volume", name);
        // The daemon sees the end of a connection a moment later than its client.
        while let Err(error) = ask(self.place, &detach) {
            if began.elapsed() > PATIENCE {
                return Err(format!("detach {name}: {error}").into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        if nbd::Client::open(&self.place.nbd(), name).is_ok() {
            self.tally.error(format!("{name} is detached and opens"));
        }
        let volume = &self.volumes[GUEST];
        self.place.compare(self.tally, volume, "detached backing")?;
        let attach = Request::new("attach")
            .with("backing", self.place.backing(name).display().to_string())
            .with("name", name);
        ask(self.place, &attach)?;
        Ok(())
    }
}
