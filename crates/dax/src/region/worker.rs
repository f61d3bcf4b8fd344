//! The thread that makes a pass each period.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::engine::Engine;
use crate::error::Result;
use crate::repeating::Repeating;

/// A pass each period, until what is returned is dropped.
pub(super) fn start(engine: Arc<Engine>, period: Duration) -> Result<Repeating> {
    let path = engine.medium.parts[0].path.clone();
    let what = "start the thread of its passes";
    Repeating::start("forebay-dax", what, &path, move |stop| {
        let mut rest = period;
        while stop.wait(rest) {
            let begun = Instant::now();
            // What fails is in the status, and the next pass tries again.
            let _ = engine.pass();
            // A period is from one pass's beginning to the next one's: a page waits for no more than that and a pass. Passes
            // that are slow leave the program some of the time.
            rest = period.saturating_sub(begun.elapsed()).max(period / 4);
        }
    })
}
