//! The papers' figures: what each shows, which cells it needs, and by which name it is asked for.
//!
//! A figure is a plan: series over places, each crossing a [`Cell`]. Figures that cross the same
//! cell share its measurement, which is made once a run.

mod compare;
mod counts_page;
mod output;
mod page;
mod report;
mod result;
mod spindle;
mod study;
#[cfg(test)]
mod testing;
mod tinca;

use forebay::{ErrorKind, Result};
use forebay_harness::Shape;

pub use counts_page::to_text as rows_to_text;
pub use result::{FigureResult, SeriesResult};

use crate::engines::EngineName;
use crate::experiments::{Cell, Metric, Scope};
use crate::measure::CountsRow;

/// What a run found.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    /// What it covered.
    pub scope: &'a Scope,
    /// The figures, measured.
    pub results: &'a [FigureResult],
    /// The rows of every engine and workload; empty where they were not asked for.
    pub counts: &'a [CountsRow],
    /// What could not be measured, a line each.
    pub failures: &'a [String],
}

/// Which paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paper {
    /// Wei et al., SC 2017.
    Tinca,
    /// Yan et al., NPC 2019.
    Spindle,
    /// Lee et al., APSys 2018.
    Study,
}

impl Paper {
    /// How reports call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Paper::Tinca => "Tinca",
            Paper::Spindle => "Spindle",
            Paper::Study => "block cache study",
        }
    }
}

/// One figure of a paper, or one panel of it.
#[derive(Clone, Debug)]
pub struct Figure {
    /// What it is asked for by, like `tinca-7a`.
    pub name: &'static str,
    /// Whose.
    pub paper: Paper,
    /// Its number there.
    pub number: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// What is run and what varies.
    pub about: &'static str,
    /// What the places along the axis are.
    pub places_are: &'static str,
    /// What is shown.
    pub metric: Metric,
    /// The key of the series that the others are divided by.
    pub baseline: &'static str,
    /// How it is drawn.
    pub shape: Shape,
    /// Why ours may have another shape than the paper's; empty where there is nothing to say.
    pub caveat: &'static str,
    /// Its places and series within a scope.
    pub plan: fn(&Scope) -> Plan,
}

/// Series over places.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The places, in order.
    pub places: Vec<String>,
    /// The series.
    pub series: Vec<PlannedSeries>,
}

/// One series: a cell for each place.
#[derive(Clone, Debug)]
pub struct PlannedSeries {
    /// What the table of the papers' numbers calls it.
    pub key: &'static str,
    /// What readers see.
    pub name: String,
    /// As many as there are places; none where the series has none.
    pub cells: Vec<Option<Cell>>,
}

impl Plan {
    /// Every cell of every series.
    pub fn cells(&self) -> impl Iterator<Item = Cell> + '_ {
        let cells = self.series.iter().flat_map(|series| &series.cells);
        cells.flatten().cloned()
    }
}

impl Figure {
    /// How reports head it.
    #[must_use]
    pub fn heading(&self) -> String {
        format!(
            "{}, Figure {}: {}",
            self.paper.name(),
            self.number,
            self.title
        )
    }

    /// Whether `asked` names it: by its whole name, or by a beginning that ends where a word or a
    /// number does. `tinca-7` is 7a to 7c, `tinca` all of Tinca's, `all` every figure.
    fn is_asked(&self, asked: &str) -> bool {
        let Some(rest) = self.name.strip_prefix(asked) else {
            return asked == "all";
        };
        let continues_number = asked.ends_with(|letter: char| letter.is_ascii_digit())
            && rest.starts_with(|letter: char| letter.is_ascii_digit());
        let is_boundary = asked.ends_with(|letter: char| letter.is_ascii_digit())
            || rest.is_empty()
            || rest.starts_with('-');
        !asked.is_empty() && is_boundary && !continues_number
    }
}

/// A series for each engine of the scope; at each place the cell that `cell` gives.
fn by_engine<Place: Copy>(
    scope: &Scope,
    places: &[(&str, Place)],
    cell: impl Fn(EngineName, Place) -> Cell,
) -> Plan {
    let series = scope.engines.iter().map(|engine| PlannedSeries {
        key: engine.as_str(),
        name: engine.to_string(),
        cells: places
            .iter()
            .map(|(_, place)| Some(cell(*engine, *place)))
            .collect(),
    });
    Plan {
        series: series.collect(),
        places: places.iter().map(|(name, _)| (*name).to_owned()).collect(),
    }
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

    #[test]
    fn every_series_has_a_cell_for_each_place_and_the_baseline_is_one_of_them() {
        for figure in all() {
            let plan = (figure.plan)(&Scope::quick(1));
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
