//! Named one-line faults of the controller, for checking the tests.
//!
//! Without the `mutants` feature `mutated` is the constant `false` and nothing of this is in the code that measures.
//! With it, one fault at a time can be switched on; the tests must then find lost or wrong data.

forebay_pmem::define_mutants! {
    /// A fault: one changed line of the controller.
    #[allow(missing_docs)] // The names say what is broken; `name()` prints them.
    pub enum Mutant {
        VerificationSkipped,
        OldDataUnverified,
        LastLineNotMatched,
        SumNotUpdated,
        LineSumNotUpdated,
        ParityNotUpdated,
        DiffReplaced,
        DiffKeptAfterEviction,
        EvictedDiffDropped,
        SharersNotInvalidated,
        OwnerNotAsked,
        OwnCopyDropped,
        DirtyRedundancyDropped,
        RedundancyNotFlushed,
        RepairNotWritten,
        MatesUnverified,
        CleanedByDivisionUnwritten,
        DiffOfDirtyLine,
        OtherCoresNotAsked,
        FirstCopyNotForgotten,
        CleanedLineLeftDirty,
        NewestCopyNotInDiff,
        UseNotNoted,
        LineSumsNotScrubbed,
    }
}
