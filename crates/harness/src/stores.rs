//! Programs that store into mapped memory at a pace, as those that have a region mapped do.

use std::hint;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Words of a page of 4 KiB.
pub const PAGE_WORDS: usize = 512;

/// Between two looks of a thread at what is due, and at whether it is over.
const STEP: Duration = Duration::from_micros(500);

/// One thread's stores: a word in each of so many distinct pages a second. No page comes again before all others of
/// the thread's have.
#[derive(Debug)]
pub struct PacedStores<'m> {
    memory: &'m [AtomicU64],
    /// The thread's pages in the order in which they are stored to.
    pages: Vec<u32>,
    next: usize,
    rate_s: u64,
    /// Since the pace began.
    done: u64,
}

impl<'m> PacedStores<'m> {
    /// Stores of one of `parts` threads that share the pages of `memory` and the rate, `rate_s` pages a second of all
    /// together.
    ///
    /// # Panics
    /// There is no such part, or no page for it.
    #[must_use]
    pub fn new(
        memory: &'m [AtomicU64],
        rate_s: u64,
        (part, parts): (usize, usize),
    ) -> PacedStores<'m> {
        assert!(part < parts);
        let count = u32::try_from(memory.len() / PAGE_WORDS).expect("less than 16 TiB");
        let mut pages: Vec<u32> = (0..count).collect();
        // All parts shuffle alike, so that no two of them share a page.
        fastrand::Rng::with_seed(101).shuffle(&mut pages);
        let pages: Vec<u32> = pages.into_iter().skip(part).step_by(parts).collect();
        assert!(!pages.is_empty());
        let share = |parts_before: usize| rate_s * parts_before as u64 / parts as u64;
        PacedStores {
            memory,
            pages,
            next: 0,
            rate_s: share(part + 1) - share(part),
            done: 0,
        }
    }

    /// Stores into every page of the thread's once, without a pace.
    pub fn touch_all(&mut self) {
        for _ in 0..self.pages.len() {
            self.store_one();
        }
    }

    /// The pace begins now. Which page is next stays.
    pub fn begin(&mut self) {
        self.done = 0;
    }

    /// Stores into the pages that are due so long after the pace began; how many.
    pub fn store_due(&mut self, since_beginning: Duration) -> u64 {
        let due = since_beginning.as_nanos() * u128::from(self.rate_s) / 1_000_000_000;
        let due = u64::try_from(due).unwrap_or(u64::MAX);
        let count = due.saturating_sub(self.done);
        for _ in 0..count {
            self.store_one();
        }
        self.done += count;
        count
    }

    /// Stores at the pace until it is over, `is_over` being asked with the time that it has lasted.
    pub fn store_until(&mut self, mut is_over: impl FnMut(Duration) -> bool) {
        self.begin();
        let start = Instant::now();
        while !is_over(start.elapsed()) {
            self.store_due(start.elapsed());
            thread::sleep(STEP);
        }
    }

    fn store_one(&mut self) {
        let page = self.pages[self.next] as usize;
        self.next = (self.next + 1) % self.pages.len();
        add_one(self.memory, page);
    }
}

/// Stores into the first `pages` pages of `memory` without a pause until it is stopped.
pub fn store_without_rest(memory: &[AtomicU64], pages: usize, is_stopped: &AtomicBool) {
    while !is_stopped.load(Ordering::Relaxed) {
        for page in 0..pages {
            add_one(memory, page);
        }
        hint::spin_loop();
    }
}

/// A page's bytes differ after each store, so that its sum does.
fn add_one(memory: &[AtomicU64], page: usize) {
    let word = &memory[page * PAGE_WORDS];
    word.store(
        word.load(Ordering::Relaxed).wrapping_add(1),
        Ordering::Relaxed,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(pages: usize) -> Vec<AtomicU64> {
        (0..pages * PAGE_WORDS).map(|_| AtomicU64::new(0)).collect()
    }

    fn stored(memory: &[AtomicU64]) -> Vec<u64> {
        let words = memory.iter().step_by(PAGE_WORDS);
        words.map(|word| word.load(Ordering::Relaxed)).collect()
    }

    #[test]
    fn what_is_due_is_stored_once_and_no_page_twice_before_all_others() {
        let memory = memory(100);
        let mut stores = PacedStores::new(&memory, 100, (0, 1));
        assert_eq!(stores.store_due(Duration::from_millis(500)), 50);
        assert_eq!(stores.store_due(Duration::from_millis(500)), 0);
        assert_eq!(stored(&memory).iter().sum::<u64>(), 50);
        assert_eq!(stores.store_due(Duration::from_secs(1)), 50);
        assert_eq!(stored(&memory), [1; 100]);
        stores.begin();
        assert_eq!(stores.store_due(Duration::from_millis(10)), 1);
    }

    #[test]
    fn parts_share_no_page_and_together_have_the_rate() {
        let memory = memory(100);
        let stored_by_all: u64 = (0..3)
            .map(|part| {
                let mut stores = PacedStores::new(&memory, 100, (part, 3));
                stores.store_due(Duration::from_secs(1))
            })
            .sum();
        assert_eq!(stored_by_all, 100);
        assert_eq!(
            stored(&memory).iter().filter(|&&count| count > 1).count(),
            1
        );
        for part in 0..3 {
            PacedStores::new(&memory, 1, (part, 3)).touch_all();
        }
        assert_eq!(stored(&memory).iter().sum::<u64>(), 200);
    }
}
