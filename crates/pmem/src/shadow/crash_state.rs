//! What a crash at one moment could leave, to enumerate or to sample.

use super::unit::{Store, Unit, unit_slice};
use super::{ShadowModel, WORD_BYTES};

/// How [`CrashState::sample_from`] decides what of the pending stores survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// Nothing pending.
    Nothing,
    /// All of it.
    Everything,
    /// Any part of each unit.
    Subset,
    /// Each unit whole or not at all, but for a few.
    Units,
    /// All but one unit.
    UnitMissing,
    /// One unit alone.
    UnitPresent,
    /// All but some words of one unit.
    UnitTorn,
    /// All but what one thread stored.
    ThreadMissing,
    /// What was streamed.
    StreamsOnly,
    /// What was not.
    CachedOnly,
    /// What was stored before some moment.
    Until,
    /// What was stored after some moment.
    Since,
}

impl Distribution {
    /// All of them.
    pub const ALL: [Distribution; 12] = [
        Distribution::Nothing,
        Distribution::Everything,
        Distribution::Subset,
        Distribution::Units,
        Distribution::UnitMissing,
        Distribution::UnitPresent,
        Distribution::UnitTorn,
        Distribution::ThreadMissing,
        Distribution::StreamsOnly,
        Distribution::CachedOnly,
        Distribution::Until,
        Distribution::Since,
    ];
}

/// A snapshot of a shadow region: the durable image and the stores pending over it.
#[derive(Clone, Debug)]
pub struct CrashState {
    model: ShadowModel,
    durable: Vec<u8>,
    units: Vec<(u32, Unit)>,
}

/// What survives of one unit: `whole` ordered stores, some words of the next one, and for
/// each streamed store some words.
struct Survivors<S: FnMut(&Store) -> u64> {
    whole: usize,
    torn: u64,
    streamed: S,
}

/// One independent choice in the enumeration of all images.
struct Digit {
    unit: usize,
    choice: Choice,
    radix: u64,
    value: u64,
}

enum Choice {
    /// How far the ordered stores of the unit got.
    Progress,
    /// Which streamed store of the word with this index survives, none being zero.
    Streamed(u32),
}

impl CrashState {
    pub(super) fn empty(model: ShadowModel) -> CrashState {
        CrashState {
            model,
            durable: Vec::new(),
            units: Vec::new(),
        }
    }

    pub(super) fn refill<'a>(
        &mut self,
        model: ShadowModel,
        durable: &[u8],
        units: impl Iterator<Item = (u32, &'a Unit)>,
    ) {
        self.model = model;
        self.durable.clear();
        self.durable.extend_from_slice(durable);
        self.units.clear();
        self.units
            .extend(units.map(|(index, unit)| (index, unit.clone())));
    }

    /// The image that survives when nothing pending does.
    pub fn durable(&self) -> &[u8] {
        &self.durable
    }

    /// Lines or sectors with pending stores.
    pub fn pending_units(&self) -> usize {
        self.units.len()
    }

    /// Base-2 logarithm of the number of ways to choose what survives.
    pub fn image_count_log2(&self) -> f64 {
        self.digits()
            .iter()
            .map(|digit| (digit.radix as f64).log2())
            .sum()
    }

    /// Whether there are at most `limit` ways to choose what survives.
    pub fn is_exhaustible(&self, limit: u64) -> bool {
        let count = self.digits().iter().try_fold(1u64, |count, digit| {
            count.checked_mul(digit.radix).filter(|&n| n <= limit)
        });
        count.is_some()
    }

    /// Calls `visit` with every image a crash could leave, if there are at most `limit` ways
    /// to choose what survives; returns whether it did. Different choices may leave the same
    /// bytes.
    pub fn all_images(&self, limit: u64, mut visit: impl FnMut(&[u8])) -> bool {
        if !self.is_exhaustible(limit) {
            return false;
        }
        let mut digits = self.digits();
        let mut image = Vec::with_capacity(self.durable.len());
        loop {
            self.image_of(&digits, &mut image);
            visit(&image);
            // The next number of the mixed-radix counter.
            let Some(up) = digits
                .iter()
                .position(|digit| digit.value + 1 < digit.radix)
            else {
                return true;
            };
            digits[up].value += 1;
            for digit in &mut digits[..up] {
                digit.value = 0;
            }
        }
    }

