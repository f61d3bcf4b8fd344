//! Bars that lie: a place a line, to the left and to the right of nought. For differences, the largest first.

use std::fmt::Write as _;

use super::chart::Chart;
use super::marks::{Ink, legend_entry};
use super::scale::Scale;
use super::svg::{LETTER, WIDTH, tick_name};
use super::{digits, escape};

/// Where the names of the places end.
const LEFT: f64 = 230.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 8.0;
const LINE: f64 = 22.0;
/// The axis, its label and the legend.
const FOOT: f64 = 68.0;

impl Chart {
    /// The plot, its places as lines.
    pub(crate) fn to_lying_svg(&self, id: &str) -> String {
        let values = self.series.iter().flat_map(|series| &series.values);
        let scale = Scale::holding(values.flatten().map(|value| value.abs()), false);
        let foot = TOP + LINE * self.places.len() as f64;
        let half = (WIDTH - LEFT - RIGHT) / 2.0;
        let middle = LEFT + half;
        let x_of = |value: f64| {
            let length = scale.place(value.abs()).unwrap_or(0.0) * half;
            middle + length.copysign(value)
        };
        let mut svg = format!(
            "<svg viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-labelledby=\"{id}-title {id}-desc\">\
             <title id=\"{id}-title\">{}</title><desc id=\"{id}-desc\">{}</desc>",
            foot + FOOT,
            escape(&self.title),
            escape(&format!(
                "{} by {}; the table has the numbers.",
                self.y_label, self.x_label
            )),
        );
        let ends = scale.ticks.iter().flat_map(|tick| [-*tick, *tick]);
        for tick in ends.filter(|tick| !tick.is_sign_negative() || *tick < 0.0) {
            let x = x_of(tick);
            let _ = write!(
                svg,
                "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{foot}\"/>\
                 <text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                foot + 14.0,
                tick_name(tick)
            );
        }
        for (place, name) in self.places.iter().enumerate() {
            let top = TOP + LINE * place as f64;
            let _ = write!(
                svg,
                "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 8.0,
                top + 15.0,
                escape(name)
            );
            self.draw_place(place, top, &x_of, &mut svg);
        }
        let _ = write!(
            svg,
            "<line class=\"axis\" x1=\"{middle}\" x2=\"{middle}\" y1=\"{TOP}\" y2=\"{foot}\"/>\
             <text x=\"{middle}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            foot + 34.0,
            escape(&self.y_label)
        );
        let mut x = LEFT;
        for (index, series) in self.measured() {
            let ink = Ink::new(index, series, id);
            legend_entry(ink, true, &series.name, (x, foot + 56.0), &mut svg);
            x += 36.0 + LETTER * series.name.chars().count() as f64;
        }
        svg + "</svg>"
    }

    /// The bars of all series at a place, one under the other.
    fn draw_place(&self, place: usize, top: f64, x_of: &dyn Fn(f64) -> f64, svg: &mut String) {
        let height = (LINE - 6.0) / self.measured().count().max(1) as f64;
        for (turn, (index, series)) in self.measured().enumerate() {
            let Some(value) = series.values.get(place).copied().flatten() else {
                continue;
            };
            let (x, nought) = (x_of(value), x_of(0.0));
            let _ = write!(
                svg,
                "<rect class=\"mark series-{}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{height:.1}\">\
                 <title>{}</title></rect>",
                series.colour(index),
                x.min(nought),
                top + 3.0 + height * turn as f64,
                (x - nought).abs().max(0.5),
                escape(&format!(
                    "{}, {}: {} {}",
                    self.places[place],
                    series.name,
                    digits(value),
                    self.y_label
                ))
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::report::{Chart, Series, Shape};

    #[test]
    fn what_is_less_lies_on_the_left() {
        let chart = Chart {
            places: vec!["banks".into()],
            series: vec![Series {
                name: "half".into(),
                values: vec![Some(-2.0)],
                ..Series::default()
            }],
            shape: Shape::Lying,
            ..Chart::default()
        };
        let svg = chart.to_svg("one");
        // Its bar, and the legend's.
        assert_eq!(svg.matches("<rect").count(), 1 + 1);
        // To the axis in the middle, 198 units of half the width.
        assert!(
            svg.contains("x=\"230.0\" y=\"11.0\" width=\"198.0\""),
            "{svg}"
        );
    }
}
