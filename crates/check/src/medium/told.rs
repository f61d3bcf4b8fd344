//! What campaigns say alike, whatever lies over the media.

use std::fmt::Display;

/// What went wrong is told so often.
const TOLD_MAX: usize = 200;

/// Tells trials that failed, and how each is run again; `of` is what follows `faults` on the command line.
pub fn violations<T: Display>(of: &str, all: &[(u64, T)]) {
    for (number, text) in all.iter().take(TOLD_MAX) {
        println!("VIOLATION: {text}\n  replay with: forebay-verify faults{of} --replay {number}");
    }
}

/// Tells what came of a trial that was run again; true if nothing was wrong.
pub fn verdict(number: u64, wrong: Option<impl Display>) -> bool {
    match &wrong {
        None => println!("{number}: nothing is violated"),
        Some(text) => println!("{number}: VIOLATION: {text}"),
    }
    wrong.is_none()
}
