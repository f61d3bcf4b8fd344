//! Named one-line faults of the engine, for checking the crash checker.
//!
//! Without the `mutants` feature `mutated` is the constant `false`. With it, one fault at a time can
//! be switched on; `forebay-verify crash mutants` must then find lost or wrong data.

forebay_pmem::define_mutants! {
    /// A fault: one changed line of the engine.
    pub enum Mutant {
        /// A group is written without being made durable.
        SsdAckBeforeFlush,
        /// Recovery believes a record whose blocks it has not checked.
        SsdGroupPayloadUnchecked,
        /// Recovery goes on behind a group that is not valid.
        SsdGapSkipped,
        /// A group is acknowledged before the one that precedes it.
        SsdAckOutOfOrder,
        /// A segment's summary is written before all its groups are.
        SsdSealListsInFlight,
        /// The next incarnation begins without the last segment's summary.
        SsdIncarnationWithoutSeal,
        /// What recovery read after a kill is not made durable.
        SsdRecoveryWithoutFlush,
        /// Part of a block is merged with the durable version although a newer one is staged.
        SsdPendingIgnored,
        /// A group of fills alone is written without being made durable.
        SsdFillGroupUnsynced,
        /// Every incarnation has the same salt.
        SsdSaltOfOldLap,
        /// A segment is written over before a durable record says that it is gone.
        SsdSegmentReusedBeforeTail,
        /// A segment goes although blocks in it are on no backing.
        SsdSegmentReusedDirty,
        /// A block is carried forward although a newer version is published.
        SsdCarriedOverNewer,
        /// A block is carried forward although a newer version is staged.
        SsdCarriedPastPending,
        /// Recovery applies ranges without regard to what was written before and after them.
        SsdTombstoneWithoutOrder,
        /// A discard leaves no element in the log.
        SsdDiscardWithoutRecord,
        /// The clean point moves before the backing is synced.
        SsdCleanPointBeforeSync,
        /// The clean point passes blocks whose write-back failed.
        SsdCleanPointPastFailed,
        /// Older versions are published after newer ones.
        SsdPublishedOutOfOrder,
        /// Groups go on after one has failed.
        SsdPoisonForgotten,
        /// A reader does not notice that what it read was reused meanwhile.
        SsdReadWithoutVersion,
        /// A row of the volume table is written without being made durable.
        SsdVolumeRowUnsynced,
        /// Both pages of a row of the volume table are written by one write.
        SsdVolumeCopiesTogether,
        /// A volume's number is free while the log still has its blocks.
        SsdVolumeFreedWithItsBlocks,
        /// The clean point moves past segments of which a backing has not taken everything.
        SsdCleanedPastFailed,
        /// A flush that let recycling go on writes blocks as they were before that.
        SsdRoundWritesWhatWas,
        /// The clean point moves past a range of which only a piece is zeroed.
        SsdCleanedPastRest,
        /// A range counts as zeroed when its first piece is.
        SsdPieceTakenForWhole,
        /// A block that is carried forward takes the last free segment, and leaves none for the record by which its old one comes free.
        SsdCarriedIntoLastSegment,
        /// A block counts as let go of before a durable record says that its segment is gone.
        SsdLetGoBeforeTail,
        /// A durable write stands behind groups that were only written, and nothing makes these durable.
        SsdDurableBehindGap,
        /// A sync returns without a flush of what was only written.
        SsdSyncWithoutFlush,
        /// A segment's summary is written before groups that it lists are flushed.
        SsdSealListsUnsettled,
        /// A backing gets what was only written to the log.
        SsdBroughtUnsettled,
        /// Recovery takes no patches from a segment that has a summary.
        SsdPatchLostBySeal,
        /// A block goes with its segment although a patch of it is staged.
        SsdBaseGoneUnderPatch,
        /// A patch is laid under those that are older.
        SsdPatchUnderOlder,
        /// A block is carried forward without its patches.
        SsdCarriedWithoutPatch,
        /// The patches of a block are laid over its next version as well.
        SsdPatchOverNewerBlock,
        /// A backing gets a block without its patches.
        SsdBroughtWithoutPatch,
        /// A block counts as written back although a patch was published meanwhile.
        SsdCleanPastPatch,
        /// A block that is written whole lacks the patches that are staged.
        SsdPatchIgnoredByMerge,
        /// The clean point moves past patches of blocks in older segments that are on no backing.
        SsdCleanedPastPatch,
        /// A block whose page is in memory still is read without its patches.
        SsdRecentWithoutPatch,
        /// A durable write is durable on the first member alone when it is acknowledged.
        SsdMirrorDurableOnOne,
        /// The roster without a member that failed is not durable when what the other one has alone is acknowledged.
        SsdMirrorRosterUnsynced,
        /// A member that the roster calls out is served.
        SsdMirrorStaleServed,
        /// Two members that were each used without the other are served as one.
        SsdMirrorSplitServed,
        /// What recovery accepted of one member is not written to the other one.
        SsdMirrorNotEqualised,
        /// What is written to the other one is not flushed before the next incarnation begins.
        SsdMirrorEqualisedUnsynced,
        /// A sync flushes the first member alone.
        SsdMirrorFlushOfOne,
        /// A page that is wrong on one member is written to the other one.
        SsdMirrorRepairFromWrong,
        /// A member is called in before what was copied to it is durable.
        SsdMirrorReaddBeforeCopy,
    }
}
