//! Where a number lies on an axis, and which numbers the axis shows.

/// The axis of the numbers, from 0 at its foot to 1 at its head.
#[derive(Clone, Debug)]
pub(crate) struct Scale {
    low: f64,
    high: f64,
    is_logarithmic: bool,
    /// The numbers that the axis shows, rising.
    pub(crate) ticks: Vec<f64>,
}

/// So many ticks at most, or their labels touch.
const TICKS_MAX: usize = 7;

impl Scale {
    /// The axis that holds `values`: from zero, or between powers of ten if logarithmic, where what is not
    /// above zero has no place.
    pub(crate) fn holding(values: impl Iterator<Item = f64>, is_logarithmic: bool) -> Scale {
        let values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
        if is_logarithmic {
            Scale::logarithmic(values.into_iter().filter(|value| *value > 0.0))
        } else {
            Scale::linear(values.into_iter().fold(0.0, f64::max))
        }
    }

    fn linear(most: f64) -> Scale {
        let most = if most > 0.0 { most } else { 1.0 };
        let rough = most / (TICKS_MAX - 2) as f64;
        let power = 10_f64.powf(rough.log10().floor());
        let steps = [1.0, 2.0, 2.5, 5.0, 10.0].map(|step| step * power);
        let step = steps.into_iter().find(|step| *step >= rough);
        let step = step.unwrap_or(10.0 * power);
        let count = (most / step).ceil().max(1.0) as usize;
        Scale {
            low: 0.0,
            high: step * count as f64,
            is_logarithmic: false,
            ticks: (0..=count).map(|tick| tick as f64 * step).collect(),
        }
    }

    fn logarithmic(values: impl Iterator<Item = f64>) -> Scale {
        let (least, most) = values.fold((f64::INFINITY, 0.0_f64), |(least, most), value| {
            (least.min(value), most.max(value))
        });
        let (least, most) = if most > 0.0 {
            (least, most)
        } else {
            (1.0, 10.0)
        };
        // What is a hair below a power of ten stands on it: or all others would grow by a decade.
        let first = (least.log10() + 0.01).floor() as i32;
        let last = (most.log10().ceil() as i32).max(first + 1);
        let decades = (last - first) as usize;
        let every = decades.div_ceil(TICKS_MAX - 1);
        // One or two decades say too little with their ends alone.
        let within: &[f64] = if decades <= 2 {
            &[1.0, 2.0, 5.0]
        } else {
            &[1.0]
        };
        let ticks = (first..last).step_by(every).flat_map(|power| {
            let decade = 10_f64.powi(power);
            within.iter().map(move |digit| digit * decade)
        });
        Scale {
            low: f64::from(first),
            high: f64::from(last),
            is_logarithmic: true,
            ticks: ticks.chain([10_f64.powi(last)]).collect(),
        }
    }

    /// Where `value` lies, 0 to 1; none if it has no place.
    pub(crate) fn place(&self, value: f64) -> Option<f64> {
        let at = match self.is_logarithmic {
            true if value > 0.0 => value.log10(),
            true => return None,
            false => value,
        };
        at.is_finite()
            .then(|| ((at - self.low) / (self.high - self.low)).clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linear_axis_begins_at_zero_and_ends_at_a_round_number() {
        let scale = Scale::holding([3.0, 47_000.0].into_iter(), false);
        assert_eq!(
            scale.ticks,
            [0.0, 10_000.0, 20_000.0, 30_000.0, 40_000.0, 50_000.0]
        );
        assert_eq!(scale.place(25_000.0), Some(0.5));
        assert_eq!(scale.place(f64::NAN), None);
    }

    #[test]
    fn a_logarithmic_axis_has_no_place_for_zero() {
        let scale = Scale::holding([0.0, 50.0, 40_000.0].into_iter(), true);
        assert_eq!(scale.ticks, [10.0, 100.0, 1e3, 1e4, 1e5]);
        assert_eq!(scale.place(0.0), None);
        assert_eq!(scale.place(1000.0), Some(0.5));
    }

    #[test]
    fn an_axis_of_nothing_still_stands() {
        for is_logarithmic in [false, true] {
            let scale = Scale::holding(std::iter::empty(), is_logarithmic);
            assert!(scale.ticks.len() >= 2 && scale.high > scale.low);
        }
    }
}
