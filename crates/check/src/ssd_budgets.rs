//! Images within which each fault of the engine of pools on an SSD is to be noticed, from each seed.

use crate::search::IMAGES_MAX;
use forebay_log::mutants::Mutant;

/// The budget of a fault: at least six times what it takes on average, counted from a dozen seeds. So a change of what is
/// drawn hides none by chance, and a checker that has become blind to one says so early.
pub fn budget_images(fault: Mutant) -> u64 {
    match fault {
        // They show in almost any story.
        Mutant::SsdAckBeforeFlush
        | Mutant::SsdGroupPayloadUnchecked
        | Mutant::SsdIncarnationWithoutSeal
        | Mutant::SsdRecoveryWithoutFlush
        | Mutant::SsdPendingIgnored
        | Mutant::SsdSegmentReusedDirty
        | Mutant::SsdTombstoneWithoutOrder
        | Mutant::SsdDiscardWithoutRecord
        | Mutant::SsdCleanPointBeforeSync
        | Mutant::SsdPublishedOutOfOrder
        | Mutant::SsdVolumeRowUnsynced
        | Mutant::SsdVolumeFreedWithItsBlocks
        | Mutant::SsdRoundWritesWhatWas
        | Mutant::SsdPieceTakenForWhole
        | Mutant::SsdDurableBehindGap
        | Mutant::SsdSyncWithoutFlush
        | Mutant::SsdPatchLostBySeal
        | Mutant::SsdPatchUnderOlder
        | Mutant::SsdBroughtWithoutPatch
        | Mutant::SsdMirrorDurableOnOne
        | Mutant::SsdMirrorRosterUnsynced
        | Mutant::SsdMirrorStaleServed
        | Mutant::SsdMirrorSplitServed
        | Mutant::SsdMirrorNotEqualised
        | Mutant::SsdMirrorEqualisedUnsynced
        | Mutant::SsdMirrorFlushOfOne
        | Mutant::SsdMirrorRepairFromWrong
        | Mutant::SsdMirrorReaddBeforeCopy => 5_000,
        // They need two groups under way, a failure, or a crash at one moment.
        Mutant::SsdGapSkipped
        | Mutant::SsdAckOutOfOrder
        | Mutant::SsdSealListsInFlight
        | Mutant::SsdFillGroupUnsynced
        | Mutant::SsdCarriedPastPending
        | Mutant::SsdPoisonForgotten
        | Mutant::SsdVolumeCopiesTogether
        | Mutant::SsdCleanedPastRest
        | Mutant::SsdSealListsUnsettled
        | Mutant::SsdBroughtUnsettled
        | Mutant::SsdCarriedWithoutPatch
        | Mutant::SsdRecentWithoutPatch
        | Mutant::SsdPatchOverNewerBlock
        | Mutant::SsdPatchIgnoredByMerge => 25_000,
        // They need a ring that has lapped, and a block, a disk or a reader that is late by that much.
        Mutant::SsdCarriedOverNewer
        | Mutant::SsdCleanPointPastFailed
        | Mutant::SsdCleanedPastFailed => IMAGES_MAX,
        // And a crash, or the end of the read, between two writes of recycling.
        Mutant::SsdSegmentReusedBeforeTail
        | Mutant::SsdReadWithoutVersion
        | Mutant::SsdBaseGoneUnderPatch
        | Mutant::SsdCleanedPastPatch
        | Mutant::SsdCarriedIntoLastSegment => 2 * IMAGES_MAX,
        // And a write past the pool at that moment, to a block that nothing newer hides; or a part of a block between its write-back and the
        // sync of that.
        Mutant::SsdLetGoBeforeTail | Mutant::SsdCleanPastPatch => 6 * IMAGES_MAX,
        // It needs a crash that takes a segment's first group and leaves the one behind it, which then has the number, the place and the
        // sequences of the next incarnation's second one. It was refused as damage as well, more often, while records did not say
        // which groups were durable before them.
        Mutant::SsdSaltOfOldLap => 15 * IMAGES_MAX,
    }
}
