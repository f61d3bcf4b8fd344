//! Whether cores get on faster since sets divide their ways in another way: what shadows promise, looked at afterwards.
//!
//! Shadows price what they count, and no price is right for every program. So a change is on trial for some rounds: look-ups of
//! the LLC a cycle, which are the cores' work, are compared with those before it. If there are fewer, the change is taken back, and
//! the next one waits twice as long. As long as there is nothing to compare with, none is tried.

/// Look-ups and the time of a round's end.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    look_ups: u64,
    cycles: u64,
}

/// A division on trial.
#[derive(Clone, Copy, Debug)]
struct Trial {
    /// The one before.
    from: usize,
    /// The rounds left, those that caches take to fill included.
    rounds_left: u64,
    /// Look-ups a cycle before.
    before: f64,
}

/// What the end of a round comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The division stays.
    Stay,
    /// Shadows may choose another.
    Choose,
    /// Back to this one.
    Take(usize),
}

/// The pace of all cores.
#[derive(Debug)]
pub struct Pace {
    /// Rounds that are compared: some times as long as the LLC takes to be filled anew. With none, nothing is on trial.
    rounds: u64,
    now: Mark,
    /// The end of each of the last rounds, so many and one.
    marks: std::collections::VecDeque<Mark>,
    trial: Option<Trial>,
    /// Rounds for which no change is tried once the next trial has ended.
    pause_rounds: u64,
    paused_rounds: u64,
}

impl Pace {
    /// Before the first access; so many rounds are compared.
    pub fn new(rounds: u64) -> Pace {
        Pace {
            rounds,
            now: Mark::default(),
            marks: std::iter::once(Mark::default()).collect(),
            trial: None,
            pause_rounds: rounds,
            paused_rounds: 0,
        }
    }

    /// A core looked a line up in the LLC. Cores are ahead of each other by little; the latest tells the time.
    #[inline]
    pub fn looked_up(&mut self, now: u64) {
        self.now.look_ups += 1;
        self.now.cycles = self.now.cycles.max(now);
    }

    /// Look-ups a cycle over the last rounds; none where there were too few.
    fn rate(&self) -> Option<f64> {
        let first = self.marks.front()?;
        let is_enough = self.marks.len() as u64 > self.rounds;
        let cycles = (self.now.cycles - first.cycles).max(1);
        let look_ups = self.now.look_ups - first.look_ups;
        is_enough.then(|| look_ups as f64 / cycles as f64)
    }

    /// A round ends.
    pub fn end_round(&mut self) -> Next {
        if self.rounds == 0 {
            return Next::Choose;
        }
        self.marks.push_back(self.now);
        if self.marks.len() as u64 - 1 > self.rounds {
            self.marks.pop_front();
        }
        if let Some(trial) = &mut self.trial {
            trial.rounds_left -= 1;
            if trial.rounds_left > 0 {
                return Next::Stay;
            }
            return self.settle();
        }
        self.paused_rounds = self.paused_rounds.saturating_sub(1);
        match self.paused_rounds > 0 {
            true => Next::Stay,
            false => Next::Choose,
        }
    }

    fn settle(&mut self) -> Next {
        let (trial, rate) = (self.trial.take(), self.rate());
        let (Some(trial), Some(rate)) = (trial, rate) else {
            return Next::Choose;
        };
        // Whichever is kept now stays for a while: the other one was just seen to be worse.
        self.paused_rounds = self.pause_rounds;
        self.pause_rounds = self.pause_rounds.saturating_mul(2);
        match rate < trial.before {
            true => Next::Take(trial.from),
            false => Next::Stay,
        }
    }

    /// Sets are divided in another way from now on, of which no trial is asked.
    pub fn restart(&mut self) {
        self.marks = std::iter::once(self.now).collect();
    }

    /// Sets are to be divided in another way than in this one, on trial: whether they may be. They may not while there is nothing to
    /// compare with.
    pub fn change(&mut self, from: usize) -> bool {
        let Some(before) = self.rate() else {
            return false;
        };
        self.trial = (self.rounds > 0).then(|| Trial {
            from,
            // What the change itself costs is not compared.
            rounds_left: self.rounds.saturating_add(self.rounds / 4),
            before,
        });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds of a hundred look-ups, each of so many cycles.
    fn go_on(pace: &mut Pace, now: &mut u64, rounds: u64, cycles: u64) -> Vec<Next> {
        let mut nexts = Vec::new();
        for _ in 0..rounds {
            for _ in 0..100 {
                *now += cycles;
                pace.looked_up(*now);
            }
            nexts.push(pace.end_round());
        }
        nexts
    }

    #[test]
    fn a_change_that_slows_cores_down_is_taken_back_and_the_next_waits_twice_as_long() {
        let (mut pace, mut now) = (Pace::new(8), 0);
        assert_eq!(go_on(&mut pace, &mut now, 8, 50), [Next::Choose; 8]);
        for pause_rounds in [8, 16] {
            assert!(pace.change(0));
            let nexts = go_on(&mut pace, &mut now, 10, 51);
            assert_eq!(nexts[..9], [Next::Stay; 9]);
            assert_eq!(nexts[9], Next::Take(0));
            let nexts = go_on(&mut pace, &mut now, pause_rounds, 50);
            let first = nexts.iter().position(|next| *next == Next::Choose);
            assert_eq!(first, Some(pause_rounds as usize - 1));
        }
    }

    #[test]
    fn one_that_does_not_stays() {
        let (mut pace, mut now) = (Pace::new(8), 0);
        go_on(&mut pace, &mut now, 8, 50);
        assert!(pace.change(0));
        assert_eq!(go_on(&mut pace, &mut now, 10, 49), [Next::Stay; 10]);
    }

    #[test]
    fn before_there_is_anything_to_compare_with_none_is_tried() {
        let (mut pace, mut now) = (Pace::new(8), 0);
        go_on(&mut pace, &mut now, 7, 80);
        assert!(!pace.change(0));
        go_on(&mut pace, &mut now, 1, 80);
        assert!(pace.change(0));
        // Nor while caches are filled after a change that needed no trial.
        pace.restart();
        assert!(!pace.change(0));
    }

    #[test]
    fn with_no_rounds_nothing_is_on_trial() {
        let (mut pace, mut now) = (Pace::new(0), 0);
        assert!(pace.change(0));
        assert_eq!(go_on(&mut pace, &mut now, 2, 50), [Next::Choose; 2]);
    }
}
