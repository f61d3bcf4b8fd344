//! The thread that makes a pass each period.

use std::sync::Arc;
use std::time::Duration;

use crate::engine::Engine;
use crate::error::Result;
use crate::repeating::Repeating;

/// A pass each period, until what is returned is dropped.
pub(super) fn start(engine: Arc<Engine>, period: Duration) -> Result<Repeating> {
    let path = engine.medium.parts[0].path.clone();
    let what = "start the thread of its passes";
    Repeating::start("forebay-dax", what, &path, move |stop| {
        while stop.wait(period) {
            // What fails is in the status, and the next pass tries again.
            let _ = engine.pass();
        }
    })
}
