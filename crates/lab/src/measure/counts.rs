//! One engine with one workload, as a row.

use forebay_harness::median;
use serde::Serialize;

use super::{Measurement, Spread, Standing};
use crate::engines::EngineName;

/// One engine with one workload, the middle of its runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CountsRow {
    /// The engine's name.
    pub engine: String,
    /// The workload's name.
    pub workload: String,
    /// [`Measurement::lines_per_write`].
    pub lines_per_write: f64,
    /// [`Measurement::fences_per_write`].
    pub fences_per_write: f64,
    /// [`Measurement::nvm_bytes_per_payload_byte`].
    pub nvm_bytes_per_payload_byte: f64,
    /// [`Measurement::disk_blocks_per_write`].
    pub disk_blocks_per_write: f64,
    /// [`Measurement::hit_ratio`].
    pub hit_ratio: f64,
    /// [`Measurement::ops_per_s`].
    pub ops_per_s: f64,
    /// The lowest of the runs.
    pub ops_per_s_least: f64,
    /// The highest of the runs.
    pub ops_per_s_most: f64,
    /// The same with the cleaner that all designs have in common, as are all that follow.
    pub ops_per_s_cleaner: f64,
    /// The lowest of the runs.
    pub ops_per_s_cleaner_least: f64,
    /// The highest of the runs.
    pub ops_per_s_cleaner_most: f64,
    /// [`Measurement::lines_per_write`].
    pub lines_per_write_cleaner: f64,
    /// [`Measurement::fences_per_write`].
    pub fences_per_write_cleaner: f64,
    /// [`Measurement::disk_blocks_per_write`].
    pub disk_blocks_per_write_cleaner: f64,
    /// [`Measurement::hit_ratio`].
    pub hit_ratio_cleaner: f64,
    /// [`Measurement::ops_per_s`] of each round; none of one that failed.
    pub ops_per_s_runs: Vec<Option<f64>>,
    /// The same with the cleaner.
    pub ops_per_s_cleaner_runs: Vec<Option<f64>>,
    /// Of Forebay, where it stands among the others.
    #[serde(flatten)]
    pub standing: Option<Standing>,
    /// How many runs there were of each.
    pub runs: usize,
    /// Others used the processors meanwhile, so that the throughput says little.
    pub is_loaded: bool,
}

impl CountsRow {
    /// The row of a cell that was measured so often, and of the same with the cleaner: of each number the middle. None if one
    /// of the two never was.
    #[must_use]
    pub fn new(
        engine: EngineName,
        workload: &str,
        printed: &[Option<&Measurement>],
        cleaned: &[Option<&Measurement>],
    ) -> Option<CountsRow> {
        let (printed_runs, cleaned_runs) = (speeds(printed), speeds(cleaned));
        let of = |runs: &[Option<f64>]| Spread::of(runs.iter().copied().flatten().collect());
        let (speed, cleaned_speed) = (of(&printed_runs)?, of(&cleaned_runs)?);
        Some(CountsRow {
            engine: engine.to_string(),
            workload: workload.to_string(),
            lines_per_write: middle(printed, Measurement::lines_per_write)?,
            fences_per_write: middle(printed, Measurement::fences_per_write)?,
            nvm_bytes_per_payload_byte: middle(printed, Measurement::nvm_bytes_per_payload_byte)?,
            disk_blocks_per_write: middle(printed, Measurement::disk_blocks_per_write)?,
            hit_ratio: middle(printed, Measurement::hit_ratio)?,
            ops_per_s: speed.median,
            ops_per_s_least: speed.least,
            ops_per_s_most: speed.most,
            ops_per_s_cleaner: cleaned_speed.median,
            ops_per_s_cleaner_least: cleaned_speed.least,
            ops_per_s_cleaner_most: cleaned_speed.most,
            lines_per_write_cleaner: middle(cleaned, Measurement::lines_per_write)?,
            fences_per_write_cleaner: middle(cleaned, Measurement::fences_per_write)?,
            disk_blocks_per_write_cleaner: middle(cleaned, Measurement::disk_blocks_per_write)?,
            hit_ratio_cleaner: middle(cleaned, Measurement::hit_ratio)?,
            runs: printed_runs.iter().flatten().count(),
            ops_per_s_runs: printed_runs,
            ops_per_s_cleaner_runs: cleaned_runs,
            standing: None,
            is_loaded: false,
        })
    }
}

impl CountsRow {
    /// Says of each row of Forebay's where it stands among the rows of its workload; of none that has a loaded one among them.
    pub fn note_standings(rows: &mut [CountsRow]) {
        let standings: Vec<Option<Standing>> = rows.iter().map(|row| row.among(rows)).collect();
        for (row, standing) in rows.iter_mut().zip(standings) {
            row.standing = standing;
        }
    }

    fn among(&self, rows: &[CountsRow]) -> Option<Standing> {
        let forebay = EngineName::Forebay.as_str();
        let of_workload = || rows.iter().filter(|row| row.workload == self.workload);
        if self.engine != forebay || of_workload().any(|row| row.is_loaded) {
            return None;
        }
        let others = of_workload().filter(|row| row.engine != forebay);
        let forms = others.flat_map(|row| {
            let cleaned = format!("{} with the cleaner", row.engine);
            [
                (row.engine.clone(), &*row.ops_per_s_runs),
                (cleaned, &*row.ops_per_s_cleaner_runs),
            ]
        });
        Standing::among(&self.ops_per_s_cleaner_runs, forms)
    }
}

#[cfg(test)]
impl CountsRow {
    /// A row of nothing, for tests.
    pub(crate) fn blank(engine: EngineName, workload: &str) -> CountsRow {
        let nothing = [Some(&Measurement::default())];
        CountsRow::new(engine, workload, &nothing, &nothing).expect("a run")
    }
}

fn middle(runs: &[Option<&Measurement>], number: fn(&Measurement) -> f64) -> Option<f64> {
    median(
        runs.iter()
            .flatten()
            .map(|measured| number(measured))
            .collect(),
    )
}

fn speeds(runs: &[Option<&Measurement>]) -> Vec<Option<f64>> {
    let speed = |run: &Option<&Measurement>| run.map(Measurement::ops_per_s);
    runs.iter().map(speed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_divided_by_themselves_and_the_least_ratio_counts() {
        let row = |engine: EngineName, printed: [f64; 3], cleaned: [f64; 3]| CountsRow {
            ops_per_s_runs: printed.map(Some).into(),
            ops_per_s_cleaner_runs: cleaned.map(Some).into(),
            ..CountsRow::blank(engine, "tpcc")
        };
        let mut rows = [
            row(EngineName::Tinca, [50.0, 100.0, 40.0], [1.0; 3]),
            row(EngineName::Spindle, [1.0; 3], [60.0, 50.0, 30.0]),
            row(EngineName::Forebay, [1.0; 3], [100.0, 120.0, 60.0]),
        ];
        CountsRow::note_standings(&mut rows);
        assert_eq!((&rows[0].standing, &rows[1].standing), (&None, &None));
        let standing = rows[2].standing.as_ref().expect("ours");
        assert_eq!(standing.fastest_other, "tinca");
        let ratios = (
            standing.ops_per_s_vs_fastest_least,
            standing.ops_per_s_vs_fastest,
            standing.ops_per_s_vs_fastest_most,
        );
        assert_eq!(ratios, (1.2, 1.5, 2.0));
        rows[1].is_loaded = true;
        CountsRow::note_standings(&mut rows);
        assert_eq!(rows[2].standing, None, "the fastest is not known");
    }
}
