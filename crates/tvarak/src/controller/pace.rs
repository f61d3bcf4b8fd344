//! Whether cores get on faster since sets divide their ways in another way: what shadows promise, looked at afterwards.
//!
//! Shadows price what they count, and no price is right for every program. So a change is on trial for some rounds: look-ups of
//! the LLC a cycle, which are the cores' work, are compared with those before it. If there are fewer, the change is taken back, and
//! the next one waits twice as long. The first changes come before there is anything to compare with: there the division before them is
//! tried afterwards.

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
    /// Back to this one, or on to try it.
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
    /// The division that was left before there was anything to compare with.
    unseen: Option<usize>,
    /// Rounds so far: in the first ones shadows choose as they like, for caches are being filled.
    ended_rounds: u64,
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
            unseen: None,
            ended_rounds: 0,
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
    pub fn end_round(&mut self, winner: usize) -> Next {
        if self.rounds == 0 {
            return Next::Choose;
        }
        self.ended_rounds += 1;
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
        if let (Some(other), Some(_)) = (self.unseen, self.rate()) {
            self.unseen = None;
            self.change(winner);
            return Next::Take(other);
        }
        let is_first_looked_at = self.unseen.is_some() && self.ended_rounds > self.rounds / 4;
        match is_first_looked_at || self.paused_rounds > 0 {
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
        self.unseen = None;
        self.marks = std::iter::once(self.now).collect();
    }

    /// Sets are divided in another way from now on than in this one.
    pub fn change(&mut self, from: usize) {
        if self.rounds == 0 {
            return;
        }
        match self.rate() {
            Some(before) => {
                self.trial = Some(Trial {
                    from,
                    // What the change itself costs is not compared.
                    rounds_left: self.rounds.saturating_add(self.rounds / 4),
                    before,
                });
            }
            None => {
                self.unseen = self.unseen.or(Some(from));
                self.marks = std::iter::once(self.now).collect();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds of a hundred look-ups, each of so many cycles.
    fn go_on(pace: &mut Pace, now: &mut u64, rounds: u64, cycles: u64, winner: usize) -> Vec<Next> {
        let mut nexts = Vec::new();
        for _ in 0..rounds {
            for _ in 0..100 {
                *now += cycles;
                pace.looked_up(*now);
            }
            nexts.push(pace.end_round(winner));
        }
        nexts
    }

    #[test]
    fn a_change_that_slows_cores_down_is_taken_back_and_the_next_waits_twice_as_long() {
        let (mut pace, mut now) = (Pace::new(8), 0);
        assert_eq!(go_on(&mut pace, &mut now, 8, 50, 0), [Next::Choose; 8]);
        for pause_rounds in [8, 16] {
            pace.change(0);
            let nexts = go_on(&mut pace, &mut now, 10, 51, 3);
            assert_eq!(nexts[..9], [Next::Stay; 9]);
            assert_eq!(nexts[9], Next::Take(0));
            let nexts = go_on(&mut pace, &mut now, pause_rounds, 50, 0);
            let first = nexts.iter().position(|next| *next == Next::Choose);
            assert_eq!(first, Some(pause_rounds as usize - 1));
        }
    }

    #[test]
    fn one_that_does_not_stays() {
        let (mut pace, mut now) = (Pace::new(8), 0);
        go_on(&mut pace, &mut now, 8, 50, 0);
        pace.change(0);
        assert_eq!(go_on(&mut pace, &mut now, 10, 49, 3), [Next::Stay; 10]);
    }

    #[test]
    fn after_a_change_before_anything_was_seen_the_other_is_tried() {
        let (mut pace, mut now) = (Pace::new(8), 0);
        go_on(&mut pace, &mut now, 1, 80, 0);
        pace.change(0);
        let nexts = go_on(&mut pace, &mut now, 8, 50, 3);
        assert_eq!(nexts[0], Next::Choose);
        assert_eq!(nexts[1..7], [Next::Stay; 6]);
        assert_eq!(nexts[7], Next::Take(0));
        let nexts = go_on(&mut pace, &mut now, 10, 51, 0);
        assert_eq!(nexts.last(), Some(&Next::Take(3)));
    }
}
