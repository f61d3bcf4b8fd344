//! Named one-line faults of the engines' protocols, for checking the crash checker.
//!
//! Without the `mutants` feature `mutated` is the constant `false`. With it, one fault at a time can
//! be switched on; `forebay-check mutants` must then find lost or wrong data.

use crate::engines::EngineName;

/// A fault: one changed line of an engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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

impl Mutant {
    /// All of them.
    pub const ALL: [Mutant; 16] = [
        Mutant::ClassicTailBeforeCheckpoint,
        Mutant::ClassicCleanBeforeSync,
        Mutant::ClassicEntryBeforeContent,
        Mutant::ClassicBeliefNotDurable,
        Mutant::UbjRecordUnordered,
        Mutant::UbjFreedBeforeSync,
        Mutant::UbjVersionsFreedTogether,
        Mutant::UbjBeliefNotDurable,
        Mutant::TincaHeadUnordered,
        Mutant::TincaTailBeforeRoles,
        Mutant::TincaFreedBeforeSync,
        Mutant::TincaBeliefNotDurable,
        Mutant::SpindleElementUnordered,
        Mutant::SpindleLogUnordered,
        Mutant::SpindleFreedBeforeSync,
        Mutant::SpindleBeliefNotDurable,
    ];

    /// The name, in the way reports print it.
    #[must_use]
    pub fn name(self) -> String {
        let mut name = String::new();
        for letter in format!("{self:?}").chars() {
            if letter.is_uppercase() && !name.is_empty() {
                name.push('_');
            }
            name.push(letter.to_ascii_lowercase());
        }
        name
    }

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

#[cfg(feature = "mutants")]
static ACTIVE: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(u32::MAX);

/// Switches one fault on for the whole process, or all off.
#[cfg(feature = "mutants")]
pub fn set(mutant: Option<Mutant>) {
    let value = mutant.map_or(u32::MAX, |mutant| mutant as u32);
    ACTIVE.store(value, std::sync::atomic::Ordering::SeqCst);
}

/// Whether this fault is on.
#[inline(always)]
pub(crate) fn mutated(mutant: Mutant) -> bool {
    #[cfg(feature = "mutants")]
    return ACTIVE.load(std::sync::atomic::Ordering::Relaxed) == mutant as u32;
    #[cfg(not(feature = "mutants"))]
    {
        let _ = mutant;
        false
    }
}
