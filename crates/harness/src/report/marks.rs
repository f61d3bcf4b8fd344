//! What stands for a number: a bar, a mark, the line of its range. And what names a series in the legend.

use std::fmt::Write as _;

use super::chart::Series;
use super::escape;

/// How a series is drawn: its colour, what others say hatched or hollow, another form of the same faint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ink<'a> {
    colour: usize,
    is_hatched: bool,
    is_faint: bool,
    /// Of the chart; patterns are named after it.
    id: &'a str,
}

impl<'a> Ink<'a> {
    /// That of the `index`th series of the chart `id`.
    pub(crate) fn new(index: usize, series: &Series, id: &'a str) -> Ink<'a> {
        Ink {
            colour: series.colour(index),
            is_hatched: series.is_hatched,
            is_faint: series.is_faint,
            id,
        }
    }

    /// The same, faint.
    pub(crate) fn faint(self) -> Ink<'a> {
        Ink {
            is_faint: true,
            ..self
        }
    }

    /// What bars are filled with, once for each hatched series.
    pub(crate) fn pattern(self, svg: &mut String) {
        if self.is_hatched {
            let _ = write!(
                svg,
                "<defs><pattern id=\"{}-hatch-{}\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" \
                 patternTransform=\"rotate(45)\"><line class=\"line series-{}\" x1=\"1\" x2=\"1\" y1=\"0\" y2=\"5\"/>\
                 </pattern></defs>",
                self.id, self.colour, self.colour
            );
        }
    }

    /// A bar.
    pub(crate) fn bar(
        self,
        (x, top): (f64, f64),
        (width, height): (f64, f64),
        hint: &str,
        svg: &mut String,
    ) {
        let (class, fill) = match self.is_hatched {
            true => (
                "theirs",
                format!(" fill=\"url(#{}-hatch-{})\"", self.id, self.colour),
            ),
            false => ("mark", String::new()),
        };
        let _ = write!(
            svg,
            "<rect class=\"{class} series-{}{}\"{fill} x=\"{x:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" \
             height=\"{height:.1}\">{}</rect>",
            self.colour,
            self.faint_class(),
            title(hint)
        );
    }

    fn faint_class(self) -> &'static str {
        if self.is_faint { " faint" } else { "" }
    }

    /// The class of a line through marks.
    pub(crate) fn line_class(self) -> String {
        let broken = if self.is_hatched { " broken" } else { "" };
        format!("line series-{}{broken}{}", self.colour, self.faint_class())
    }

    /// A mark of the colour's own shape around a point.
    pub(crate) fn mark(self, (x, y): (f64, f64), hint: &str, svg: &mut String) {
        let title = title(hint);
        let kind = if self.is_hatched { "hollow" } else { "mark" };
        let class = format!(
            "class=\"{kind} series-{}{}\"",
            self.colour,
            self.faint_class()
        );
        let polygon = |corners: &[(f64, f64)]| {
            let corners = corners.iter();
            let corners: Vec<String> = corners
                .map(|(right, down)| format!("{:.1},{:.1}", x + right, y + down))
                .collect();
            format!(
                "<polygon {class} points=\"{}\">{title}</polygon>",
                corners.join(" ")
            )
        };
        svg.push_str(&match self.colour % 4 {
            0 => format!("<circle {class} cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\">{title}</circle>"),
            1 => polygon(&[(-4.0, -4.0), (4.0, -4.0), (4.0, 4.0), (-4.0, 4.0)]),
            2 => polygon(&[(0.0, -5.0), (5.0, 4.0), (-5.0, 4.0)]),
            _ => polygon(&[(0.0, -5.5), (5.5, 0.0), (0.0, 5.5), (-5.5, 0.0)]),
        });
    }
}

/// From the lowest to the highest of what a number is the middle of, with an end across each.
pub(crate) fn range_line(x: f64, (low, high): (f64, f64), svg: &mut String) {
    let _ = write!(
        svg,
        "<path class=\"spread\" d=\"M{0:.1} {low:.1}H{1:.1}M{x:.1} {low:.1}V{high:.1}M{0:.1} {high:.1}H{1:.1}\"/>",
        x - 3.0,
        x + 3.0
    );
}

/// What others say of a bar, across it.
pub(crate) fn said_line((left, right): (f64, f64), y: f64, svg: &mut String) {
    let _ = write!(
        svg,
        "<line class=\"said\" x1=\"{left:.1}\" x2=\"{right:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>"
    );
}

/// What stands for a series' numbers in the plot, a bit of its bar or its mark, and its name.
pub(crate) fn legend_entry(
    ink: Ink<'_>,
    has_bars: bool,
    name: &str,
    (x, y): (f64, f64),
    svg: &mut String,
) {
    match has_bars {
        true => ink.bar((x, y - 10.0), (12.0, 11.0), "", svg),
        false => ink.mark((x + 6.0, y - 4.0), "", svg),
    }
    let _ = write!(
        svg,
        "<text x=\"{}\" y=\"{y}\">{}</text>",
        x + 16.0,
        escape(name)
    );
}

fn title(hint: &str) -> String {
    match hint {
        "" => String::new(),
        text => format!("<title>{}</title>", escape(text)),
    }
}
