//! How a set of the LLC divides its ways, found by set duelling (Qureshi and others, "Adaptive Insertion Policies", ISCA 2007, which the
//! paper's §4.7 leaves for future work): a few sets of each bank keep to one division each, and the others take the cheapest.
//!
//! What a set's lines cost is charged to it: the fill of a line of the file, its write-back, and what its lines of redundancy
//! read and write. What other sets have to do for a write-back is charged as a mean, for it does not depend on how this one is divided.
//! Costs are compared by access, of lines of the file and of redundancy apart, since chance gives some leaders more of them. The
//! leaders of all banks count together: those of one see too little of a program within its run.

/// How a set divides its ways: what these leave is the application's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Division {
    /// Ways for redundancy. With none, controllers read and write it in NVM each time.
    pub redundancy: u32,
    /// Ways for diffs. With none, the old line is read for a write-back.
    pub diffs: u32,
}

/// Costs in halves of what a read keeps a DIMM busy for. A fill is what a core waits for; a write keeps a DIMM busy two and a half
/// times as long as a read. What no core waits for counts as far as it makes fills wait.
const FILL: u64 = 16;
const READ: u64 = 2;
const WRITE: u64 = 5;

/// How the duel is held.
#[derive(Clone, Copy, Debug)]
pub struct DuelShape {
    /// Sets of a bank of the LLC.
    pub bank_sets: usize,
    /// Sets of a bank between two leaders of one division.
    pub leaders_every: usize,
    /// Accesses to leaders after which it is decided again.
    pub round_accesses: u64,
    /// Another division has to be cheaper by one part in so many.
    pub better_by: u64,
}

/// What the leaders of a division saw: accesses, and what they cost.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    accesses: u64,
    costs: u64,
}

const DIVISIONS: usize = 6;
/// Parts of a cost.
const SCALE: u64 = 16;
const DATA: usize = 0;
const REDUNDANCY: usize = 1;

/// The duel of all banks.
#[derive(Debug)]
pub struct Duel {
    divisions: [Division; DIVISIONS],
    shape: DuelShape,
    winner: usize,
    /// Of lines of the file, and of redundancy.
    seen: [[Seen; DIVISIONS]; 2],
    /// What fills take on average, and the least that one took.
    fill_cycles: u64,
    least_cycles: u64,
    /// Of write-backs so far and what redundancy cost, to charge a mean.
    write_backs: u64,
    redundancy_costs: u64,
}

impl Duel {
    /// One whose sets are divided as `fixed` until leaders show better.
    pub fn new(shape: DuelShape, fixed: Division) -> Duel {
        let of = |redundancy, diffs| Division { redundancy, diffs };
        let more = fixed.redundancy * 2;
        Duel {
            divisions: [
                fixed,
                of(0, 0),
                of(1, fixed.diffs),
                of(fixed.redundancy, 0),
                of(1, 0),
                of(more, fixed.diffs),
            ],
            winner: 0,
            seen: [[Seen::default(); DIVISIONS]; 2],
            shape,
            fill_cycles: 0,
            least_cycles: u64::MAX,
            write_backs: 0,
            redundancy_costs: 0,
        }
    }

    /// The most ways of each kind that a set may have.
    pub fn most(&self) -> Division {
        let most = |of: fn(&Division) -> u32| self.divisions.iter().map(of).max().unwrap_or(0);
        Division {
            redundancy: most(|division| division.redundancy),
            diffs: most(|division| division.diffs),
        }
    }

    /// The division that a set of a bank leads for: sets far from each other, so that neighbours in it do not decide.
    fn leads(&self, set: usize) -> Option<usize> {
        let between = self.shape.leaders_every.min(self.shape.bank_sets);
        let place = set % self.shape.bank_sets % between;
        let step = (between / self.duelled()).max(1);
        (place.is_multiple_of(step) && place / step < self.duelled()).then_some(place / step)
    }

    /// How many divisions have leaders: those that come first, where sets are few, so that half of these follow.
    fn duelled(&self) -> usize {
        let between = self.shape.leaders_every.min(self.shape.bank_sets);
        (between / 2).clamp(1, DIVISIONS)
    }

    /// How a set is to be divided now.
    pub fn wanted(&self, set: usize) -> Division {
        self.divisions[self.leads(set).unwrap_or(self.winner)]
    }

    fn charge(&mut self, of: usize, set: usize, accesses: u64, costs: u64) {
        let Some(division) = self.leads(set) else {
            return;
        };
        let seen = &mut self.seen[of][division];
        seen.accesses += accesses;
        seen.costs += costs;
        if of == DATA && accesses > 0 {
            let all: u64 = self.seen[DATA].iter().map(|seen| seen.accesses).sum();
            if all >= self.shape.round_accesses {
                self.decide();
            }
        }
    }

    /// What an access costs under a division, of a line of the file with what it takes of redundancy.
    fn cost(&self, division: usize) -> u64 {
        const PARTS: u64 = 1 << 16;
        let all = |of: usize| {
            let accesses: u64 = self.seen[of].iter().map(|seen| seen.accesses).sum();
            accesses.max(1)
        };
        let mean = |of: usize| {
            let seen = self.seen[of][division];
            seen.costs * PARTS / seen.accesses.max(1)
        };
        mean(DATA) + mean(REDUNDANCY) * all(REDUNDANCY) / all(DATA)
    }

