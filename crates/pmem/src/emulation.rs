//! Delays that make memory as slow as another medium, spun on the time stamp counter.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::EmulatedMedia;

/// Pauses in force.
static PAUSES: AtomicUsize = AtomicUsize::new(0);

/// While it lives, no region of this process waits for its emulated medium: for preparations whose
/// time is not measured.
#[must_use = "the delays are back when it is dropped"]
pub struct EmulationPause(());

/// Pauses the delays of all emulated media.
pub fn pause_emulation() -> EmulationPause {
    PAUSES.fetch_add(1, Ordering::Relaxed);
    EmulationPause(())
}

impl Drop for EmulationPause {
    fn drop(&mut self) {
        PAUSES.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The delays of one region, in ticks of the clock that [`ticks`] reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delays {
    read_ticks_per_line: u64,
    write_ticks_per_line: u64,
}

impl Delays {
    /// `None` where the medium asks for no delay.
    pub(crate) fn new(media: EmulatedMedia) -> Option<Delays> {
        if media.read_ns_per_line() == 0 && media.write_ns_per_line() == 0 {
            return None;
        }
        let ticks_per_us = clock::ticks_per_us();
        Some(Delays {
            read_ticks_per_line: media.read_ns_per_line() * ticks_per_us / 1000,
            write_ticks_per_line: media.write_ns_per_line() * ticks_per_us / 1000,
        })
    }

    pub(crate) fn spin_read(&self, lines: u64) {
        spin(self.read_ticks_per_line * lines);
    }

    pub(crate) fn spin_write(&self, lines: u64) {
        spin(self.write_ticks_per_line * lines);
    }
}

fn spin(ticks: u64) {
    if PAUSES.load(Ordering::Relaxed) > 0 {
        return;
    }
    let start = clock::ticks();
    while clock::ticks().wrapping_sub(start) < ticks {
        std::hint::spin_loop();
    }
}

#[cfg(target_arch = "x86_64")]
mod clock {
    #![allow(unsafe_code, reason = "the time stamp counter is read by an intrinsic")]

    use std::sync::OnceLock;
    use std::time::{Duration, Instant};

    pub(super) fn ticks() -> u64 {
        // SAFETY: RDTSC is there on every x86-64 processor and touches no memory.
        unsafe { std::arch::x86_64::_rdtsc() }
    }

    /// Measured against the system's clock, once: not every processor states its rate.
    pub(super) fn ticks_per_us() -> u64 {
        static RATE: OnceLock<u64> = OnceLock::new();
        *RATE.get_or_init(|| {
            let (start, start_ticks) = (Instant::now(), ticks());
            while start.elapsed() < Duration::from_millis(10) {
                std::hint::spin_loop();
            }
            let elapsed_us = start.elapsed().as_micros() as u64;
            (ticks().wrapping_sub(start_ticks) / elapsed_us).max(1)
        })
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod clock {
    use std::sync::OnceLock;
    use std::time::Instant;

    pub(super) fn ticks() -> u64 {
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed().as_nanos() as u64
    }

    pub(super) fn ticks_per_us() -> u64 {
        1000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_as_fast_as_memory_cost_nothing() {
        assert!(Delays::new(EmulatedMedia::None).is_none());
        assert!(Delays::new(EmulatedMedia::Nvdimm).is_none());
        let delays = Delays::new(EmulatedMedia::Pcm).unwrap();
        assert!(delays.write_ticks_per_line > delays.read_ticks_per_line);
        assert!(delays.read_ticks_per_line > 0);
    }

    #[test]
    fn a_pause_costs_no_time_and_ends() {
        let delays = Delays::new(EmulatedMedia::Pcm).unwrap();
        let start = std::time::Instant::now();
        let pause = pause_emulation();
        delays.spin_write(1 << 30);
        drop(pause);
        assert!(
            start.elapsed().as_secs() < 60,
            "the lines would take minutes"
        );
        let start = std::time::Instant::now();
        delays.spin_write(10_000);
        assert!(start.elapsed().as_micros() >= 1000);
    }
}
