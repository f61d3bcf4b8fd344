//! Failures and progress of the daemon's work, as the client of the control socket sees them.

use std::ops::ControlFlow;

use forebay::DrainProgress;
use forebay_command::{Failure, progress};
use forebay_serve::control::Progress;
use forebay_serve::{Refusal, RefusalKind};

/// A failure of the daemon's own work, as the client sees it.
pub(super) fn refusal(failure: Failure) -> Refusal {
    let kind = match &failure {
        Failure::InUse(_) => RefusalKind::InUse,
        Failure::Arguments(_) => RefusalKind::Invalid,
        Failure::Stale(_) => RefusalKind::Stale,
        Failure::Cancelled(_) => RefusalKind::Cancelled,
        _ => RefusalKind::Failed,
    };
    Refusal::new(kind, failure.to_string())
}

/// The cache's error, as the client sees it.
pub(super) fn core_refusal(error: forebay::Error) -> Refusal {
    let kind = match error.kind() {
        forebay::ErrorKind::Cancelled { .. } => RefusalKind::Cancelled,
        _ => RefusalKind::Failed,
    };
    Refusal::new(kind, error.to_string())
}

/// Tells the client how far a drain is, and stops the drain when the client went away.
pub(super) fn watch(progress: &mut dyn Progress, drain: &DrainProgress) -> ControlFlow<()> {
    match progress.report(progress::drain_report(drain)) {
        Ok(()) => ControlFlow::Continue(()),
        Err(_) => ControlFlow::Break(()),
    }
}
