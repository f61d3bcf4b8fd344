//! Which measurements are made again because others used the processors meanwhile.

use super::runs::is_disturbed;

/// How often one cell is measured again in a round.
const MOST_OF_A_CELL: u32 = 2;
/// One measurement of so many may be repeated: on a machine that is never quiet everything takes a quarter longer, not thrice as
/// long.
const MEASUREMENTS_FOR_A_REPEAT: u32 = 4;
/// Repeats that the first measurements have.
const REPEATS_AT_FIRST: u32 = 4;

/// How many measurements were made, and how many of them again.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Repeats {
    measured: u32,
    repeated: u32,
}

impl Repeats {
    /// A measurement is about to be made for the first time.
    pub(super) fn begin(&mut self) {
        self.measured += 1;
    }

    /// Whether to make a measurement once more that was made again `before` times, and during which others took so many processors at
    /// most; if so, it is counted. What came out plays no part, so nothing is chosen by it.
    pub(super) fn is_due(&mut self, others: Option<f64>, before: u32) -> bool {
        let allowed = REPEATS_AT_FIRST + self.measured / MEASUREMENTS_FOR_A_REPEAT;
        let is_due = is_disturbed(others) && before < MOST_OF_A_CELL && self.repeated < allowed;
        self.repeated += u32::from(is_due);
        is_due
    }

    /// How many were made again.
    pub(super) fn count(&self) -> u32 {
        self.repeated
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_machine_repeats_a_quarter_of_its_measurements() {
        let mut repeats = Repeats::default();
        for _ in 0..400 {
            repeats.begin();
            let mut before = 0;
            while repeats.is_due(Some(0.7), before) {
                before += 1;
            }
            assert!(before <= MOST_OF_A_CELL);
        }
        assert_eq!(repeats.count(), REPEATS_AT_FIRST + 100);
    }

    #[test]
    fn what_nobody_disturbed_is_measured_once() {
        let mut repeats = Repeats::default();
        repeats.begin();
        assert!(!repeats.is_due(Some(0.1), 0));
        assert!(!repeats.is_due(None, 0));
        assert_eq!(repeats.count(), 0);
    }
}
