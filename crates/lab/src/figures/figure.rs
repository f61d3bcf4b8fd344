//! What a figure is: series over places, each crossing a cell.

use forebay_harness::Shape;

use crate::engines::EngineName;
use crate::experiments::{Cell, Metric, Scope};

/// Which paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paper {
    /// Wei et al., SC 2017.
    Tinca,
    /// Yan et al., NPC 2019.
    Spindle,
    /// Lee et al., APSys 2018.
    Study,
    /// Kateja et al., CMU-PDL-19-105.
    Tvarak,
    /// Jang et al., Cluster Computing 2019.
    AutoBahn,
}

impl Paper {
    /// All of them, in the order of reports.
    pub const ALL: [Paper; 5] = [
        Paper::Tinca,
        Paper::Spindle,
        Paper::Study,
        Paper::Tvarak,
        Paper::AutoBahn,
    ];

    /// How reports call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Paper::Tinca => "Tinca",
            Paper::Spindle => "Spindle",
            Paper::Study => "block cache study",
            Paper::Tvarak => "TVARAK",
            Paper::AutoBahn => "AutoBahn",
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
    /// Why Forebay may lose to another cache here; empty where it is not known to.
    pub loses: &'static str,
    /// Its places and series as printed within a scope; [`Figure::planned`] has all of them.
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

    /// The same with a second series behind each of an engine of the papers: that engine with the cleaner.
    fn with_cleaner(self) -> Plan {
        let both = |series: PlannedSeries| [Some(series.clone()), series.with_cleaner()];
        Plan {
            places: self.places,
            series: self.series.into_iter().flat_map(both).flatten().collect(),
        }
    }
}

impl PlannedSeries {
    /// The same with the cleaner; none where that is nothing else, or the series is no engine's own.
    fn with_cleaner(&self) -> Option<PlannedSeries> {
        let engine = self.cells.first()?.as_ref()?.engine()?;
        let key = engine
            .with_cleaner()
            .filter(|_| self.key == engine.as_str())?;
        let cells = self.cells.iter();
        let cleaned = cells.map(|cell| Some(cell.clone()?.with_cleaner()));
        Some(PlannedSeries {
            key,
            name: format!("{}, cleaner", self.name),
            cells: cleaned.collect(),
        })
    }
}

impl Figure {
    /// Its plan within a scope; of times, with the cleaner that all designs have in common beside each design as printed.
    #[must_use]
    pub fn planned(&self, scope: &Scope) -> Plan {
        let plan = (self.plan)(scope);
        match self.metric.is_timed() {
            true => plan.with_cleaner(),
            false => plan,
        }
    }

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
    pub(super) fn is_asked(&self, asked: &str) -> bool {
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
pub(super) fn by_engine<Place: Copy>(
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
