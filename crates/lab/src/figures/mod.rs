//! The papers' figures: what each shows, which cells it needs, and by which name it is asked for.
//!
//! A figure is a plan: series over places, each crossing a cell. Figures that cross the same
//! cell share its measurement, which is made once a run.

mod catalogue;
mod charts;
mod compare;
mod counts_page;
mod figure;
mod losses;
mod markdown;
mod output;
mod page;
mod reasons;
mod report;
mod result;
mod setting;
mod spindle;
mod study;
#[cfg(test)]
mod testing;
mod tinca;
mod verdicts;

use forebay::{ErrorKind, Result};

pub use counts_page::to_text as rows_to_text;
pub use figure::{Figure, Paper, Plan, PlannedSeries};
pub use markdown::{filled, verdicts_to_markdown};
pub use result::{FigureResult, SeriesResult};
pub use setting::Setting;

use crate::elsewhere::Reports;
use crate::experiments::Scope;
use crate::measure::CountsRow;

/// What a run found.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    /// What it covered.
    pub scope: &'a Scope,
    /// Where and when.
    pub setting: &'a Setting,
    /// The figures, measured.
    pub results: &'a [FigureResult],
    /// The rows of every engine and workload; empty where they were not asked for.
    pub counts: &'a [CountsRow],
    /// What could not be measured, a line each.
    pub failures: &'a [String],
    /// How many measurements were made again, because others used the processors meanwhile.
    pub repeated: u32,
    /// What other programs reported.
    pub reports: &'a Reports,
}

/// Every figure, in the papers' order.
#[must_use]
pub fn all() -> Vec<Figure> {
    let papers = [tinca::figures(), spindle::figures(), study::figures()];
    papers.into_iter().flatten().collect()
}

/// The figures that `names` ask for, each once, in the papers' order.
///
/// # Errors
/// A name asks for none.
pub fn select(names: &[String]) -> Result<Vec<Figure>> {
    let figures = all();
    for name in names {
        if !figures.iter().any(|figure| figure.is_asked(name)) {
            return Err(ErrorKind::Options(format!(
                "there is no figure {name}; forebay-lab list names them all"
            ))
            .into());
        }
    }
    let is_asked = |figure: &Figure| names.iter().any(|name| figure.is_asked(name));
    Ok(figures.into_iter().filter(is_asked).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engines::EngineName;
    use crate::paper::{REPORTED, Reported};

    fn selected(names: &[&str]) -> Vec<&'static str> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let figures = select(&names).expect("they exist");
        figures.iter().map(|figure| figure.name).collect()
    }

    #[test]
    fn figures_are_asked_for_by_name_number_or_paper() {
        assert_eq!(selected(&["tinca-7b"]), ["tinca-7b"]);
        assert_eq!(selected(&["tinca-7"]), ["tinca-7a", "tinca-7b", "tinca-7c"]);
        assert_eq!(selected(&["all"]).len(), all().len());
        assert!(
            selected(&["spindle"])
                .iter()
                .all(|name| name.starts_with("spindle-"))
        );
        for nothing in ["tinca-1", "tinca-", "tin", "", "tinca-99"] {
            assert!(select(&[nothing.to_owned()]).is_err(), "{nothing}");
        }
    }

    #[test]
    fn every_name_is_there_once() {
        let mut names: Vec<&str> = all().iter().map(|figure| figure.name).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    /// Series and places that the papers' numbers name are series and places of that figure.
    #[test]
    fn what_the_papers_report_has_its_place() {
        let foreign = ["bcache", "dm-cache"];
        for Reported {
            figure: name,
            place,
            of,
            over,
            ..
        } in REPORTED
        {
            let figures = all();
            let figure = figures.iter().find(|figure| figure.name == *name);
            let figure = figure.unwrap_or_else(|| panic!("no figure {name}"));
            for scope in [Scope::quick(1), Scope::full(1)] {
                let plan = (figure.plan)(&scope);
                let has_place = |place: &str| plan.places.iter().any(|known| known == place);
                let has_key = |key: &str| {
                    foreign.contains(&key) || plan.series.iter().any(|series| series.key == key)
                };
                assert!(place.is_none_or(has_place), "{name}: {place:?}");
                assert!(has_key(of), "{name}: {of}");
                if let Some((key, place)) = over {
                    assert!(has_key(key), "{name}: {key}");
                    assert!(place.is_none_or(has_place), "{name}: {place:?}");
                }
            }
        }
    }

    /// Which is faster is told by them.
    #[test]
    fn every_figure_of_times_has_each_design_with_the_cleaner_too() {
        for figure in all() {
            let plan = figure.planned(&Scope::quick(1));
            for engine in EngineName::ALL {
                let position = |key| plan.series.iter().position(|series| series.key == key);
                let (Some(printed), Some(key)) = (position(engine.as_str()), engine.with_cleaner())
                else {
                    continue;
                };
                let cleaned = figure.metric.is_timed().then_some(printed + 1);
                assert_eq!(position(key), cleaned, "{}: {key}", figure.name);
                let cells = |series: usize| plan.series[series].cells.iter();
                let pairs = cleaned
                    .into_iter()
                    .flat_map(|at| cells(printed).zip(cells(at)));
                assert!(
                    pairs.clone().all(|(one, other)| one != other),
                    "{}",
                    figure.name
                );
            }
        }
    }

    #[test]
    fn every_series_has_a_cell_for_each_place_and_the_baseline_is_one_of_them() {
        for figure in all() {
            let plan = figure.planned(&Scope::quick(1));
            assert!(
                !plan.places.is_empty() && !plan.series.is_empty(),
                "{}",
                figure.name
            );
            for series in &plan.series {
                assert_eq!(series.cells.len(), plan.places.len(), "{}", figure.name);
            }
            let has_baseline = plan
                .series
                .iter()
                .any(|series| series.key == figure.baseline);
            assert!(has_baseline, "{}", figure.name);
        }
    }
}
