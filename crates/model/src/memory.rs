//! Memory whose stores become durable when they like.
//!
//! A unit is what persists or not as a whole (eight bytes on real media). A store is visible at once and *pending* until a
//! fence of a thread that streamed or flushed it. A power cut keeps, unit by unit, any prefix of the pending stores.

/// What one unit holds.
pub type Word = u64;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Pending {
    unit: u8,
    /// Bit t: the next fence of thread t makes this store durable.
    captured: u8,
    streamed: bool,
    value: Word,
}

/// Units with a durable value each, and the stores on their way to them.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Memory {
    durable: Vec<Word>,
    /// Sorted by unit, in program order within a unit: the order between units means nothing.
    pending: Vec<Pending>,
}

impl Memory {
    /// `units` units, all durable zeroes.
    pub fn new(units: usize) -> Self {
        Memory {
            durable: vec![0; units],
            pending: Vec::new(),
        }
    }

    /// Sets a durable value, for a freshly made image.
    pub fn format(&mut self, unit: usize, value: Word) {
        self.durable[unit] = value;
    }

    /// What a load sees.
    pub fn view(&self, unit: usize) -> Word {
        let last = self.pending.iter().rev().find(|p| p.unit as usize == unit);
        last.map_or(self.durable[unit], |p| p.value)
    }

    /// What a power cut now is sure to leave at least.
    pub fn durable(&self, unit: usize) -> Word {
        self.durable[unit]
    }

    /// Whether a streamed store to this unit still waits for its fence.
    pub fn has_unfenced_stream(&self, unit: usize) -> bool {
        self.pending
            .iter()
            .any(|p| p.unit as usize == unit && p.streamed)
    }

    /// An ordinary cached store.
    pub fn store(&mut self, unit: usize, value: Word) {
        self.push(Pending {
            unit: unit as u8,
            captured: 0,
            streamed: false,
            value,
        });
    }

    /// A non-temporal store by `thread`.
    pub fn stream(&mut self, thread: usize, unit: usize, value: Word) {
        self.push(Pending {
            unit: unit as u8,
            captured: 1 << thread,
            streamed: true,
            value,
        });
    }

    /// A flush by `thread` captures the cached stores to the unit so far, but not what sits in another processor's write-combining buffer.
    pub fn flush(&mut self, thread: usize, unit: usize) {
        for p in self
            .pending
            .iter_mut()
            .filter(|p| p.unit as usize == unit && !p.streamed)
        {
            p.captured |= 1 << thread;
        }
    }

    /// A fence by `thread`: what it streamed or flushed is durable, and what the same unit held before that is history.
    pub fn fence(&mut self, thread: usize) {
        let bit = 1 << thread;
        self.settle(|pending| {
            pending
                .iter()
                .rposition(|p| p.captured & bit != 0)
                .map_or(0, |at| at + 1)
        });
    }

    /// What `thread` streamed has arrived, and no fence of its own will come.
    pub fn land(&mut self, thread: usize) {
        for p in &mut self.pending {
            if p.streamed && p.captured & 1 << thread != 0 {
                (p.captured, p.streamed) = (0, false);
            }
        }
    }

    /// Everything pending becomes durable (a backing's sync).
    pub fn sync(&mut self) {
        self.settle(<[Pending]>::len);
    }

    /// Everything pending is lost (a failed sync: the kernel drops the pages).
    pub fn drop_pending(&mut self) {
        self.pending.clear();
    }

    /// The pending stores to a unit never reach the medium, whatever a fence says; loads see what it has.
    pub fn lose(&mut self, unit: usize) {
        self.pending.retain(|p| p.unit as usize != unit);
    }

    /// The units that have pending stores.
    pub fn pending_units(&self) -> impl Iterator<Item = usize> + '_ {
        let runs = self.pending.chunk_by(|a, b| a.unit == b.unit);
        runs.map(|run| run[0].unit as usize)
    }

    /// For each unit with pending stores, how many there are.
    pub fn pending_counts(&self) -> Vec<u8> {
        self.pending
            .chunk_by(|a, b| a.unit == b.unit)
            .map(|run| run.len() as u8)
            .collect()
    }

    /// A power cut that keeps `kept[i]` stores of the i-th unit that has pending ones.
    pub fn power_cut(&mut self, kept: &[u8]) {
        let mut next = kept.iter();
        self.settle(|_| {
            *next
                .next()
                .expect("one count for each unit with pending stores") as usize
        });
        self.pending.clear();
    }

    /// The process dies and the machine does not: all stores stay visible, and no thread is left whose fence would cover them.
    pub fn kill(&mut self) {
        for p in &mut self.pending {
            p.captured = 0;
            p.streamed = false;
        }
    }

    fn push(&mut self, store: Pending) {
        let at = self.pending.partition_point(|p| p.unit <= store.unit);
        self.pending.insert(at, store);
    }

    /// Makes the first `keep(run)` stores of each unit's run durable and removes them.
    fn settle(&mut self, mut keep: impl FnMut(&[Pending]) -> usize) {
        let mut left = Vec::with_capacity(self.pending.len());
        for run in self.pending.chunk_by(|a, b| a.unit == b.unit) {
            let kept = keep(run);
            if kept > 0 {
                self.durable[run[0].unit as usize] = run[kept - 1].value;
            }
            left.extend_from_slice(&run[kept..]);
        }
        self.pending = left;
    }
}

#[cfg(test)]
mod tests {
    use super::Memory;

    #[test]
    fn a_fence_covers_its_own_thread_only() {
        let mut memory = Memory::new(2);
        memory.stream(0, 0, 7);
        memory.stream(1, 1, 8);
        memory.fence(1);
        assert_eq!((memory.durable(0), memory.durable(1)), (0, 8));
        assert_eq!(memory.view(0), 7);
        memory.kill();
        memory.fence(0);
        assert_eq!(memory.durable(0), 0);
        assert_eq!(memory.view(0), 7);
    }

    #[test]
    fn a_power_cut_keeps_a_prefix_of_each_unit() {
        let mut memory = Memory::new(2);
        memory.store(1, 1);
        memory.store(1, 2);
        memory.store(0, 3);
        assert_eq!(memory.pending_counts(), [1, 2]);
        memory.power_cut(&[0, 1]);
        assert_eq!((memory.view(0), memory.view(1)), (0, 1));
    }
}
