//! One number of all rounds. A ratio is the median of the ratios within the rounds: what slows a whole round down slows
//! both sides.

use std::collections::BTreeMap;

use forebay_harness::{Row, median};

/// By round.
#[derive(Clone, Debug, Default)]
pub struct Rounds(BTreeMap<usize, f64>);

impl Rounds {
    pub fn insert(&mut self, round: usize, value: f64) {
        self.0.insert(round, value);
    }

    pub fn median(&self) -> Option<f64> {
        median(self.0.values().copied().collect())
    }

    /// What this is of another in the rounds that both have.
    pub fn ratios_to(&self, base: &Rounds) -> Rounds {
        let in_both = self.0.iter().filter_map(|(round, value)| {
            let base = base.0.get(round)?;
            (*base > 0.0).then(|| (*round, value / base))
        });
        Rounds(in_both.collect())
    }

    /// The median of these.
    pub fn ratio_to(&self, base: &Rounds) -> Option<f64> {
        self.ratios_to(base).median()
    }

    /// The rows of a number: the median, and of several rounds the least and the most; of none no row.
    pub fn rows(&self, name: &str, unit: &str) -> Vec<Row> {
        let median = self.median().map(|median| Row::new(name, median, unit));
        let mut rows: Vec<Row> = median.into_iter().collect();
        if let Some((least, most)) = self.range().filter(|_| self.count() > 1) {
            rows.push(Row::new(format!("{name}_min"), least, unit));
            rows.push(Row::new(format!("{name}_max"), most, unit));
        }
        rows
    }

    /// The least and the most.
    pub fn range(&self) -> Option<(f64, f64)> {
        let values = self.0.values().copied();
        values.fold(None, |range, value| match range {
            None => Some((value, value)),
            Some((least, most)) => Some((value.min(least), value.max(most))),
        })
    }

    pub fn count(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_of_rounds_that_both_have() {
        let (mut ours, mut base) = (Rounds::default(), Rounds::default());
        for (round, value, under) in [(0, 90.0, 100.0), (1, 950.0, 1000.0), (2, 88.0, 110.0)] {
            ours.insert(round, value);
            base.insert(round, under);
        }
        ours.insert(3, 1.0);
        assert_eq!(ours.ratio_to(&base), Some(0.9));
        assert_eq!(
            (ours.median(), ours.range()),
            (Some(89.0), Some((1.0, 950.0)))
        );
        assert_eq!(ours.ratio_to(&Rounds::default()), None);
        let rows = ours.ratios_to(&base).rows("a_vs_b", "x");
        let told = rows.iter().map(|row| (row.name.as_str(), row.value));
        let wanted = [
            ("a_vs_b", Some(0.9)),
            ("a_vs_b_min", Some(0.8)),
            ("a_vs_b_max", Some(0.95)),
        ];
        assert_eq!(told.collect::<Vec<_>>(), wanted);
    }
}
