//! Asking the daemon that serves a pool, with progress on the terminal and Ctrl-C to call it off.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use forebay::DrainProgress;
use forebay_serve::{Client, Request};
use indicatif::{ProgressBar, ProgressStyle};
use serde::{Deserialize, Serialize};
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
    let mut bar = DrainBar::default();
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

/// How far a drain is, as the daemon tells it and the bar shows it.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct DrainReport {
    stage: Cow<'static, str>,
    dirty_blocks: u64,
    written_blocks: u64,
    bytes_left: u64,
    bytes_per_s: u64,
}

/// How far a drain is, for a client.
pub fn drain_report(drain: &DrainProgress) -> Value {
    let report = json!(DrainReport {
        stage: "draining".into(),
        dirty_blocks: drain.dirty_blocks,
        written_blocks: drain.written_blocks,
        bytes_left: drain.dirty_blocks * u64::from(drain.block_bytes),
        bytes_per_s: drain.bytes_per_second(),
    });
    json_path::with(report, "backing", drain.path.as_ref())
}

/// A bar on standard error, where that is a terminal: how much of what was dirty has gone.
#[derive(Default)]
pub struct DrainBar {
    bar: Option<ProgressBar>,
    most_bytes: u64,
}

impl DrainBar {
    /// Shows what [`drain_report`] says.
    pub fn show(&mut self, progress: &Value) {
        let report = DrainReport::deserialize(progress).unwrap_or_default();
        let left_bytes = report.bytes_left;
        self.most_bytes = self.most_bytes.max(left_bytes);
        let bar = self.bar.get_or_insert_with(|| {
            let style = ProgressStyle::with_template("{prefix} [{bar:30}] {msg}");
            ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        bar.set_length(self.most_bytes);
        bar.set_position(self.most_bytes - left_bytes);
        bar.set_prefix(report.stage);
        bar.set_message(drain_message(left_bytes, report.bytes_per_s));
    }

    /// Takes the bar away.
    pub fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// What is left, how fast it goes, and how long that takes.
fn drain_message(left_bytes: u64, bytes_per_s: u64) -> String {
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
        assert_eq!(drain_message(1 << 20, 0), "1.0 MiB left");
        assert_eq!(
            drain_message(300 << 20, 2 << 20),
            "300.0 MiB left, 2.0 MiB/s, about 2:30"
        );
    }
}
