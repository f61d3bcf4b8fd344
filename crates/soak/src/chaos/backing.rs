//! Backings that fail for a while and come back.

use std::time::{Duration, Instant};

use forebay_serve::Request;

use super::Chaos;
use forebay_harness::Result;

/// Write-back tries again with growing pauses.
const DEGRADED_DEADLINE: Duration = Duration::from_secs(90);

impl Chaos<'_> {
    /// Reads, writes or syncs of one backing fail. Writers must not notice unless the pool is full;
    /// nothing may be lost.
    pub fn fail_backing(&mut self) -> Result<()> {
        let (name, what) = match self.rng.u32(..5) {
            0 => ("backing_reads_fail", "reads"),
            1 | 2 => ("backing_syncs_fail", "syncs"),
            _ => ("backing_writes_fail", "writes"),
        };
        let volume = self.any_volume();
        let fault = |count: u64| {
            Request::new("fault")
                .with("fault", "fail-backing")
                .with("volume", volume)
                .with(what, count)
        };
        self.tally.fault(name);
        self.tally.open_fault();
        // Often a few, sometimes all that come.
        let count = if self.rng.u32(..3) == 0 {
            u64::MAX
        } else {
            self.rng.u64(1..20)
        };
        self.ask(&fault(count))?;
        self.pause(100..1200);
        self.ask(&fault(0))?;
        self.wait_until_healthy()?;
        self.tally.close_fault();
        Ok(())
    }

    fn wait_until_healthy(&mut self) -> Result<()> {
        let began = Instant::now();
        while began.elapsed() < DEGRADED_DEADLINE {
            let stat = self.ask(&Request::new("stat"))?;
            if stat["degraded_volumes"] == 0 && stat["waiting_writers"] == 0 {
                return Ok(());
            }
            self.pause(40..60);
        }
        self.tally
            .error("a backing that works again is still degraded".into());
        Ok(())
    }
}
