//! Asking the daemon that serves a pool, with progress on the terminal and Ctrl-C to call it off.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use forebay::{DrainProgress, RebuildProgress};
use forebay_serve::{Client, Request};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Deserialize;
use serde_json::{Value, json};
use signal_hook::consts::SIGINT;

use crate::failure::Failure;
use crate::{json_path, size};

/// Asks for something that may take long: shows how far it is, and calls it off on Ctrl-C.
///
/// # Errors
/// The daemon refuses, or it was called off.
pub fn ask_patiently(client: &mut Client, request: &Request) -> Result<Value, Failure> {
    let is_called_off = called_off_flag()?;
    let mut bar = WorkBar::default();
    let result = client.request(request, |progress| {
        bar.show(&progress);
        !is_called_off.load(Ordering::SeqCst)
    });
    bar.clear();
    Ok(result?)
}

/// Set by Ctrl-C from now on. The second one ends this process, in case the flag is not polled.
pub fn called_off_flag() -> Result<Arc<AtomicBool>, Failure> {
    let is_called_off = Arc::new(AtomicBool::new(false));
    let code = i32::from(Failure::Cancelled(String::new()).exit_code());
    signal_hook::flag::register_conditional_shutdown(SIGINT, code, Arc::clone(&is_called_off))?;
    signal_hook::flag::register(SIGINT, Arc::clone(&is_called_off))?;
    Ok(is_called_off)
}

/// What the bar shows of a report, whatever the work is.
#[derive(Default, Deserialize)]
#[serde(default)]
struct WorkReport {
    stage: String,
    bytes_left: u64,
    bytes_per_s: u64,
}

/// How far a drain is, for a client.
pub fn drain_report(drain: &DrainProgress) -> Value {
    let report = json!({
        "stage": "draining",
        "dirty_blocks": drain.dirty_blocks,
        "written_blocks": drain.written_blocks,
        "bytes_left": drain.dirty_blocks * u64::from(drain.block_bytes),
        "bytes_per_s": drain.bytes_per_second(),
    });
    json_path::with(report, "backing", drain.path.as_ref())
}

/// How often a rebuild is told of.
const REBUILD_INTERVAL: Duration = Duration::from_millis(100);

/// Tells of a rebuild, often enough for a bar and not as often as the rebuild itself does.
#[derive(Debug)]
pub struct RebuildReports {
    began: Instant,
    next: Instant,
}

impl RebuildReports {
    /// Of a rebuild that begins now.
    #[must_use]
    pub fn begin() -> RebuildReports {
        let began = Instant::now();
        RebuildReports { began, next: began }
    }

    /// How far it is, for a client; none if that was said just now.
    pub fn next(&mut self, progress: &RebuildProgress) -> Option<Value> {
        let now = Instant::now();
        if now < self.next {
            return None;
        }
        self.next = now + REBUILD_INTERVAL;
        Some(rebuild_report(progress, now - self.began))
    }
}

fn rebuild_report(progress: &RebuildProgress, took: Duration) -> Value {
    let bytes_left = progress.all_bytes.saturating_sub(progress.done_bytes);
    let bytes_per_s = (progress.done_bytes as f64 / took.as_secs_f64().max(1e-3)) as u64;
    json!({
        "stage": "rebuilding",
        "done_bytes": progress.done_bytes,
        "all_bytes": progress.all_bytes,
        "bytes_left": bytes_left,
        "bytes_per_s": bytes_per_s,
        "seconds_left": bytes_left.checked_div(bytes_per_s),
    })
}

/// A bar on standard error, where that is a terminal: how much of what was to be done is done.
#[derive(Default)]
pub struct WorkBar {
    bar: Option<ProgressBar>,
    most_bytes: u64,
}

impl WorkBar {
    /// Shows what [`drain_report`] or [`RebuildReports`] says.
    pub fn show(&mut self, progress: &Value) {
        let report = WorkReport::deserialize(progress).unwrap_or_default();
        let left_bytes = report.bytes_left;
        self.most_bytes = self.most_bytes.max(left_bytes);
        let bar = self.bar.get_or_insert_with(|| {
            let style = ProgressStyle::with_template("{prefix} [{bar:30}] {msg}");
            ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        bar.set_length(self.most_bytes);
        bar.set_position(self.most_bytes - left_bytes);
        bar.set_prefix(report.stage);
        bar.set_message(work_message(left_bytes, report.bytes_per_s));
    }

    /// Takes the bar away.
    pub fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// What is left, how fast it goes, and how long that takes.
fn work_message(left_bytes: u64, bytes_per_s: u64) -> String {
    let left = size::shown(left_bytes);
    match left_bytes.checked_div(bytes_per_s) {
        None => format!("{left} left"),
        Some(seconds) => format!(
            "{left} left, {}/s, about {}:{:02}",
            size::shown(bytes_per_s),
            seconds / 60,
            seconds % 60
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_said_with_the_time_it_takes() {
        assert_eq!(work_message(1 << 20, 0), "1.0 MiB left");
        assert_eq!(
            work_message(300 << 20, 2 << 20),
            "300.0 MiB left, 2.0 MiB/s, about 2:30"
        );
    }

    #[test]
    fn a_rebuild_says_what_is_left_and_when_that_will_be_done() {
        let mut progress = RebuildProgress::default();
        progress.all_bytes = 100 << 20;
        let report = rebuild_report(&progress, Duration::ZERO);
        assert_eq!(report["seconds_left"], Value::Null, "{report}");
        progress.done_bytes = 40 << 20;
        let report = rebuild_report(&progress, Duration::from_secs(4));
        assert_eq!(report["bytes_left"], 60 << 20, "{report}");
        assert_eq!(report["seconds_left"], 6, "{report}");
        let mut reports = RebuildReports::begin();
        assert!(reports.next(&progress).is_some());
        assert!(reports.next(&progress).is_none(), "just said");
    }
}
