//! What one contender came to at one point.

use super::contender::Contender;
use super::points::{Figure, Point};
use super::probe::Layers;

/// The middle of its rounds.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The point.
    pub point: Point,
    /// The contender.
    pub contender: Contender,
    /// Medians over the rounds, number by number.
    pub layers: Layers,
    /// The rounds' IOPS, the lowest and the highest.
    pub iops_range: (f64, f64),
}

/// What a contender came to at a point.
pub fn at<'a>(
    results: &'a [Measured],
    figure: Figure,
    key: &str,
    contender: Contender,
) -> Option<&'a Layers> {
    let mut found = results.iter().filter(|one| one.contender == contender);
    let found = found.find(|one| one.point.figure == figure && one.point.key == key);
    found.map(|one| &one.layers)
}
