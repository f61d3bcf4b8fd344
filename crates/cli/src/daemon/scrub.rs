//! Scrubs of the pool on request: one at a time, by a thread of its own, while the disks are served.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use forebay::{Pool, ScrubOptions, ScrubProgress, ScrubReport};
use forebay_serve::{Refusal, RefusalKind};
use parking_lot::Mutex;
use serde_json::{Value, json};

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
    pub fn start(&self, pool: &Arc<Pool>, rate_bytes_s: Option<u64>) -> Result<Value, Refusal> {
        let mut thread = self.thread.lock();
        if thread.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return Ok(self.told(false));
        }
        self.is_stopping.store(false, Ordering::Relaxed);
        *self.known.lock() = Known {
            stage: Stage::Running,
            began: Some(Instant::now()),
            ..Known::default()
        };
        let (known, is_stopping) = (Arc::clone(&self.known), Arc::clone(&self.is_stopping));
        let pool = Arc::clone(pool);
        let options = ScrubOptions::default().rate_bytes_s(rate_bytes_s);
        let spawned = std::thread::Builder::new()
            .name("scrub".into())
            .spawn(move || scrub(&pool, &options, &known, &is_stopping));
        match spawned {
            Ok(spawned) => *thread = Some(spawned),
            Err(error) => {
                let message = format!("no thread for the scrub: {error}");
                self.known.lock().stage = Stage::Failed(message.clone());
                return Err(Refusal::new(RefusalKind::Failed, message));
            }
        }
        Ok(self.told(true))
    }

    /// Ends the scrub that is under way, and waits until it has ended.
    pub fn stop(&self) -> Value {
        let mut thread = self.thread.lock();
        let was_running = thread.as_ref().is_some_and(|thread| !thread.is_finished());
        self.is_stopping.store(true, Ordering::Relaxed);
        if let Some(thread) = thread.take() {
            // One that panicked has said so.
            drop(thread.join());
        }
        self.told(was_running)
    }

    /// How it stands.
    pub fn status(&self) -> Value {
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
            "seconds_left": seconds_left(&known.stage, progress, took),
            "found": progress.found,
            "repaired": progress.repaired,
            "lost": progress.lost,
            "dropped": report.map(|report| report.dropped),
            "transient": report.map(|report| report.transient),
            "took_ms": took.as_millis() as u64,
            "ended_s_ago": known.ended.map(|ended| ended.elapsed().as_secs()),
            "error": error,
        })
    }

    fn told(&self, is_changed: bool) -> Value {
        let mut status = self.status();
        status["changed"] = is_changed.into();
        status
    }
}

fn seconds_left(stage: &Stage, progress: &ScrubProgress, took: Duration) -> Option<u64> {
    let is_running = matches!(stage, Stage::Running) && progress.done_slots > 0;
    let left = progress.all_slots.saturating_sub(progress.done_slots) as f64;
    is_running.then(|| (took.as_secs_f64() * left / progress.done_slots as f64) as u64)
}

fn scrub(pool: &Pool, options: &ScrubOptions, known: &Mutex<Known>, is_stopping: &AtomicBool) {
    let scrubbed = pool.scrub(options, &mut |progress| {
        known.lock().progress = progress;
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
            match found {
                0 => tracing::info!(whole = report.is_whole, "scrubbed: everything is right"),
                _ => tracing::warn!(whole = report.is_whole, found, repaired, lost, "scrubbed"),
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
