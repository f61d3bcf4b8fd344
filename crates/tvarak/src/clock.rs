//! The time of one core: out of order, with as many misses under way as its buffers allow.
//!
//! Instructions pass at a constant rate. A load that misses holds the core up when the reorder buffer is full of what came
//! after it, a store when the store buffer is; both when every line fill buffer is taken. Each of the three is a queue
//! in program order.

use std::collections::VecDeque;

/// The sizes of a core.
#[derive(Clone, Copy, Debug)]
pub struct CoreShape {
    /// Instructions a cycle where nothing misses.
    pub instructions_per_cycle: u64,
    /// Instructions of the reorder buffer.
    pub reorder_instructions: u64,
    /// Stores of the store buffer.
    pub store_buffer_stores: u64,
    /// Misses that are under way at most.
    pub fill_buffers: usize,
}

/// A miss that is under way: which instruction or store it is, and when it ends.
#[derive(Clone, Copy, Debug)]
struct Miss {
    number: u64,
    done: u64,
}

/// The clock of a core.
#[derive(Debug)]
pub struct CoreClock {
    shape: CoreShape,
    now: u64,
    /// Instructions of the current cycle.
    part: u64,
    /// Instructions so far.
    pub instructions: u64,
    stores: u64,
    loads_under_way: VecDeque<Miss>,
    stores_under_way: VecDeque<Miss>,
    /// When the value of the last load is there.
    last_load_done: u64,
}

impl CoreClock {
    /// At time nought.
    pub fn new(shape: CoreShape) -> CoreClock {
        CoreClock {
            shape,
            now: 0,
            part: 0,
            instructions: 0,
            stores: 0,
            loads_under_way: VecDeque::with_capacity(shape.fill_buffers),
            stores_under_way: VecDeque::with_capacity(shape.fill_buffers),
            last_load_done: 0,
        }
    }

    /// When the next instruction issues, in cycles.
    #[inline]
    pub fn now(&self) -> u64 {
        self.now
    }

    /// When everything that was issued is done.
    pub fn end(&self) -> u64 {
        let misses = self.loads_under_way.iter().chain(&self.stores_under_way);
        misses.map(|miss| miss.done).fold(self.now, u64::max)
    }

    /// So many instructions issue.
    #[inline]
    pub fn execute(&mut self, instructions: u64) {
        self.instructions += instructions;
        self.part += instructions;
        // A division takes longer than most calls of this.
        let per_cycle = self.shape.instructions_per_cycle;
        if self.part >= 2 * per_cycle {
            self.now += self.part / per_cycle;
            self.part %= per_cycle;
        } else if self.part >= per_cycle {
            self.now += 1;
            self.part -= per_cycle;
        }
        while let Some(oldest) = self.loads_under_way.front() {
            let is_in_buffer = self.instructions - oldest.number < self.shape.reorder_instructions;
            if is_in_buffer && oldest.done > self.now {
                break;
            }
            self.now = self.now.max(oldest.done);
            self.loads_under_way.pop_front();
        }
    }

    /// The core does something else, for so many cycles.
    pub fn stall(&mut self, cycles: u64) {
        self.now += cycles;
    }

    /// What issues next needs the value of the last load.
    #[inline]
    pub fn wait_for_last_load(&mut self) {
        self.now = self.now.max(self.last_load_done);
    }

    /// A load that hit next to the core.
    #[inline]
    pub fn load_hit(&mut self, done: u64) {
        self.last_load_done = done;
    }

    /// A load that missed there, and ends at `done`.
    pub fn load_missed(&mut self, done: u64) {
        self.last_load_done = done;
        self.loads_under_way.push_back(Miss {
            number: self.instructions,
            done,
        });
    }

    /// A store that hit next to the core.
    #[inline]
    pub fn store_hit(&mut self) {
        self.stores += 1;
        self.settle_stores();
    }

    /// A store that missed there, or had to ask for the line, which ends at `done`.
    pub fn store_missed(&mut self, done: u64) {
        self.stores += 1;
        self.settle_stores();
        self.stores_under_way.push_back(Miss {
            number: self.stores,
            done,
        });
    }

    fn settle_stores(&mut self) {
        while let Some(oldest) = self.stores_under_way.front() {
            let is_in_buffer = self.stores - oldest.number < self.shape.store_buffer_stores;
            if is_in_buffer && oldest.done > self.now {
                break;
            }
            self.now = self.now.max(oldest.done);
            self.stores_under_way.pop_front();
        }
    }

    /// A miss begins, as soon as there is a fill buffer for it: when that is.
    pub fn begin_miss(&mut self) -> u64 {
        while self.loads_under_way.len() + self.stores_under_way.len() >= self.shape.fill_buffers {
            let load = self.loads_under_way.front().map(|miss| miss.done);
            let store = self.stores_under_way.front().map(|miss| miss.done);
            let is_load_first = store.is_none_or(|store| load.is_some_and(|load| load <= store));
            let (queue, done) = match is_load_first {
                true => (&mut self.loads_under_way, load),
                false => (&mut self.stores_under_way, store),
            };
            queue.pop_front();
            self.now = self.now.max(done.unwrap_or(0));
        }
        self.now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock() -> CoreClock {
        CoreClock::new(CoreShape {
            instructions_per_cycle: 2,
            reorder_instructions: 128,
            store_buffer_stores: 4,
            fill_buffers: 3,
        })
    }

    #[test]
    fn a_miss_is_hidden_until_the_reorder_buffer_is_full() {
        let mut clock = clock();
        clock.load_missed(1000);
        clock.execute(127);
        assert_eq!(clock.now(), 63);
        clock.execute(1);
        assert_eq!(clock.now(), 1000);
    }

    #[test]
    fn what_depends_on_a_load_waits_for_it() {
        let mut clock = clock();
        clock.load_missed(500);
        clock.wait_for_last_load();
        assert_eq!(clock.now(), 500);
    }

    #[test]
    fn a_store_is_hidden_until_the_store_buffer_is_full() {
        let mut clock = clock();
        clock.store_missed(700);
        clock.execute(1000);
        assert_eq!(clock.now(), 500);
        for _ in 0..3 {
            clock.store_hit();
        }
        assert_eq!(clock.now(), 500);
        clock.store_hit();
        assert_eq!(clock.now(), 700);
    }

    #[test]
    fn a_miss_waits_for_a_fill_buffer() {
        let mut clock = clock();
        for done in [900, 800, 700] {
            assert_eq!(clock.begin_miss(), 0);
            clock.load_missed(done);
        }
        assert_eq!(clock.begin_miss(), 900);
        clock.load_missed(950);
        assert_eq!(clock.end(), 950);
    }
}
