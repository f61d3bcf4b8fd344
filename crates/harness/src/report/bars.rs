//! What is asked of numbers, and whether they are so.

use std::fmt;

use super::{Row, digits};

/// What a number has to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bar {
    /// No less.
    AtLeast(f64),
    /// No more.
    AtMost(f64),
    /// No less; it would be good if it were the second.
    AtLeastGoal(f64, f64),
    /// No more; it would be good if it were the second.
    AtMostGoal(f64, f64),
    /// As it comes.
    Reported,
}

impl Bar {
    /// What a value, or the lack of one, comes to.
    #[must_use]
    pub fn verdict(self, value: Option<f64>) -> &'static str {
        let is_met = match (self, value) {
            (_, None) => return "not measured",
            (Bar::Reported, _) => return "reported",
            (Bar::AtLeast(least) | Bar::AtLeastGoal(least, _), Some(value)) => value >= least,
            (Bar::AtMost(most) | Bar::AtMostGoal(most, _), Some(value)) => value <= most,
        };
        if is_met { "met" } else { "SHORT" }
    }
}

impl fmt::Display for Bar {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.pad(&match self {
            Bar::AtLeast(least) => format!("≥ {}", digits(*least)),
            Bar::AtMost(most) => format!("≤ {}", digits(*most)),
            Bar::AtLeastGoal(least, goal) => format!("≥ {} ({})", digits(*least), digits(*goal)),
            Bar::AtMostGoal(most, goal) => format!("≤ {} ({})", digits(*most), digits(*goal)),
            Bar::Reported => String::new(),
        })
    }
}

/// A line for a row that has a bar, or none.
#[must_use]
pub fn line(name: &str, row: Option<&Row>, bar: Option<Bar>) -> String {
    let value = row.and_then(|row| row.value);
    let shown = value.map_or("–".into(), digits);
    let unit = row.map_or("", |row| row.unit.as_str());
    let words = [
        bar.map_or(value.map_or("not measured", |_| ""), |bar| {
            bar.verdict(value)
        }),
        row.and_then(|row| row.note).unwrap_or(""),
    ];
    let words = words.into_iter().filter(|word| !word.is_empty());
    let words = words.collect::<Vec<_>>().join(", ");
    let bar = bar.unwrap_or(Bar::Reported);
    let line = format!("{name:<44} {shown:>12} {unit:<24} {bar:>16}  {words}");
    line.trim_end().to_owned() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_measured_and_what_is_noisy_says_so() {
        let bar = Some(Bar::AtLeastGoal(0.4, 0.6));
        let absent = Row::new("commit_1x4k_vs_raw", None, "ratio");
        for bar in [bar, None] {
            assert!(line("", Some(&absent), bar).ends_with("not measured\n"));
        }
        assert!(line("", None, bar).ends_with("not measured\n"));
        let row = Row::new("commit_1x4k_vs_raw", 0.5, "ratio").with_note(Some("noisy"));
        let told = line(&row.name, Some(&row), bar);
        assert!(told.ends_with("≥ 0.400 (0.600)  met, noisy\n"), "{told}");
        assert!(line("", Some(&row), Some(Bar::AtMost(0.4))).contains("SHORT"));
        assert!(line("", Some(&row), Some(Bar::Reported)).contains("reported"));
    }
}
