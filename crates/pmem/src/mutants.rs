//! Named one-line faults of this crate, for checking the crash checker: as in `mutants.rs` of the cache, which
//! has those of the protocol.

/// Defines a crate's `Mutant` with `ALL` and `name`, and the switches `set` and `mutated`. The feature
/// `mutants` is that crate's own.
#[doc(hidden)]
#[macro_export]
macro_rules! define_mutants {
    ($(#[$about:meta])* pub enum Mutant { $($(#[$fault:meta])* $name:ident,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Mutant {
            $($(#[$fault])* $name,)+
        }

        impl Mutant {
            /// All of them.
            pub const ALL: [Mutant; [$(Mutant::$name),+].len()] = [$(Mutant::$name),+];

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
        }

        /// Whether the faults are in this build: what ships, soaks or measures refuses to start with them.
        pub const IN_BUILD: bool = cfg!(feature = "mutants");

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
    };
}

define_mutants! {
    /// A fault: one changed line.
    pub enum Mutant {
        /// A lost page reads as zeroes before its loss is recorded.
        LostPageRecordedLate,
    }
}