    fn decide(&mut self) {
        let own = self.cost(self.winner);
        let cheapest = (0..self.duelled()).min_by_key(|division| self.cost(*division));
        let cheapest = cheapest.expect("there are divisions");
        if self.cost(cheapest) + own / self.shape.better_by < own {
            self.winner = cheapest;
        }
        // What is long ago counts less.
        for seen in self.seen.iter_mut().flatten() {
            seen.accesses /= 2;
            seen.costs /= 2;
        }
    }

    /// A line of the file was looked up in the LLC.
    #[inline]
    pub fn accessed(&mut self, set: usize) {
        self.charge(DATA, set, 1, 0);
    }

    /// A line of redundancy was asked for, in any cache.
    #[inline]
    pub fn asked_for_redundancy(&mut self, set: usize) {
        self.charge(REDUNDANCY, set, 1, 0);
    }

    /// A line of the file was read for the LLC, which took so many cycles.
    pub fn filled(&mut self, set: usize, cycles: u64) {
        const SHARE: u64 = 256;
        self.least_cycles = self.least_cycles.min(cycles);
        self.fill_cycles = (self.fill_cycles * (SHARE - 1) + cycles * SCALE) / SHARE;
        self.charge(DATA, set, 0, FILL * SCALE);
    }

    /// Costs of what no core waits for: all of them, where fills take twice as long as at best or longer, and none where they do not wait.
    fn unwaited(&self, costs: u64) -> u64 {
        let waits = (self.fill_cycles).saturating_sub(self.least_cycles.saturating_mul(SCALE));
        costs * (waits / self.least_cycles.max(1)).min(SCALE)
    }

    /// A line of the file is written back, with a diff or without.
    pub fn written_back(&mut self, set: usize, has_diff: bool) {
        self.write_backs += 1;
        let old = if has_diff { 0 } else { READ };
        let costs = self.unwaited(WRITE + old) + self.redundancy_costs / self.write_backs;
        self.charge(DATA, set, 0, costs);
        if self.write_backs == 1 << 16 {
            self.write_backs /= 2;
            self.redundancy_costs /= 2;
        }
    }

    /// A line of redundancy was read from NVM to verify a fill, which waits for it.
    pub fn verified_by(&mut self, set: usize) {
        self.charge(REDUNDANCY, set, 0, READ * SCALE);
    }

    /// One was read from NVM to be changed, or written there.
    pub fn accessed_redundancy(&mut self, set: usize, is_write: bool) {
        let costs = self.unwaited(if is_write { WRITE } else { READ });
        self.redundancy_costs += costs;
        self.charge(REDUNDANCY, set, 0, costs);
    }

    /// How sets that do not lead are divided.
    pub fn winner(&self) -> Division {
        self.divisions[self.winner]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIXED: Division = Division {
        redundancy: 2,
        diffs: 1,
    };
    const SETS: usize = 128;

    fn duel() -> Duel {
        let shape = DuelShape {
            bank_sets: SETS,
            leaders_every: 64,
            round_accesses: 1 << 10,
            better_by: 16,
        };
        Duel::new(shape, FIXED)
    }

    fn set_of(duel: &Duel, leads: Option<usize>) -> usize {
        let mut sets = 0..SETS;
        sets.find(|set| duel.leads(*set) == leads).expect("one")
    }

    #[test]
    fn followers_take_the_division_whose_leaders_cost_least_and_leaders_keep_theirs() {
        let mut duel = duel();
        let follower = set_of(&duel, None);
        assert_eq!(duel.wanted(follower), FIXED);
        for _ in 0..100 {
            for set in 0..SETS {
                duel.accessed(set);
                if duel.leads(set) != Some(4) {
                    duel.filled(set, 100);
                }
            }
        }
        let without = Division {
            redundancy: 1,
            diffs: 0,
        };
        assert_eq!(duel.winner(), without);
        assert_eq!(duel.wanted(follower), without);
        assert_eq!(duel.wanted(set_of(&duel, Some(0))), FIXED);
    }

    #[test]
    fn chance_that_gives_leaders_more_accesses_decides_nothing() {
        let mut duel = duel();
        for round in 0..2000 {
            for set in 0..SETS {
                if duel.leads(set) != Some(1) || round % 4 == 0 {
                    duel.accessed(set);
                    duel.filled(set, 100);
                    duel.asked_for_redundancy(set);
                    duel.verified_by(set);
                }
            }
        }
        assert_eq!(duel.winner(), FIXED);
    }

    #[test]
    fn what_nobody_waits_for_counts_as_far_as_fills_wait() {
        let mut duel = duel();
        duel.filled(0, 100);
        assert_eq!(duel.unwaited(WRITE), 0);
        for _ in 0..2000 {
            duel.filled(0, 250);
        }
        assert_eq!(duel.unwaited(WRITE), WRITE * SCALE);
    }

    #[test]
    fn a_little_cheaper_is_not_enough() {
        let mut duel = duel();
        for round in 0..2000 {
            for set in 0..SETS {
                duel.accessed(set);
                if duel.leads(set) != Some(5) || round % 32 != 0 {
                    duel.filled(set, 100);
                }
            }
        }
        assert_eq!(duel.winner(), FIXED);
    }
}