    /// A random image, from a distribution picked at random.
    pub fn sample(&self, rng: &mut fastrand::Rng) -> Vec<u8> {
        let mut image = Vec::new();
        let distribution = Distribution::ALL[rng.usize(..Distribution::ALL.len())];
        self.sample_from(distribution, rng, &mut image);
        image
    }

    /// A random image from `distribution`, into `image`.
    pub fn sample_from(
        &self,
        distribution: Distribution,
        rng: &mut fastrand::Rng,
        image: &mut Vec<u8>,
    ) {
        image.clear();
        image.extend_from_slice(&self.durable);
        if self.units.is_empty() {
            return;
        }
        let chosen = rng.usize(..self.units.len());
        let thread = self.any_store(rng).thread;
        let moment = self.any_store(rng).sequence;
        for position in 0..self.units.len() {
            let keep: &dyn Fn(&Store) -> bool = match distribution {
                Distribution::Nothing => &|_| false,
                Distribution::Everything => &|_| true,
                Distribution::Units if rng.u8(..8) > 0 => {
                    if rng.bool() {
                        &|_| true
                    } else {
                        &|_| false
                    }
                }
                Distribution::UnitTorn if position != chosen => &|_| true,
                Distribution::Subset | Distribution::Units | Distribution::UnitTorn => {
                    self.keep_random(position, rng, image);
                    continue;
                }
                Distribution::UnitMissing => &move |_| position != chosen,
                Distribution::UnitPresent => &move |_| position == chosen,
                Distribution::ThreadMissing => &move |store| store.thread != thread,
                Distribution::StreamsOnly => &|store| store.streamed,
                Distribution::CachedOnly => &|store| !store.streamed,
                Distribution::Until => &move |store| store.sequence < moment,
                Distribution::Since => &move |store| store.sequence >= moment,
            };
            self.keep(position, keep, image);
        }
    }

    fn any_store(&self, rng: &mut fastrand::Rng) -> &Store {
        let stores = &self.units[rng.usize(..self.units.len())].1.stores;
        &stores[rng.usize(..stores.len())]
    }

    /// Keeps the streamed stores of a unit that `keep` wants, and the ordered ones up to the
    /// first that it does not want.
    fn keep(&self, position: usize, keep: &dyn Fn(&Store) -> bool, image: &mut [u8]) {
        let ordered = self.ordered(position);
        let survivors = Survivors {
            whole: ordered.take_while(|store| keep(store)).count(),
            torn: 0,
            streamed: |store: &Store| if keep(store) { u64::MAX } else { 0 },
        };
        self.apply(position, survivors, image);
    }

    fn keep_random(&self, position: usize, rng: &mut fastrand::Rng, image: &mut [u8]) {
        let ordered: Vec<u64> = self.ordered(position).map(|store| store.live).collect();
        let whole = rng.usize(..=ordered.len());
        let mut torn = 0;
        if let Some(&live) = ordered.get(whole)
            && rng.bool()
        {
            torn = self.torn(live, rng.u64(..self.tears(live)));
        }
        let survivors = Survivors {
            whole,
            torn,
            streamed: |_: &Store| rng.u64(..),
        };
        self.apply(position, survivors, image);
    }

    /// The stores of a unit that survive in order only.
    fn ordered(&self, position: usize) -> impl Iterator<Item = &Store> {
        let stores = self.units[position].1.stores.iter();
        stores.filter(|store| self.is_ordered(store))
    }

    fn is_ordered(&self, store: &Store) -> bool {
        self.model == ShadowModel::Pages || !store.streamed
    }

