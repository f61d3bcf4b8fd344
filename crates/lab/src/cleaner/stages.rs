//! What the cleaner's threads do at a wakeup, and what a client does that lacks room.

use forebay::unstable::plan;
use forebay::{ErrorKind, Result};

use super::level::Level;
use super::round::{Cleanable, Cleaner, Goal, Outcome, Round};

impl Cleaner {
    /// Called by a client that changed how a pool stands, and may hold the engine's mutex. Returns whether the
    /// client is to call [`Cleaner::keep_below_high`] when it does not.
    pub(crate) fn note(&self, level: &Level) -> bool {
        if level.is_low(&self.marks) || level.above_low(&self.marks) > 0 {
            self.wakeup.ask();
        }
        level.is_above_high(&self.marks)
    }

    /// Makes room for a client that lacks it in a pool, until so many slots are free: with rounds of its own, after
    /// the one in progress. The client holds nothing, so others may take the room before it does.
    ///
    /// # Errors
    /// `NoSpace`: nothing can go; the disk's or the medium's, and nothing went.
    pub(crate) fn make_room<C: Cleanable>(&self, cache: &C, pool: usize, slots: u64) -> Result<()> {
        let mut round = self.begin_round();
        loop {
            let level = cache.levels()[pool];
            if level.free >= slots {
                return Ok(());
            }
            let lacking = level.lacking(&self.marks).max(slots - level.free);
            let outcome = self.reclaim(cache, &mut round, &[(pool, level, lacking)])?;
            if !outcome.has_progressed() {
                outcome.into_result()?;
                return Err(ErrorKind::NoSpace {
                    waited_ms: 0,
                    dirty_blocks: level.dirty,
                }
                .into());
            }
        }
    }

    /// Has a client that wrote above the high mark make a round.
    ///
    /// # Errors
    /// The medium's. What the disk refuses stays dirty, and is not what the client asked for.
    pub(crate) fn keep_below_high<C: Cleanable>(&self, cache: &C) -> Result<()> {
        let mut round = self.begin_round();
        let goals = self.goals_above_low(cache, |level| level.is_above_high(&self.marks));
        self.run(cache, &mut round, &goals).map(drop)
    }

    /// Writes back everything that is dirty when this is called.
    ///
    /// # Errors
    /// The disk's or the medium's; the rest was written all the same.
    pub(crate) fn flush<C: Cleanable>(&self, cache: &C) -> Result<()> {
        let mut round = self.begin_round();
        let pools = cache.levels().len();
        let goals: Vec<(usize, Goal)> = (0..pools).map(|pool| (pool, Goal::CleanAll)).collect();
        self.run(cache, &mut round, &goals)?.into_result()
    }

    /// What both threads do at a wakeup.
    ///
    /// # Errors
    /// The disk's or the medium's, where nothing went on.
    pub(super) fn turn<C: Cleanable>(&self, cache: &C) -> Result<()> {
        self.flush_stage(cache)?;
        self.reclaim_stage(cache)
    }

    /// The flusher's work: down to the low mark.
    pub(super) fn flush_stage<C: Cleanable>(&self, cache: &C) -> Result<()> {
        while !self.wakeup.is_stopping() {
            let goals = self.goals_above_low(cache, |_| true);
            if goals.is_empty() {
                break;
            }
            let outcome = self.run(cache, &mut self.begin_round(), &goals)?;
            if !outcome.has_progressed() {
                return outcome.into_result();
            }
        }
        Ok(())
    }

    /// The reclaimer's work: once fewer slots of a pool are free than is wanted, twice as many.
    pub(super) fn reclaim_stage<C: Cleanable>(&self, cache: &C) -> Result<()> {
        let levels = cache.levels().into_iter().enumerate();
        let low = levels.filter(|(_, level)| level.is_low(&self.marks));
        let low: Vec<usize> = low.map(|(pool, _)| pool).collect();
        while !low.is_empty() && !self.wakeup.is_stopping() {
            let mut round = self.begin_round();
            let levels = cache.levels();
            let wanted = low.iter().map(|&pool| {
                let level = levels[pool];
                (pool, level, level.lacking(&self.marks))
            });
            let wanted: Vec<(usize, Level, u64)> = wanted.filter(|wanted| wanted.2 > 0).collect();
            if wanted.is_empty() {
                break;
            }
            let outcome = self.reclaim(cache, &mut round, &wanted)?;
            if !outcome.has_progressed() {
                return outcome.into_result();
            }
        }
        Ok(())
    }

    /// Makes the pools that are asked for cleaner, a batch at most.
    fn goals_above_low<C: Cleanable>(
        &self,
        cache: &C,
        is_asked: impl Fn(&Level) -> bool,
    ) -> Vec<(usize, Goal)> {
        let mut left = plan::round_blocks(cache.block_bytes());
        let mut goals = Vec::new();
        for (pool, level) in cache.levels().into_iter().enumerate() {
            let blocks = (level.above_low(&self.marks) as usize).min(left);
            if blocks > 0 && is_asked(&level) {
                goals.push((pool, Goal::Clean(blocks)));
                left -= blocks;
            }
        }
        goals
    }

    /// Frees slots of pools, so many of each, a batch at most: of the coldest blocks where hardly any are clean,
    /// otherwise of the coldest clean ones. Where neither is to be had, dirty ones are made clean.
    fn reclaim<C: Cleanable>(
        &self,
        cache: &C,
        round: &mut Round,
        wanted: &[(usize, Level, u64)],
    ) -> Result<Outcome> {
        let mut outcome = Outcome::default();
        for way in [Goal::Coldest, Goal::ColdestClean, Goal::Clean] {
            let mut left = plan::EVICT_BATCH_MAX;
            let mut goals = Vec::new();
            for (pool, level, slots) in wanted {
                let blocks = (*slots as usize).min(left);
                let goal = way(blocks);
                let is_its = level.is_dirty_throughout(&self.marks);
                if blocks > 0 && (is_its || !matches!(goal, Goal::Coldest(_))) {
                    goals.push((*pool, goal));
                    left -= blocks;
                }
            }
            outcome = self.run(cache, round, &goals)?;
            if outcome.has_progressed() {
                break;
            }
        }
        Ok(outcome)
    }
}
