//! How full and how dirty a cache is, and what follows from it.

use forebay::unstable::plan;

/// When write-back and reclaim begin: the marks of Forebay's options, with the same meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Watermarks {
    /// Per mille of the slots that may be dirty before write-back begins; it ends there, too.
    pub dirty_low_per_mille: u32,
    /// Per mille of the slots above which a writer waits for write-back.
    pub dirty_high_per_mille: u32,
    /// Per mille of the slots that are kept free.
    pub free_low_per_mille: u32,
}

impl Default for Watermarks {
    /// Dirty blocks stay as long as LRU keeps them, so that overwrites meet them: all slots may be dirty, and then
    /// the coldest are written back as they leave. As many are kept free as a few transactions take, or clients and
    /// cleaner would take turns.
    fn default() -> Watermarks {
        Watermarks {
            dirty_low_per_mille: 1000,
            dirty_high_per_mille: 1000,
            free_low_per_mille: 10,
        }
    }
}

/// How one pool of slots stands: a cache that divides its slots has several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Level {
    /// Slots of the pool.
    pub(crate) slots: u64,
    /// Of these, slots that a client may take.
    pub(crate) free: u64,
    /// Slots that are taken for what the disk lacks.
    pub(crate) dirty: u64,
    /// Slots to keep free at least, whatever the marks say.
    pub(crate) free_least: u64,
}

impl Level {
    fn free_target(&self, marks: &Watermarks) -> u64 {
        let target = plan::free_target(self.slots, marks.free_low_per_mille);
        target.max(self.free_least).min(self.slots)
    }

    /// Whether reclaim is to begin.
    pub(super) fn is_low(&self, marks: &Watermarks) -> bool {
        self.free < self.free_target(marks)
    }

    /// Slots that it is to free.
    pub(super) fn lacking(&self, marks: &Watermarks) -> u64 {
        let ample = plan::ample(self.free_target(marks)).min(self.slots);
        ample.saturating_sub(self.free)
    }

    /// Whether the coldest blocks leave whatever they are.
    pub(super) fn is_dirty_throughout(&self, marks: &Watermarks) -> bool {
        let low = self.per_mille(marks.dirty_low_per_mille);
        plan::is_dirty_throughout(self.slots, self.dirty, low)
    }

    /// Dirty slots above the low mark.
    pub(super) fn above_low(&self, marks: &Watermarks) -> u64 {
        let low = marks.dirty_low_per_mille.min(marks.dirty_high_per_mille);
        self.dirty.saturating_sub(self.per_mille(low))
    }

    /// Whether writers wait.
    pub(super) fn is_above_high(&self, marks: &Watermarks) -> bool {
        self.dirty > self.per_mille(marks.dirty_high_per_mille)
    }

    fn per_mille(&self, per_mille: u32) -> u64 {
        self.slots * u64::from(per_mille) / 1000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_marks_say_when_reclaim_and_write_back_begin_and_end() {
        let marks = Watermarks {
            dirty_low_per_mille: 500,
            dirty_high_per_mille: 900,
            free_low_per_mille: 20,
        };
        let level = |free, dirty| Level {
            slots: 1000,
            free,
            dirty,
            free_least: 1,
        };
        assert!(level(19, 0).is_low(&marks) && !level(20, 0).is_low(&marks));
        assert_eq!(level(19, 0).lacking(&marks), 21);
        assert_eq!(level(41, 0).lacking(&marks), 0);
        assert_eq!(level(0, 500).above_low(&marks), 0);
        assert_eq!(level(0, 701).above_low(&marks), 201);
        assert!(!level(0, 900).is_above_high(&marks) && level(0, 901).is_above_high(&marks));
        // Write-back works ahead of need there.
        assert!(!level(0, 1000).is_dirty_throughout(&marks));
        let usual = Watermarks::default();
        assert!(level(0, 876).is_dirty_throughout(&usual));
        assert!(!level(0, 875).is_dirty_throughout(&usual));
    }
}
