//! How sets of the LLC divide their ways, found at run time, which the paper's §4.7 leaves for future work: a few sets of each bank have shadows
//! for each division, and all sets take the division whose shadows cost least.
//!
//! A cost is what fills take, in cycles: their latency, and what else keeps DIMMs busy as far as that makes fills wait. The latter's
//! price is measured: all waiting of fills for busy DIMMs, over all cycles that DIMMs were busy. Leaders, sets that keep to
//! a division, as in Qureshi and others' set duelling (ISCA 2007), were tried first: lines of a skewed program are hot in some leaders and
//! not in others, which moves their costs by more than divisions differ, and there are too few accesses in a run to tell.
//!
//! That no set has a way for redundancy is none of the divisions: it costs a tree more than this price says, since redundancy
//! that many lines share then lies in wait on one DIMM.

use crate::controller::pace::{Next, Pace};
pub use crate::controller::shadow::Division;
use crate::controller::shadow::{LineShadow, RedundancyShadow};

/// How the duel is held.
#[derive(Clone, Copy, Debug)]
pub struct DuelShape {
    /// Sets of a bank of the LLC.
    pub bank_sets: usize,
    /// Banks.
    pub banks: usize,
    /// Ways of a set, of all kinds.
    pub ways: u32,
    /// Sets of a bank that have shadows.
    pub shadowed_sets: usize,
    /// Accesses to these sets after which it is decided again.
    pub round_accesses: u64,
    /// Another division has to be cheaper by one part in so many.
    pub better_by: u64,
    /// How long a read of NVM keeps a DIMM busy.
    pub read_busy_cycles: u64,
    /// How long a write does.
    pub write_busy_cycles: u64,
    /// How long redundancy is looked for in caches before it is read from NVM.
    pub look_up_cycles: u64,
    /// Rounds over which it is looked at whether a change was good.
    pub trial_rounds: u64,
}

/// Divisions that are compared.
const DIVISIONS: usize = 6;
/// A division that is cheaper by one part in so many is no accident of the prices: it needs no trial.
const CLEARLY: f64 = 64.0;
/// Lines of redundancy that are changed for a line that is written back (§3.4).
const CHANGES: f64 = 3.0;

/// What fills took, and what kept DIMMs busy, in cycles.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    waited: u64,
    busy: u64,
    dram_fills: u64,
    dram: u64,
}

/// The duel of all banks.
#[derive(Debug)]
pub struct Duel {
    shape: DuelShape,
    divisions: [Division; DIVISIONS],
    winner: usize,
    lines: Vec<LineShadow>,
    redundancy: Vec<RedundancyShadow>,
    accesses: u64,
    pace: Pace,
    times: Times,
    /// The least that a fill from NVM took.
    least_cycles: u64,
    /// What the next fill waits for a look for its checksums in caches that lack them.
    look_up_cycles: u64,
    /// The next look at redundancy is for an old line, whose checksums are changed afterwards.
    is_for_old_line: bool,
    /// The look under way is for a fill, which waits for it.
    is_for_fill: bool,
}

