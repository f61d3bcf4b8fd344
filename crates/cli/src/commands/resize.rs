//! `forebay resize`: a pool that no process serves grows here, a disk grows in the daemon.

use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

use forebay::{DrainProgress, Pool};
use forebay_command::progress::WorkBar;
use forebay_command::{Failure, output, progress};
use forebay_serve::Request;
use serde_json::json;

use crate::arguments::ResizeOptions;
use crate::requests::GrowVolume;
use crate::{control, idle_pool};

/// Grows what was named.
pub fn run(options: &ResizeOptions) -> Result<(), Failure> {
    let Some(volume) = &options.volume else {
        return grow_pool(options);
    };
    let grow = GrowVolume {
        volume: volume.clone(),
    };
    let result = control::ask(&options.pool[0], &Request::of(&grow))?;
    output::object(&result, options.json);
    Ok(())
}

fn grow_pool(options: &ResizeOptions) -> Result<(), Failure> {
    let size_bytes = options.size.unwrap_or_default();
    let is_called_off = progress::called_off_flag()?;
    let mut bar = WorkBar::default();
    let mut watcher = |drain: &DrainProgress| {
        bar.show(&progress::drain_report(drain));
        if is_called_off.load(Ordering::SeqCst) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    let (present, _) = idle_pool::split(&options.pool);
    let grown = Pool::grow(&present, size_bytes, &mut watcher);
    bar.clear();
    grown?;
    let report = json!({"pool": options.pool, "member_bytes": size_bytes});
    output::object(&report, options.json);
    Ok(())
}
