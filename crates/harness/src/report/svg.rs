//! A chart as inline SVG. Its colours are those of the page's style, so that it follows light and dark;
//! series differ by the shape of their marks too. The title and the numbers of each mark are text that
//! pointers show and screen readers read.

use std::fmt::Write as _;

use super::chart::{Chart, Shape};
use super::marks::{Ink, legend_entry, range_line, said_line};
use super::scale::Scale;
use super::{digits, escape};

pub(crate) const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 340.0;
const LEFT: f64 = 74.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 52.0;
const LEGEND_LINE: f64 = 20.0;
/// Between the axis' label and the legend.
const LEGEND_GAP: f64 = 8.0;
/// What a letter of a legend takes, about.
pub(crate) const LETTER: f64 = 7.2;

impl Chart {
    /// The plot. `id` is unique in the page.
    #[must_use]
    pub fn to_svg(&self, id: &str) -> String {
        if self.shape == Shape::Lying {
            return self.to_lying_svg(id);
        }
        let scale = Scale::holding(self.ends(), self.is_logarithmic);
        let legend = self.legend();
        let legend_lines = legend.last().map_or(0.0, |(_, line)| line + 1.0);
        let height = HEIGHT + LEGEND_GAP + legend_lines * LEGEND_LINE;
        let mut svg = format!(
            "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-labelledby=\"{id}-title {id}-desc\">\
             <title id=\"{id}-title\">{}</title><desc id=\"{id}-desc\">{}</desc>",
            escape(&self.title),
            escape(&format!(
                "{} over {}; the table beside it has the numbers.",
                self.y_label, self.x_label
            )),
        );
        self.draw_axes(&scale, &mut svg);
        let series = self.measured();
        let inks = series.map(|(index, series)| (index, Ink::new(index, series, id)));
        for (turn, (index, ink)) in inks.enumerate() {
            ink.pattern(&mut svg);
            match self.shape {
                Shape::Lines => self.draw_line((index, ink), &scale, &mut svg),
                _ if self.has_bars() => self.draw_bars((index, ink), turn, &scale, &mut svg),
                _ => self.draw_marks((index, ink), turn, &scale, &mut svg),
            }
        }
        for ((x, line), (index, series)) in legend.into_iter().zip(self.measured()) {
            let y = HEIGHT + LEGEND_GAP + line * LEGEND_LINE + 6.0;
            let ink = Ink::new(index, series, id);
            legend_entry(ink, self.has_bars(), &series.name, (x, y), &mut svg);
        }
        svg + "</svg>"
    }

    /// Every number, and the ends of what it is the middle of.
    fn ends(&self) -> impl Iterator<Item = f64> {
        self.series.iter().flat_map(|series| {
            let values = series.values.iter().enumerate();
            let numbers = values.filter_map(|(place, value)| {
                let value = (*value)?;
                let (low, high) = series.range(place).unwrap_or((value, value));
                Some([low, value, high])
            });
            let said = series.said.iter().filter_map(|said| *said);
            numbers.flatten().chain(said)
        })
    }

    /// Where each series' name stands: its left end, its line.
    fn legend(&self) -> Vec<(f64, f64)> {
        let (mut x, mut line) = (LEFT, 0.0);
        let place = |name: &str| {
            let width = 30.0 + LETTER * name.chars().count() as f64;
            if x > LEFT && x + width > WIDTH {
                (x, line) = (LEFT, line + 1.0);
            }
            let here = (x, line);
            x += width;
            here
        };
        let names = self.measured().map(|(_, series)| series.name.as_str());
        names.map(place).collect()
    }

    /// A bar says by its length how much; there is no length from nought on powers of ten.
    fn has_bars(&self) -> bool {
        self.shape == Shape::Bars && !self.is_logarithmic
    }

    /// How wide a place is.
    fn step(&self) -> f64 {
        (WIDTH - LEFT - RIGHT) / self.places.len().max(1) as f64
    }

