//! Named one-line faults of the protocol, for checking the tests.
//!
//! Without the `mutants` feature `mutated` is the constant `false` and nothing of this is in the code that ships.
//! With it, one fault at a time can be switched on; the tests must then find lost or wrong data.

forebay_pmem::define_mutants! {
    /// A fault: one changed line of production code.
    #[allow(missing_docs)] // The names say what is broken; `name()` prints them.
    pub enum Mutant {
        OpenMarkAfterStore,
        SumsBeforeParity,
        RescanSkipped,
        SealedWhileMapped,
        SealBelievedAfterUnorderlyEnd,
        PagesNotFlushed,
        MateFromUnverifiedPage,
        RebuiltCountsAsVerified,
        StaleSidecarBelieved,
        GenerationDrawnTwice,
        PassNumberRepeated,
        UnverifiedNotRemembered,
        LineBeforeNotSettled,
        FirstPassTakesDifferingOnly,
    }
}
