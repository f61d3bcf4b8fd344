//! Power that fails within what programs or the file system do: after so many steps they stop where they are, by unwinding.
//!
//! A step is an operation of a controller, once it is complete (§3.2: the battery lasts for the redundancy of what is written), or an access
//! of the file system's, before it is made.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// What unwinds.
struct PowerFails;

/// Counts steps.
#[derive(Debug, Default)]
pub struct Fuse {
    left: Option<u64>,
}

impl Fuse {
    /// Has power fail at the step after so many others.
    pub fn set(&mut self, steps: u64) {
        self.left = Some(steps);
    }

    /// Power does not fail any more.
    pub fn remove(&mut self) {
        self.left = None;
    }

    /// A step: power may fail.
    #[inline]
    pub fn step(&mut self) {
        if let Some(left) = &mut self.left {
            if *left == 0 {
                self.left = None;
                // No message: nothing is wrong.
                resume_unwind(Box::new(PowerFails));
            }
            *left -= 1;
        }
    }
}

/// What `run` returns; none if power failed within it.
pub fn until_power_fails<T>(run: impl FnOnce() -> T) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(value) => Some(value),
        Err(payload) if payload.is::<PowerFails>() => None,
        Err(payload) => resume_unwind(payload),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn power_fails_once_at_the_step_that_was_asked_for() {
        let mut fuse = Fuse::default();
        fuse.set(2);
        let mut steps = 0;
        let mut go_on = || {
            until_power_fails(|| {
                for _ in 0..5 {
                    fuse.step();
                    steps += 1;
                }
            })
        };
        assert_eq!(go_on(), None);
        assert_eq!(go_on(), Some(()));
        assert_eq!(steps, 2 + 5);
    }
}
