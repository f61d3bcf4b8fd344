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
        /// The commit record is not ordered after blocks and entries.
        UbjRecordUnordered,
        /// Checkpointed blocks are not synced.
        UbjFreedBeforeSync,
        /// Entries of older and newer versions are freed in no order.
        UbjVersionsFreedTogether,
        /// What recovery believes after a kill is not made durable.
        UbjBeliefNotDurable,
        /// Head is not ordered after the ring's element.
        TincaHeadUnordered,
        /// Tail moves before log blocks are buffer blocks.
        TincaTailBeforeRoles,
        /// Evicted blocks are not synced.
        TincaFreedBeforeSync,
        /// What recovery believes after a kill is not made durable.
        TincaBeliefNotDurable,
        /// An entry is not ordered after the ring's element that leads back from it.
        SpindleElementUnordered,
        /// Metadata is updated in place before its log is durable.
        SpindleLogUnordered,
        /// Evicted blocks are not synced.
        SpindleFreedBeforeSync,
        /// What recovery believes after a kill is not made durable.
        SpindleBeliefNotDurable,
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
}
