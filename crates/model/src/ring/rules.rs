//! The rules of the ring, and the one of them that a mutant breaks.

use crate::rules::mutants;

mutants! {
    AckBeforeFlush "ring_ack_before_flush" "A group is written without being made durable.",
    GroupPayloadUnchecked "ring_group_payload_unchecked" "A group counts if its record holds, whatever its blocks are.",
    GapSkipped "ring_gap_skipped" "Recovery goes on behind a group that does not count.",
    AckOutOfOrder "ring_ack_out_of_order" "A group is published when its write returns, whatever became of those before it.",
    SealListsInFlight "ring_seal_lists_in_flight" "A summary is written while groups of its segment are under way.",
    IncarnationWithoutSeal "ring_incarnation_without_seal" "Recovery begins an incarnation without a summary of the newest segment.",
    RecoveryWithoutFlush "ring_recovery_without_flush" "Recovery lists in a summary what may be in the disk's cache alone.",
    PendingIgnored "ring_pending_ignored" "A part of a block is merged with the published version, whatever is staged.",
    FillGroupUnsynced "ring_fill_group_unsynced" "A group of fills alone is written without being made durable.",
    SegmentReusedBeforeTail "ring_segment_reused_before_tail" "A place is written over before a durable record says that its segment is gone.",
    SegmentReusedDirty "ring_segment_reused_dirty" "The tail passes a segment that has what its backing lacks.",
    CarriedOverNewer "ring_carried_over_newer" "A block is carried forward although a newer version has been published.",
    CarriedPastPending "ring_carried_past_pending" "A block is carried forward although a newer version is staged.",
    TombstoneWithoutOrder "ring_tombstone_without_order" "Recovery applies segments in the order of their places.",
    DiscardWithoutRecord "ring_discard_without_record" "A range of zeroes is published and stands in no record.",
    CleanPointBeforeSync "ring_clean_point_before_sync" "Blocks are clean, and the clean point moves, before the backing is synced.",
    CleanPointPastFailed "ring_clean_point_past_failed" "The clean point moves past a block that the backing did not take.",
    PublishedOutOfOrder "ring_published_out_of_order" "Elements of a group are published in the wrong order.",
    PoisonForgotten "ring_poison_forgotten" "After a failed write the next groups go on.",
    ReadWithoutVersion "ring_read_without_version" "A reader does not ask whether its block has moved.",
    FillRacesWrite "ring_fill_races_write" "A fill is kept although the block has changed since it was read.",
    DurableBehindGap "ring_durable_behind_gap" "A durable write stands behind groups that were only written, and no flush follows it.",
    SyncWithoutFlush "ring_sync_without_flush" "A sync returns without a flush.",
    SealListsUnsettled "ring_seal_lists_unsettled" "A summary is written before groups that it lists are flushed.",
    BroughtUnsettled "ring_brought_unsettled" "The backing gets what was only written to the log.",
    SyncCoversLater "ring_sync_covers_later" "A sync counts groups as durable that were published after its flush began.",
    TailOfOwnSeal "ring_tail_of_own_seal" "A summary names the tail that only the group behind it makes durable.",
}

/// What an exploration runs under.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules {
    /// The broken rule, if any.
    pub broken: Option<Mutant>,
}

impl Rules {
    /// Whether `mutant` is the broken rule.
    pub fn breaks(self, mutant: Mutant) -> bool {
        self.broken == Some(mutant)
    }
}