    /// The middle of a place.
    fn x_of(&self, index: usize) -> f64 {
        LEFT + self.step() * (index as f64 + 0.5)
    }

    fn draw_axes(&self, scale: &Scale, svg: &mut String) {
        for tick in &scale.ticks {
            let Some(y) = scale.place(*tick).map(y_of) else {
                continue;
            };
            let _ = write!(
                svg,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text class=\"tick\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                WIDTH - RIGHT,
                LEFT - 6.0,
                y + 4.0,
                tick_name(*tick)
            );
        }
        let foot = y_of(0.0);
        let _ = write!(
            svg,
            "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{foot}\" y2=\"{foot}\"/>",
            WIDTH - RIGHT
        );
        // Names that would touch each other stand on two lines in turn.
        let is_tight = self.are_names_tight();
        for (number, (index, place)) in self.named_places().enumerate() {
            let down = if is_tight && number % 2 == 1 {
                29.0
            } else {
                16.0
            };
            let _ = write!(
                svg,
                "<text class=\"tick\" x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                self.x_of(index),
                foot + down,
                escape(place)
            );
        }
        let middle = (TOP + foot) / 2.0;
        let _ = write!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\
             <text x=\"14\" y=\"{middle}\" text-anchor=\"middle\" transform=\"rotate(-90 14 {middle})\">{}</text>",
            (LEFT + WIDTH - RIGHT) / 2.0,
            foot + 44.0,
            escape(&self.x_label),
            escape(&self.y_label)
        );
    }

    fn are_names_tight(&self) -> bool {
        let named: Vec<usize> = self.named_places().map(|(index, _)| index).collect();
        let gap = named.windows(2).map(|pair| pair[1] - pair[0]).min();
        let letters = self.named_places().map(|(_, place)| place.chars().count());
        letters.max().unwrap_or(0) as f64 * LETTER > self.step() * gap.unwrap_or(1) as f64
    }

    /// What a mark tells.
    fn hint(&self, series: usize, place: usize, value: f64) -> String {
        format!(
            "{}, {}: {} {}",
            self.series[series].name,
            self.places[place],
            digits(value),
            self.y_label
        )
    }

    fn draw_line(&self, (index, ink): (usize, Ink<'_>), scale: &Scale, svg: &mut String) {
        let values = self.series[index].values.iter().take(self.places.len());
        let points: Vec<Option<(f64, f64, f64)>> = values
            .enumerate()
            .map(|(place, value)| {
                let value = (*value)?;
                Some((self.x_of(place), y_of(scale.place(value)?), value))
            })
            .collect();
        // A line breaks where nothing was measured.
        for run in points
            .split(|point| point.is_none())
            .filter(|run| run.len() > 1)
        {
            let corners = run.iter().flatten();
            let corners: Vec<String> = corners.map(|(x, y, _)| format!("{x:.1},{y:.1}")).collect();
            let _ = write!(
                svg,
                "<polyline class=\"{}\" points=\"{}\"/>",
                ink.line_class(),
                corners.join(" ")
            );
        }
        for (place, point) in points.into_iter().enumerate() {
            let Some((x, y, value)) = point else { continue };
            if !self.places[place].is_empty() {
                self.draw_range((index, place), x, scale, svg);
                ink.mark((x, y), &self.hint(index, place, value), svg);
            }
        }
    }

    /// What bars would be, each a mark in the middle of where it would stand.
    fn draw_marks(
        &self,
        (index, ink): (usize, Ink<'_>),
        turn: usize,
        scale: &Scale,
        svg: &mut String,
    ) {
        for (place, value, y) in self.numbers(index, scale) {
            let (left, width) = self.slot(place, turn);
            let x = left + width / 2.0;
            self.draw_range((index, place), x, scale, svg);
            ink.mark((x, y), &self.hint(index, place, value), svg);
        }
    }

    /// The numbers of a series that have a place on the axis: where along it, what, how high.
    fn numbers(&self, index: usize, scale: &Scale) -> impl Iterator<Item = (usize, f64, f64)> {
        let values = self.series[index].values.iter().take(self.places.len());
        values.enumerate().filter_map(|(place, value)| {
            let value = (*value)?;
            Some((place, value, y_of(scale.place(value)?)))
        })
    }

    /// The left end and the width of what stands for the `turn`th series at a place.
    fn slot(&self, place: usize, turn: usize) -> (f64, f64) {
        let width = self.step() * 0.8 / self.measured().count() as f64;
        (
            self.x_of(place) - self.step() * 0.4 + width * turn as f64,
            width,
        )
    }

    /// The bars of a series that is the `turn`th of those that have any.
    fn draw_bars(
        &self,
        (index, ink): (usize, Ink<'_>),
        turn: usize,
        scale: &Scale,
        svg: &mut String,
    ) {
        for (place, value, y) in self.numbers(index, scale) {
            let hint = self.hint(index, place, value);
            let (x, width) = self.slot(place, turn);
            let width = (width - 1.0).max(1.0);
            let mut bar = |ink: Ink<'_>, top: f64, foot: f64| {
                let size = (width, (foot - top).max(0.5));
                ink.bar((x, top), size, &hint, svg);
            };
            let part = self.series[index].parts.get(place).copied().flatten();
            match part.and_then(|part| scale.place(part)).map(y_of) {
                Some(middle) => {
                    bar(ink, middle, y_of(0.0));
                    bar(ink.faint(), y, middle);
                }
                None => bar(ink, y, y_of(0.0)),
            }
            let said = self.series[index].said.get(place).copied().flatten();
            if let Some(y) = said.and_then(|said| scale.place(said)).map(y_of) {
                said_line((x - 2.0, x + width + 2.0), y, svg);
            }
            self.draw_range((index, place), x + width / 2.0, scale, svg);
        }
    }

    fn draw_range(&self, (index, place): (usize, usize), x: f64, scale: &Scale, svg: &mut String) {
        let range = self.series[index].range(place);
        let Some((low, high)) = range.filter(|(low, high)| low < high) else {
            return;
        };
        if let (Some(low), Some(high)) = (scale.place(low), scale.place(high)) {
            let (low, high) = (y_of(low), y_of(high));
            // Less than that is a blot on the bar's end.
            if low - high >= 1.0 {
                range_line(x, (low, high), svg);
            }
        }
    }
}

/// A round number, without the zeroes that say how exactly something was measured.
pub(crate) fn tick_name(tick: f64) -> String {
    let name = digits(tick);
    match name.contains('.') && !name.contains('e') {
        true => name.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => name,
    }
}

/// The height of a place on the vertical axis.
fn y_of(place: f64) -> f64 {
    let foot = HEIGHT - BOTTOM;
    foot - place * (foot - TOP)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Series;

    fn chart(shape: Shape) -> Chart {
        Chart {
            title: "Reads & <writes>".into(),
            x_label: "jobs".into(),
            y_label: "IOPS".into(),
            places: ["1", "2", "4"].map(String::from).to_vec(),
            series: vec![
                Series {
                    name: "ours".into(),
                    values: vec![Some(10.0), Some(20.0), Some(40.0)],
                    ..Series::default()
                },
                Series {
                    name: "theirs".into(),
                    values: vec![Some(5.0), None, Some(f64::NAN)],
                    ..Series::default()
                },
            ],
            shape,
            is_logarithmic: false,
        }
    }

    #[test]
    fn every_number_is_drawn_and_named_and_nothing_else() {
        let svg = chart(Shape::Lines).to_svg("one");
        assert_eq!(svg.matches("<polyline").count(), 1);
        // Four numbers and two names.
        assert_eq!(svg.matches("class=\"mark").count(), 4 + 2);
        assert!(svg.contains("<title>ours, 4: 40.0 IOPS</title>"), "{svg}");
        assert!(svg.contains("Reads &amp; &lt;writes&gt;"), "{svg}");
        assert!(!svg.contains("NaN"), "{svg}");
    }

    #[test]
    fn a_place_without_a_name_is_a_corner_of_the_line_alone() {
        let mut chart = chart(Shape::Lines);
        chart.places[1].clear();
        let svg = chart.to_svg("one");
        let corners = svg
            .split("points=\"")
            .nth(1)
            .and_then(|rest| rest.split('"').next());
        assert_eq!(corners.expect("a line").split(' ').count(), 3);
        // Three numbers and two names.
        assert_eq!(svg.matches("class=\"mark").count(), 3 + 2);
        assert_eq!(chart.table().rows.len(), 2);
    }

    #[test]
    fn a_series_without_numbers_is_not_shown_and_the_others_keep_their_colours() {
        let mut chart = chart(Shape::Bars);
        chart.series[0].values = vec![None; 3];
        let svg = chart.to_svg("one");
        assert!(
            !svg.contains("series-0") && svg.contains("series-1"),
            "{svg}"
        );
        assert!(!svg.contains("ours"), "{svg}");
        assert_eq!(chart.table().columns, ["jobs", "theirs"]);
    }

    #[test]
    fn bars_show_their_spread_and_their_faint_part() {
        let mut chart = chart(Shape::Bars);
        chart.series[0].spreads = vec![Some(1.0), None, Some(0.0)];
        chart.series[0].parts = vec![None, Some(5.0), None];
        chart.series[0].said = vec![None, None, Some(80.0)];
        let svg = chart.to_svg("one");
        assert_eq!(svg.matches("class=\"spread\"").count(), 1, "{svg}");
        assert_eq!(svg.matches("class=\"said\"").count(), 1, "{svg}");
        assert_eq!(svg.matches(" faint\"").count(), 1, "{svg}");
        // Four numbers, one in two parts, and two names.
        assert_eq!(svg.matches("<rect").count(), 4 + 1 + 2, "{svg}");
    }

    #[test]
    fn a_faint_series_is_faint_in_the_plot_and_in_the_legend() {
        for (shape, faint) in [(Shape::Bars, 3 + 1), (Shape::Lines, 1 + 3 + 1)] {
            let mut chart = chart(shape);
            chart.series[0].is_faint = true;
            let svg = chart.to_svg("one");
            assert_eq!(svg.matches(" faint\"").count(), faint, "{svg}");
            assert_eq!(svg.matches("series-0 faint\"").count(), faint, "{svg}");
        }
    }

    #[test]
    fn what_others_say_is_hatched_and_has_the_colour_of_what_it_is_of() {
        let mut chart = chart(Shape::Bars);
        chart.series[1].is_hatched = true;
        chart.series[1].colour = Some(0);
        chart.series[0].ranges = vec![None, None, Some((30.0, 45.0))];
        let svg = chart.to_svg("one");
        // A bar and the legend's.
        assert_eq!(svg.matches("class=\"theirs series-0\"").count(), 2, "{svg}");
        assert_eq!(svg.matches("url(#one-hatch-0)").count(), 2, "{svg}");
        assert_eq!(svg.matches("class=\"spread\"").count(), 1, "{svg}");
        chart.shape = Shape::Lines;
        assert!(chart.to_svg("one").contains("hollow series-0"));
    }

    #[test]
    fn no_bar_stands_on_powers_of_ten() {
        let mut chart = chart(Shape::Bars);
        chart.is_logarithmic = true;
        let svg = chart.to_svg("one");
        assert_eq!(svg.matches("<rect").count(), 0, "{svg}");
        assert_eq!(svg.matches("class=\"mark").count(), 4 + 2, "{svg}");
    }

    #[test]
    fn bars_stand_on_the_axis() {
        let svg = chart(Shape::Bars).to_svg("one");
        // Four numbers and two names.
        assert_eq!(svg.matches("<rect").count(), 4 + 2);
        assert!(svg.contains("aria-labelledby=\"one-title one-desc\""));
    }
}
