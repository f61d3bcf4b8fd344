//! What a plot shows: series over named places, and the same as a table.

use super::table::Table;

/// How the numbers are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shape {
    /// A line for each series.
    Lines,
    /// Bars side by side; on a logarithmic axis, which has no nought for a bar to stand on, a mark each.
    #[default]
    Bars,
    /// Bars that lie, a place a line, to the left and to the right of nought.
    Lying,
}

/// One line, or the bars of one colour.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// What it is called.
    pub name: String,
    /// A number for each place; none where nothing was measured.
    pub values: Vec<Option<f64>>,
    /// How far the numbers spread, up and down alike; drawn over bars. None, or as many as numbers.
    pub spreads: Vec<Option<f64>>,
    /// The part of each number whose bar is not faint; none where all is. None, or as many as numbers.
    pub parts: Vec<Option<f64>>,
    /// What others say of each number: a line across its bar. None, or as many as numbers.
    pub said: Vec<Option<f64>>,
    /// The lowest and the highest of what each number is the middle of; a line over bars and marks. None, or as
    /// many as numbers.
    pub ranges: Vec<Option<(f64, f64)>>,
    /// Which of the twelve colours, for what has the same in every chart; by its place among the series otherwise.
    pub colour: Option<usize>,
    /// What others say, not what was measured: bars are hatched, lines broken, marks hollow.
    pub is_hatched: bool,
    /// Another form of what has this colour in the same chart: bars, lines and marks are faint.
    pub is_faint: bool,
}

impl Series {
    /// From where to where a number reaches, for the axis and for its line.
    pub(crate) fn range(&self, place: usize) -> Option<(f64, f64)> {
        let range = self.ranges.get(place).copied().flatten();
        range.or_else(|| {
            let spread = self.spreads.get(place).copied().flatten()?;
            let value = self.values.get(place).copied().flatten()?;
            (spread > 0.0).then_some((value - spread, value + spread))
        })
    }

    /// The number of its colour, when it is the `index`th series.
    pub(crate) fn colour(&self, index: usize) -> usize {
        self.colour.unwrap_or(index)
    }
}

/// One plot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chart {
    /// What it shows.
    pub title: String,
    /// What the places along the horizontal axis are.
    pub x_label: String,
    /// What the numbers are, with their unit.
    pub y_label: String,
    /// The places, in order, evenly spaced. One without a name is a corner of a line and no more: it has
    /// no name on the axis, no mark, no row in the table.
    pub places: Vec<String>,
    /// At most twelve, better eight: more colours cannot be told apart. One without any number is not shown, and keeps
    /// its colour from the others: so what is in several charts has one colour.
    pub series: Vec<Series>,
    /// Lines or bars.
    pub shape: Shape,
    /// Powers of ten on the vertical axis.
    pub is_logarithmic: bool,
}

impl Chart {
    /// The numbers of the plot: a row for each place, a column for each series.
    #[must_use]
    pub fn table(&self) -> Table {
        let names = self.measured().map(|(_, series)| series.name.clone());
        let row = |(index, place): (usize, &String)| {
            let values = self.measured();
            let values = values.map(|(_, series)| series.values.get(index).copied().flatten());
            (place.clone(), values.collect())
        };
        Table {
            columns: std::iter::once(self.x_label.clone()).chain(names).collect(),
            rows: self.named_places().map(row).collect(),
            ..Table::default()
        }
    }

    /// Those series that have a number, and where they stand among all.
    pub(crate) fn measured(&self) -> impl Iterator<Item = (usize, &Series)> {
        let series = self.series.iter().enumerate();
        series.filter(|(_, series)| series.values.iter().any(Option::is_some))
    }

    /// Those that have a name, with their numbers.
    pub(crate) fn named_places(&self) -> impl Iterator<Item = (usize, &String)> {
        let places = self.places.iter().enumerate();
        places.filter(|(_, place)| !place.is_empty())
    }
}
