//! Named one-line faults of the engines' protocols, for checking the crash checker.
//!
//! Without the `mutants` feature `mutated` is the constant `false`. With it, one fault at a time can
//! be switched on; `forebay-verify crash mutants` must then find lost or wrong data.

use crate::engines::EngineName;

forebay_pmem::define_mutants! {
    /// A fault: one changed line of an engine.
    pub enum Mutant {
        /// The journal's tail leaves log blocks behind before what they hold is in place.
        ClassicTailBeforeCheckpoint,
        /// Cleaned blocks are not synced.
        ClassicCleanBeforeSync,
        /// A slot's entry is written before its content.
        ClassicEntryBeforeContent,
        /// What recovery believes after a kill is not made durable.
        ClassicBeliefNotDurable,
        /// The cleaner takes a block for clean that was written again meanwhile.
        ClassicCleanerIgnoresRewrite,
        /// The cleaner takes blocks for clean that the disk has not synced.
        ClassicCleanerBeforeSync,
        /// What a read found is kept although the block was written meanwhile.
        ClassicStaleFill,
        /// The commit record is not ordered after blocks and entries.
        UbjRecordUnordered,
        /// Checkpointed blocks are not synced.
        UbjFreedBeforeSync,
        /// Entries of older and newer versions are freed in no order.
        UbjVersionsFreedTogether,
        /// What recovery believes after a kill is not made durable.
        UbjBeliefNotDurable,
        /// The cleaner takes a block for clean that was written again meanwhile.
        UbjCleanerIgnoresRewrite,
        /// The cleaner takes blocks for clean that the disk has not synced.
        UbjCleanerBeforeSync,
        /// What a read found is kept although the block was written meanwhile.
        UbjStaleFill,
        /// Head is not ordered after the ring's element.
        TincaHeadUnordered,
        /// Tail moves before log blocks are buffer blocks.
        TincaTailBeforeRoles,
        /// Evicted blocks are not synced.
        TincaFreedBeforeSync,
        /// What recovery believes after a kill is not made durable.
        TincaBeliefNotDurable,
        /// The cleaner takes a block for clean that was written again meanwhile.
        TincaCleanerIgnoresRewrite,
        /// The cleaner takes blocks for clean that the disk has not synced.
        TincaCleanerBeforeSync,
        /// What a read found is kept although the block was written meanwhile.
        TincaStaleFill,
        /// An entry is not ordered after the ring's element that leads back from it.
        SpindleElementUnordered,
        /// Metadata is updated in place before its log is durable.
        SpindleLogUnordered,
        /// Evicted blocks are not synced.
        SpindleFreedBeforeSync,
        /// What recovery believes after a kill is not made durable.
        SpindleBeliefNotDurable,
        /// The cleaner takes a block for clean that was written again meanwhile.
        SpindleCleanerIgnoresRewrite,
        /// The cleaner takes blocks for clean that the disk has not synced.
        SpindleCleanerBeforeSync,
        /// What a read found is kept although the block was written meanwhile.
        SpindleStaleFill,
    }
}

impl Mutant {
    /// Whose fault it is: its name begins with the engine's.
    #[must_use]
    pub fn engine(self) -> EngineName {
        let name = self.name();
        let found = EngineName::ALL
            .into_iter()
            .find(|engine| name.starts_with(engine.as_str()));
        found.expect("every mutant is named after its engine")
    }

    /// Whether it is a fault of the engine with its cleaner.
    #[must_use]
    pub fn is_of_cleaner(self) -> bool {
        let name = self.name();
        name.contains("_cleaner_") || name.ends_with("_stale_fill")
    }
}
