//! Scrubs of the pool on request: one at a time, by a thread of its own, while the disks are served.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use forebay::{Pool, ScrubOptions, ScrubProgress, ScrubReport, VerifyPolicy};
use forebay_serve::{Refusal, RefusalKind};
use parking_lot::Mutex;
use serde_json::{Value, json};

/// What a scrub of a pool on an SSD is told.
const NOT_SCRUBBED: &str = "a pool on an SSD is not scrubbed: every read compares the block with its checksum, and forebay check \
     reads all of them while no daemon serves it";
/// How often the pool is scrubbed unasked where reads do not verify, and how fast.
const DUE_AFTER: Duration = Duration::from_secs(24 * 60 * 60);
const DUE_RATE_BYTES_S: u64 = 100 << 20;
/// So long after one that was stopped, or failed, none begins unasked.
const PAUSE: Duration = Duration::from_secs(60 * 60);

/// How a scrub stands.
#[derive(Default)]
enum Stage {
    /// There was none since the daemon began.
    #[default]
    Never,
    /// It is under way.
    Running,
    /// It looked at everything.
    Done(ScrubReport),
    /// It was stopped before that.
    Stopped(ScrubReport),
    /// The pool failed.
    Failed(String),
}

/// What is known of the last scrub.
#[derive(Default)]
struct Known {
    stage: Stage,
    progress: ScrubProgress,
    /// What an earlier one had done, on which this one goes on.
    resumed_slots: Option<u64>,
    began: Option<Instant>,
    took: Duration,
    ended: Option<Instant>,
}

/// The last scrub, and the thread that does it.
#[derive(Default)]
pub struct Scrub {
    known: Arc<Mutex<Known>>,
    is_stopping: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Scrub {
    /// Begins a scrub, unless one is under way.
    ///
    /// # Errors
    /// There is no room for a thread.
    pub fn start(&self, pool: &Arc<Pool>, options: ScrubOptions) -> Result<Value, Refusal> {
        if pool.is_ssd() {
            return Err(Refusal::new(RefusalKind::Invalid, NOT_SCRUBBED));
        }
        let mut thread = self.thread.lock();
        if thread.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return Ok(self.told(false, pool));
        }
        self.is_stopping.store(false, Ordering::Relaxed);
        *self.known.lock() = Known {
            stage: Stage::Running,
            began: Some(Instant::now()),
            ..Known::default()
        };
        let (known, is_stopping) = (Arc::clone(&self.known), Arc::clone(&self.is_stopping));
        let scrubbed = Arc::clone(pool);
        let spawned = std::thread::Builder::new()
            .name("scrub".into())
            .spawn(move || scrub(&scrubbed, &options, &known, &is_stopping));
        match spawned {
            Ok(spawned) => *thread = Some(spawned),
            Err(error) => {
                let message = format!("no thread for the scrub: {error}");
                self.known.lock().stage = Stage::Failed(message.clone());
                return Err(Refusal::new(RefusalKind::Failed, message));
            }
        }
        Ok(self.told(true, pool))
    }

    /// Begins one unasked where reads leave it to scrubs to find what is wrong, and the last whole one is long ago.
    pub fn start_if_due(&self, pool: &Arc<Pool>) {
        let unverified = || pool.stats().unverified;
        let is_due = || unverified().is_none_or(|unverified| unverified >= DUE_AFTER);
        let rests = || {
            let known = self.known.lock();
            let is_running = matches!(known.stage, Stage::Running);
            is_running || known.ended.is_some_and(|ended| ended.elapsed() < PAUSE)
        };
        if pool.verify() == VerifyPolicy::Scrub && !rests() && is_due() {
            let options = ScrubOptions::default().rate_bytes_s(Some(DUE_RATE_BYTES_S));
            // Without a thread for it there is none for a while; the status says so.
            drop(self.start(pool, options.resume(true)));
        }
    }

    /// Ends the scrub that is under way, and waits until it has ended.
    pub fn stop(&self, pool: &Pool) -> Value {
        let mut thread = self.thread.lock();
        let was_running = thread.as_ref().is_some_and(|thread| !thread.is_finished());
        self.is_stopping.store(true, Ordering::Relaxed);
        if let Some(thread) = thread.take() {
            // One that panicked has said so.
            drop(thread.join());
        }
        self.told(was_running, pool)
    }

    /// How it stands.
    pub fn status(&self, pool: &Pool) -> Value {
        let known = self.known.lock();
        let (word, report) = match &known.stage {
            Stage::Never => ("never", None),
            Stage::Running => ("running", None),
            Stage::Done(report) => ("done", Some(report)),
            Stage::Stopped(report) => ("stopped", Some(report)),
            Stage::Failed(_) => ("failed", None),
        };
        let error = match &known.stage {
            Stage::Failed(error) => Some(error),
            _ => None,
        };
        let took = match (&known.stage, known.began) {
            (Stage::Running, Some(began)) => began.elapsed(),
            _ => known.took,
        };
        let progress = &known.progress;
        json!({
            "state": word,
            "done_slots": progress.done_slots,
            "all_slots": progress.all_slots,
            "seconds_left": seconds_left(&known, took),
            "found": progress.found,
            "repaired": progress.repaired,
            "lost": progress.lost,
            "dropped": report.map(|report| report.dropped),
            "moved": report.map(|report| report.moved),
            "transient": report.map(|report| report.transient),
            "took_ms": took.as_millis() as u64,
            "ended_s_ago": known.ended.map(|ended| ended.elapsed().as_secs()),
            "unverified_s": pool.stats().unverified.map(|unverified| unverified.as_secs()),
            "error": error,
        })
    }

    fn told(&self, is_changed: bool, pool: &Pool) -> Value {
        let mut status = self.status(pool);
        status["changed"] = is_changed.into();
        status
    }
}

fn seconds_left(known: &Known, took: Duration) -> Option<u64> {
    let ScrubProgress {
        done_slots,
        all_slots,
        ..
    } = known.progress;
    let done_now = done_slots.saturating_sub(known.resumed_slots?);
    let is_told = matches!(known.stage, Stage::Running) && done_now > 0;
    let left = all_slots.saturating_sub(done_slots) as f64;
    is_told.then(|| (took.as_secs_f64() * left / done_now as f64) as u64)
}

fn scrub(pool: &Pool, options: &ScrubOptions, known: &Mutex<Known>, is_stopping: &AtomicBool) {
    let scrubbed = pool.scrub(options, &mut |progress| {
        {
            let mut known = known.lock();
            known.resumed_slots.get_or_insert(progress.done_slots);
            known.progress = progress;
        }
        match is_stopping.load(Ordering::Relaxed) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    let mut known = known.lock();
    known.took = known.began.map_or(Duration::ZERO, |began| began.elapsed());
    known.ended = Some(Instant::now());
    known.stage = match scrubbed {
        Ok(report) => {
            known.progress.found = report.found;
            known.progress.repaired = report.repaired;
            known.progress.lost = report.lost;
            let (found, repaired, lost) = (report.found, report.repaired, report.lost);
            let (dropped, moved) = (report.dropped, report.moved);
            match found {
                0 => tracing::info!(whole = report.is_whole, "scrubbed: everything is right"),
                _ => {
                    let whole = report.is_whole;
                    tracing::warn!(whole, found, repaired, dropped, moved, lost, "scrubbed");
                }
            }
            match report.is_whole {
                true => Stage::Done(report),
                false => Stage::Stopped(report),
            }
        }
        Err(error) => {
            tracing::error!(%error, "the scrub ended");
            Stage::Failed(error.to_string())
        }
    };
}