    fn apply<S: FnMut(&Store) -> u64>(
        &self,
        position: usize,
        mut survivors: Survivors<S>,
        image: &mut [u8],
    ) {
        let (index, unit) = &self.units[position];
        let bytes = unit_slice(image, *index, self.model);
        let mut ordered = 0;
        for store in &unit.stores {
            let mask = if !self.is_ordered(store) {
                (survivors.streamed)(store)
            } else {
                ordered += 1;
                match ordered - 1 {
                    at if at < survivors.whole => u64::MAX,
                    at if at == survivors.whole => survivors.torn,
                    _ => 0,
                }
            };
            unit.apply(store, mask, bytes);
        }
    }

    /// Ways in which a store of these words may be cut, the whole of it included and nothing
    /// of it not.
    fn tears(&self, live: u64) -> u64 {
        match self.model {
            ShadowModel::Lines => (1 << live.count_ones()) - 1,
            ShadowModel::Pages => u64::from(live.count_ones()),
        }
    }

    /// The words that survive in way `tear` of [`CrashState::tears`].
    fn torn(&self, live: u64, tear: u64) -> u64 {
        let chosen = match self.model {
            ShadowModel::Lines => tear + 1,
            ShadowModel::Pages => u64::MAX >> (63 - tear),
        };
        let mut mask = 0;
        let mut left = live;
        let mut bit = 0;
        while left != 0 {
            let word = left & left.wrapping_neg();
            if chosen >> bit & 1 == 1 {
                mask |= word;
            }
            left ^= word;
            bit += 1;
        }
        mask
    }

    fn digits(&self) -> Vec<Digit> {
        let mut digits = Vec::new();
        let words = (self.model.unit_bytes() / WORD_BYTES) as u32;
        for unit in 0..self.units.len() {
            let mut push = |choice, radix| {
                if radix > 1 {
                    digits.push(Digit {
                        unit,
                        choice,
                        radix,
                        value: 0,
                    });
                }
            };
            let tears = self.ordered(unit).map(|store| self.tears(store.live));
            push(Choice::Progress, 1 + tears.sum::<u64>());
            for word in 0..words {
                let stores = self.units[unit].1.stores.iter();
                let streamed =
                    stores.filter(|store| !self.is_ordered(store) && store.live >> word & 1 == 1);
                push(Choice::Streamed(word), 1 + streamed.count() as u64);
            }
        }
        digits
    }

    fn image_of(&self, digits: &[Digit], image: &mut Vec<u8>) {
        image.clear();
        image.extend_from_slice(&self.durable);
        for of_unit in digits.chunk_by(|a, b| a.unit == b.unit) {
            let position = of_unit[0].unit;
            let (mut whole, mut torn) = (0, 0);
            // Per word: how many streamed stores to pass before the one that survives.
            let mut to_pass = [u64::MAX; 64];
            for digit in of_unit {
                match digit.choice {
                    Choice::Progress => (whole, torn) = self.progress(position, digit.value),
                    Choice::Streamed(word) => {
                        to_pass[word as usize] = digit.value.wrapping_sub(1);
                    }
                }
            }
            let survivors = Survivors {
                whole,
                torn,
                streamed: |store: &Store| {
                    let mut mask = 0;
                    for (word, passes) in to_pass.iter_mut().enumerate() {
                        if store.live >> word & 1 == 0 {
                            continue;
                        }
                        match *passes {
                            u64::MAX => {}
                            0 => {
                                mask |= 1 << word;
                                *passes = u64::MAX;
                            }
                            _ => *passes -= 1,
                        }
                    }
                    mask
                },
            };
            self.apply(position, survivors, image);
        }
    }

    /// Splits the value of a [`Choice::Progress`] digit into whole stores and the torn one.
    fn progress(&self, position: usize, value: u64) -> (usize, u64) {
        let mut left = value;
        let mut whole = 0;
        for store in self.ordered(position) {
            if left == 0 {
                break;
            }
            let tears = self.tears(store.live);
            if left < tears {
                return (whole, self.torn(store.live, left - 1));
            }
            left -= tears;
            whole += 1;
        }
        (whole, 0)
    }
}