impl Duel {
    /// One whose sets are divided as `fixed` until shadows show better.
    pub fn new(shape: DuelShape, fixed: Division) -> Duel {
        let of = |redundancy, diffs| Division { redundancy, diffs };
        let more =
            |times: u32| (fixed.redundancy * times).min(shape.ways.saturating_sub(fixed.diffs + 1));
        // The application keeps a way. Of two that cost the same, the first: more ways of redundancy cost the same as fewer while shadows are being filled, and more
        // fit sooner.
        let divisions = [
            fixed,
            of(1, fixed.diffs),
            of(fixed.redundancy, 0),
            of(1, 0),
            of(more(4), fixed.diffs),
            of(more(2), fixed.diffs),
        ];
        let shadowed = shape.shadowed_sets.min(shape.bank_sets) * shape.banks;
        let lines = divisions.map(|division| LineShadow::new(shadowed, shape.ways, division));
        let redundancy = divisions.map(|of| RedundancyShadow::new(shadowed, of.redundancy));
        Duel {
            shape,
            divisions,
            winner: 0,
            lines: lines.into(),
            redundancy: redundancy.into(),
            accesses: 0,
            pace: Pace::new(shape.trial_rounds),
            times: Times::default(),
            least_cycles: u64::MAX,
            look_up_cycles: 0,
            is_for_old_line: false,
            is_for_fill: false,
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

    /// How sets are to be divided now.
    pub fn wanted(&self) -> Division {
        self.divisions[self.winner]
    }

    /// The shadow of a set, if it has one: sets far from each other.
    #[inline]
    fn shadow_of(&self, set: usize) -> Option<usize> {
        let shape = &self.shape;
        let shadowed = shape.shadowed_sets.min(shape.bank_sets);
        let between = shape.bank_sets / shadowed;
        let (bank, place) = (set / shape.bank_sets, set % shape.bank_sets);
        let has_shadow = place.is_multiple_of(between) && place / between < shadowed;
        has_shadow.then(|| bank * shadowed + place / between)
    }

    /// What cores would have waited for under a division, in cycles.
    fn cost(&self, division: usize) -> f64 {
        let diffs = self.divisions[division].diffs;
        let (shape, seen) = (&self.shape, self.lines[division].seen);
        let ratio = |of: u64, all: u64| of as f64 / all.max(1) as f64;
        let of = &self.redundancy[division].seen;
        let unverified = ratio(of.verifications[1], of.verifications[0]);
        let (fills, write_backs) = (seen.nvm_fills as f64, seen.write_backs as f64);
        let old_reads = if diffs > 0 { 0.0 } else { 1.0 };
        // Where one division writes a line back once more than another, the line's redundancy is still there.
        let changes = CHANGES * self.lines[self.winner].seen.write_backs as f64;
        let [read, written] = [1, 2].map(|count| changes * ratio(of.changes[count], of.changes[0]));
        let reads = fills * (1.0 + unverified) + write_backs * old_reads + read;
        let writes = write_backs + written;
        let busy = reads * shape.read_busy_cycles as f64 + writes * shape.write_busy_cycles as f64;
        fills * (self.least_cycles as f64 + unverified * shape.look_up_cycles as f64)
            + seen.dram_fills as f64 * ratio(self.times.dram, self.times.dram_fills)
            + busy * self.price()
    }

    /// What fills waited for each cycle that a DIMM was busy.
    fn price(&self) -> f64 {
        self.times.waited as f64 / self.times.busy.max(1) as f64
    }

    /// The division that costs least, if it is cheaper by enough; else the one that there is.
    fn cheapest(&self) -> usize {
        let own = self.cost(self.winner);
        let all = 0..self.divisions.len();
        let cheapest = all.min_by(|one, other| self.cost(*one).total_cmp(&self.cost(*other)));
        let cheapest = cheapest.expect("there are divisions");
        match self.cost(cheapest) + own / (self.shape.better_by as f64) < own {
            true => cheapest,
            false => self.winner,
        }
    }

    fn decide(&mut self) {
        match self.pace.end_round() {
            Next::Stay => {}
            Next::Take(division) => self.winner = division,
            Next::Choose => {
                let cheapest = self.cheapest();
                let own = self.cost(self.winner);
                let is_clear = self.cost(cheapest) + own / CLEARLY < own;
                if is_clear {
                    self.pace.restart();
                    self.winner = cheapest;
                } else if cheapest != self.winner && self.pace.change(self.winner) {
                    self.winner = cheapest;
                }
            }
        }
        self.lines.iter_mut().for_each(LineShadow::fade);
        self.redundancy.iter_mut().for_each(RedundancyShadow::fade);
        let times = &mut self.times;
        for time in [
            &mut times.waited,
            &mut times.busy,
            &mut times.dram,
            &mut times.dram_fills,
        ] {
            *time /= 2;
        }
    }

    /// A line was looked up in the LLC at `now`.
    #[inline]
    pub fn looked_up(&mut self, set: usize, line: u32, is_nvm: bool, now: u64) {
        self.pace.looked_up(now);
        let Some(shadow) = self.shadow_of(set) else {
            return;
        };
        for lines in &mut self.lines {
            lines.look_up(shadow, line, is_nvm);
        }
        self.accesses += 1;
        if self.accesses == self.shape.round_accesses {
            self.accesses = 0;
            self.decide();
        }
    }

    /// A line of the file that has redundancy became dirty in the LLC, or left a core's cache changed when it left the LLC.
    #[inline]
    pub fn changed(&mut self, set: usize, line: u32) {
        if let Some(shadow) = self.shadow_of(set) {
            for lines in &mut self.lines {
                lines.change(shadow, line);
            }
        }
    }

    /// A line of redundancy was asked for, in any cache.
    #[inline]
    pub fn asked_for_redundancy(&mut self, set: usize, line: u32, is_change: bool) {
        let is_for_old_line = !is_change && std::mem::take(&mut self.is_for_old_line);
        self.is_for_fill = !is_change && !is_for_old_line;
        if let Some(shadow) = self.shadow_of(set)
            && !is_for_old_line
        {
            for redundancy in &mut self.redundancy {
                redundancy.ask(shadow, line, is_change);
            }
        }
    }

    /// A line was read from NVM for the LLC, which took so many cycles.
    pub fn filled(&mut self, cycles: u64) {
        self.least_cycles = self.least_cycles.min(cycles);
        let expected = self.least_cycles + std::mem::take(&mut self.look_up_cycles);
        self.times.waited += cycles.saturating_sub(expected);
        self.times.busy += self.shape.read_busy_cycles;
    }

    /// One was read from DRAM.
    pub fn filled_from_dram(&mut self, cycles: u64) {
        self.times.dram_fills += 1;
        self.times.dram += cycles;
    }

    /// A line of the file is written back, with a diff or without.
    pub fn written_back(&mut self, has_diff: bool) {
        self.times.busy += self.shape.write_busy_cycles;
        if !has_diff {
            self.times.busy += self.shape.read_busy_cycles;
            self.is_for_old_line = true;
        }
    }

    /// Caches lack the line of redundancy that was asked for last. What an old line is verified by, or is changed, keeps no fill waiting.
    pub fn lacked(&mut self) {
        if self.is_for_fill {
            self.look_up_cycles = self.shape.look_up_cycles;
        }
    }

    /// A line of redundancy was read from NVM, or written there.
    pub fn accessed_redundancy(&mut self, is_write: bool) {
        self.times.busy += match is_write {
            true => self.shape.write_busy_cycles,
            false => self.shape.read_busy_cycles,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIXED: Division = Division {
        redundancy: 2,
        diffs: 1,
    };
    const READ_CYCLES: u64 = 100;

    fn duel() -> Duel {
        let shape = DuelShape {
            bank_sets: 128,
            banks: 2,
            ways: 16,
            shadowed_sets: 4,
            round_accesses: 1 << 10,
            better_by: 64,
            read_busy_cycles: 10,
            write_busy_cycles: 25,
            look_up_cycles: 20,
            trial_rounds: 1 << 20,
        };
        Duel::new(shape, FIXED)
    }

    /// Looks up so many lines of each set, one after the other.
    fn go_round(duel: &mut Duel, lines: u32, waited_cycles: u64) {
        for round in 0..1000 {
            for set in 0..256 {
                duel.looked_up(set, round % lines, true, u64::from(round));
            }
            duel.filled(READ_CYCLES);
            duel.filled(READ_CYCLES + waited_cycles);
        }
    }

    #[test]
    fn some_sets_of_each_bank_have_shadows() {
        let duel = duel();
        let shadows: Vec<usize> = (0..256).filter_map(|set| duel.shadow_of(set)).collect();
        assert_eq!(shadows, (0..8).collect::<Vec<usize>>());
    }

    #[test]
    fn the_application_gets_ways_that_its_lines_need() {
        for (lines, wanted) in [
            (13, FIXED),
            (
                15,
                Division {
                    redundancy: 1,
                    diffs: 0,
                },
            ),
        ] {
            let mut duel = duel();
            go_round(&mut duel, lines, 0);
            assert_eq!(duel.wanted(), wanted);
        }
    }

    #[test]
    fn redundancy_gets_ways_that_spare_waiting() {
        for (waited_cycles, redundancy) in [(0, 2), (500, 8)] {
            let mut duel = duel();
            for round in 0..1000 {
                for set in 0..256 {
                    duel.asked_for_redundancy(set, round % 8, true);
                    duel.changed(set, round);
                }
                duel.accessed_redundancy(true);
                duel.filled(READ_CYCLES);
                duel.filled(READ_CYCLES + waited_cycles);
                duel.looked_up(0, round, true, u64::from(round));
            }
            duel.decide();
            assert_eq!(duel.wanted().redundancy, redundancy);
        }
    }

    #[test]
    fn what_an_old_line_is_verified_by_is_not_asked_for_a_fill() {
        let mut duel = duel();
        duel.written_back(false);
        duel.asked_for_redundancy(0, 1, false);
        duel.asked_for_redundancy(0, 2, false);
        assert_eq!(duel.redundancy[0].seen.verifications, [1, 1]);
    }

    #[test]
    fn only_a_fill_waits_for_a_look_at_what_it_is_verified_by() {
        let mut duel = duel();
        duel.filled(READ_CYCLES);
        let waited = |duel: &mut Duel| {
            let before = duel.times.waited;
            duel.filled(READ_CYCLES + 20);
            duel.times.waited - before
        };
        // For an old line, which a write-back without diff reads; and for a change.
        duel.written_back(false);
        duel.asked_for_redundancy(0, 1, false);
        duel.lacked();
        duel.asked_for_redundancy(0, 3, true);
        duel.lacked();
        assert_eq!(waited(&mut duel), 20);
        duel.asked_for_redundancy(0, 2, false);
        duel.lacked();
        assert_eq!(waited(&mut duel), 0);
        assert_eq!(waited(&mut duel), 20);
    }
}
