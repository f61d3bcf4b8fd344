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
    /// The commit record is not ordered after blocks and entries.
    UbjRecordUnordered,
    /// Checkpointed blocks are not synced.
    UbjFreedBeforeSync,
    /// Entries of older and newer versions are freed in no order.
    UbjVersionsFreedTogether,
    /// Head is not ordered after the ring's element.
    TincaHeadUnordered,
    /// Tail moves before log blocks are buffer blocks.
    TincaTailBeforeRoles,
    /// Evicted blocks are not synced.
    TincaFreedBeforeSync,
    /// An entry is not ordered after the ring's element that leads back from it.
    SpindleElementUnordered,
    /// Metadata is updated in place before its log is durable.
    SpindleLogUnordered,
    /// Evicted blocks are not synced.
    SpindleFreedBeforeSync,
}

impl Mutant {
    /// All of them.
    pub const ALL: [Mutant; 12] = [
        Mutant::ClassicTailBeforeCheckpoint,
        Mutant::ClassicCleanBeforeSync,
        Mutant::ClassicEntryBeforeContent,
        Mutant::UbjRecordUnordered,
        Mutant::UbjFreedBeforeSync,
        Mutant::UbjVersionsFreedTogether,
        Mutant::TincaHeadUnordered,
        Mutant::TincaTailBeforeRoles,
        Mutant::TincaFreedBeforeSync,
        Mutant::SpindleElementUnordered,
        Mutant::SpindleLogUnordered,
        Mutant::SpindleFreedBeforeSync,
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

    /// Whose fault it is.
    #[must_use]
    pub const fn engine(self) -> EngineName {
        use Mutant::{
            ClassicCleanBeforeSync, ClassicEntryBeforeContent, ClassicTailBeforeCheckpoint,
            SpindleElementUnordered, SpindleFreedBeforeSync, SpindleLogUnordered,
            TincaFreedBeforeSync, TincaHeadUnordered, TincaTailBeforeRoles, UbjFreedBeforeSync,
            UbjRecordUnordered, UbjVersionsFreedTogether,
        };
        match self {
            ClassicTailBeforeCheckpoint | ClassicCleanBeforeSync | ClassicEntryBeforeContent => {
                EngineName::Classic
            }
            UbjRecordUnordered | UbjFreedBeforeSync | UbjVersionsFreedTogether => EngineName::Ubj,
            TincaHeadUnordered | TincaTailBeforeRoles | TincaFreedBeforeSync => EngineName::Tinca,
            SpindleElementUnordered | SpindleLogUnordered | SpindleFreedBeforeSync => {
                EngineName::Spindle
            }
        }
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
