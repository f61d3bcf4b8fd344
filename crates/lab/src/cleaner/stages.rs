//! What the cleaner's threads do at a wakeup, and what a client does that lacks room.

use std::time::Instant;

use forebay::unstable::plan;
use forebay::{ErrorKind, Result};

use super::health::Asking;
use super::level::Level;
use super::picked::{Goal, Outcome};
use super::round::{Cleanable, Cleaner, Round};

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
    /// the one in progress. The client holds nothing, so others may take the room before it does. A disk that fails is
    /// not asked again; then clean blocks go, if any.
    ///
    /// # Errors
    /// `NoSpace`: nothing can go; the disk's or the medium's, and there is not enough that can go without the disk.
    pub(crate) fn make_room<C: Cleanable>(&self, cache: &C, pool: usize, slots: u64) -> Result<()> {
        let mut round = self.begin_round();
        let mut all = Outcome::default();
        loop {
            let level = cache.levels()[pool];
            if level.free >= slots {
                return Ok(());
            }
            let lacking = level.lacking(&self.marks).max(slots - level.free);
            let wanted = [(pool, level, lacking)];
            let outcome = self.reclaim(cache, &mut round, &wanted, !all.has_disk_failed)?;
            let has_progressed = outcome.has_progressed();
            all.add(outcome);
            if !has_progressed {
                all.into_result()?;
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
    /// The medium's. What the disk refuses stays dirty, and is not what the client asked for; the health has it.
    pub(crate) fn keep_below_high<C: Cleanable>(&self, cache: &C) -> Result<()> {
        let mut round = self.begin_round();
        let goals = self.goals_above_low(cache, |level| level.is_above_high(&self.marks));
        self.run(cache, &mut round, &goals).map(drop)
    }

    /// Writes back everything that is dirty when this is called, in rounds each with a sync of its own: what one made clean is not
    /// written again because of a later one. A failure of the disk ends it.
    ///
    /// # Errors
    /// The disk's or the medium's; of blocks that the medium lost, the rest was written all the same.
    pub(crate) fn flush<C: Cleanable>(&self, cache: &C) -> Result<()> {
        let mut all = Outcome::default();
        let mut positions = cache.dirty_positions();
        while !positions.is_empty() && !all.has_disk_failed {
            // Rounds of others may go in between: what they clean, the disk has durably as well.
            let mut round = self.begin_round();
            let (outcome, next) = self.run_portion(cache, &mut round, positions.clone())?;
            all.add(outcome);
            positions.start = next.unwrap_or(positions.end);
        }
        all.into_result()
    }

    /// What both threads do at a wakeup.
    ///
    /// # Errors
    /// The medium's, and the disk's where it failed.
    pub(super) fn turn<C: Cleanable>(&self, cache: &C) -> Result<()> {
        let mut all = self.flush_stage(cache, Asking::Always)?;
        all.add(self.reclaim_stage(cache, Asking::Always)?);
        all.into_result()
    }

    /// The flusher's work: down to the low mark.
    ///
    /// # Errors
    /// The medium's.
    pub(super) fn flush_stage<C: Cleanable>(&self, cache: &C, asking: Asking) -> Result<Outcome> {
        let mut all = Outcome::default();
        while !self.wakeup.is_stopping() && self.health.may_ask(asking, Instant::now()) {
            let mut round = self.begin_round();
            let goals = self.goals_above_low(cache, |_| true);
            if goals.is_empty() {
                break;
            }
            let outcome = self.run(cache, &mut round, &goals)?;
            let goes_on = outcome.has_progressed() && !outcome.has_disk_failed;
            all.add(outcome);
            if !goes_on {
                break;
            }
        }
        Ok(all)
    }

    /// The reclaimer's work: once fewer slots of a pool are free than is wanted, twice as many.
    ///
    /// # Errors
    /// The medium's.
    pub(super) fn reclaim_stage<C: Cleanable>(&self, cache: &C, asking: Asking) -> Result<Outcome> {
        let levels = cache.levels().into_iter().enumerate();
        let low = levels.filter(|(_, level)| level.is_low(&self.marks));
        let low: Vec<usize> = low.map(|(pool, _)| pool).collect();
        let mut all = Outcome::default();
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
            let may_ask = !all.has_disk_failed && self.health.may_ask(asking, Instant::now());
            let outcome = self.reclaim(cache, &mut round, &wanted, may_ask)?;
            let has_progressed = outcome.has_progressed();
            all.add(outcome);
            if !has_progressed {
                break;
            }
        }
        Ok(all)
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
    /// otherwise of the coldest clean ones. Where neither is to be had, dirty ones are made clean. A disk that may not be
    /// asked, or that fails at the first of these, is left alone.
    fn reclaim<C: Cleanable>(
        &self,
        cache: &C,
        round: &mut Round,
        wanted: &[(usize, Level, u64)],
        may_ask: bool,
    ) -> Result<Outcome> {
        let mut all = Outcome::default();
        for way in [Goal::Coldest, Goal::ColdestClean, Goal::Clean] {
            let needs_disk = !matches!(way(1), Goal::ColdestClean(_));
            if needs_disk && (!may_ask || all.has_disk_failed) {
                continue;
            }
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
            all.add(self.run(cache, round, &goals)?);
            if all.has_progressed() {
                break;
            }
        }
        Ok(all)
    }
}
