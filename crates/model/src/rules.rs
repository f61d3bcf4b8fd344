//! The rules of the protocol, and the one of them that a mutant breaks.

/// The mutants of a model: what each is called, and what it does wrong.
macro_rules! mutants {
    ($($variant:ident $name:literal $what:literal),+ $(,)?) => {
        /// One broken rule each.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum Mutant { $(#[doc = $what] $variant),+ }

        impl Mutant {
            /// All of them.
            pub const ALL: &[Mutant] = &[$(Mutant::$variant),+];

            /// The name that reports use.
            pub fn name(self) -> &'static str {
                match self { $(Mutant::$variant => $name),+ }
            }

            /// What is done wrong.
            pub fn what(self) -> &'static str {
                match self { $(Mutant::$variant => $what),+ }
            }
        }
    };
}
pub(crate) use mutants;

mutants! {
    RecordFenceMissing "record_fence_missing" "A commit is published and acknowledged without its fence.",
    SlotFreedBeforeFence "slot_freed_before_fence" "Old slots are handed out before the record that removes them is fenced.",
    DeltaBeforeFence "delta_before_fence" "A delta is applied in place before its record's fence.",
    DeltaOnUnfencedFill "delta_on_unfenced_fill" "A filled slot is published without its filler's fence, so another thread's delta stands on sand.",
    SharedSlotDeltaInPlace "shared_slot_delta_in_place" "A delta is applied in place to a slot with two owners.",
    ShareOfUnflushedDelta "share_of_unflushed_delta" "A slot is shared while its in-place delta is not flushed.",
    AppendAfterUnflushedDelta "append_after_unflushed_delta" "A slot is appended to while its in-place delta is not flushed.",
    CheckpointPassesInFlight "checkpoint_passes_in_flight" "The checkpoint does not wait for commits that drew a lower sequence.",
    CheckpointFenceMissing "checkpoint_fence_missing" "S is stored without a fence after the flush of what it declares durable.",
    CheckpointSkipsSlotLines "checkpoint_skips_slot_lines" "The checkpoint flushes table lines but not the slots changed in place.",
    CheckpointOverNewestLine "checkpoint_over_newest_line" "S is written over the newest checkpoint line instead of the older one.",
    GoneEntriesNotSent "gone_entries_not_sent" "A checkpoint of entries in DRAM leaves those in the table that are gone from DRAM.",
    LaneReusedBeforeCheckpointDurable "lane_reused_before_checkpoint_durable" "Lane bytes are handed out before the fence of S.",
    LaneTailTakenLate "lane_tail_taken_late" "The lanes' new tails are read after S was chosen instead of before.",
    SeparateLaneTails "separate_lane_tails" "A lane forgets by itself: its bytes are reused with no S for all lanes.",
    RecordsBelowCheckpointAccepted "stale_lap_accepted" "Recovery believes records of an earlier lap that S has forgotten.",
    ClassificationByDataAlone "classification_by_data_alone" "Every record is classified by its slots' bytes, whatever newer records prove.",
    NewestToOldestDropped "newest_to_oldest_dropped" "A newer record of the same key does not prove the older one.",
    RecordsNotTested "records_not_tested" "Every record with a good CRC is believed, whatever its slots hold.",
    WatermarkCountsUnfenced "watermark_counts_unfenced" "The watermark in a record counts sequences that are drawn but not fenced.",
    DeltaReplayedOnSlot "delta_replayed_on_slot" "Deltas are replayed on the slot they name, whichever key owns it by now.",
    DeltaNotReplayed "delta_not_replayed" "Recovery restores mappings and forgets the deltas.",
    RedoThroughOlderBytes "redo_through_older_bytes" "Recovery redoes deltas in place one after the other instead of storing the final bytes.",
    OlderRecordReplayedLast "older_record_replayed_last" "Replay runs from the newest record to the oldest.",
    BaseEntryOfNamedPositionKept "base_entry_of_named_position_kept" "Table entries are believed at positions that accepted records name.",
    VanishedPositionNotCleared "vanished_position_not_cleared" "Recovery leaves the table entry of a key that records removed.",
    ReplayByKey "replay_by_key" "A key that records name takes no entry from elsewhere in the table, which stays there all the same.",
    TornEntryNotCleared "torn_entry_not_cleared" "A torn fill is ignored by recovery but left in the table.",
    OneParityForBothHalves "one_parity_for_both_halves" "One parity covers both halves of an entry, so that a clean mark tears.",
    ZeroEntryLooksTorn "zero_entry_looks_torn" "A zero entry's slot half is all zeroes, like a torn fill's.",
    StrictWordBeforeFence "strict_word_before_fence" "In strict mode the commit word is stored before the record's fence.",
    StrictWordOfOtherIncarnationBelieved "strict_word_of_other_incarnation_believed" "In strict mode the commit word is not bound to the incarnation.",
    SaltNotChanged "salt_not_changed_on_recovery" "A new incarnation keeps the old one's salt.",
    CheckpointLineOfOtherIncarnationBelieved "checkpoint_line_of_other_incarnation_believed" "S is taken from a checkpoint line that an earlier incarnation wrote.",
    CheckpointLineWithIncarnation "checkpoint_line_with_incarnation" "An incarnation needs a checkpoint line of its own from the start, and both are written before one fence.",
    SwitchBeforeTableDurable "switch_before_table_durable" "The incarnation switch is not fenced apart from what recovery wrote.",
    IncarnationOverNewestLine "incarnation_over_newest_line" "A new incarnation is written over the only good incarnation line.",
    RecoveryBelievesVisible "recovery_believes_visible" "After a mere kill, recovery builds on bytes that are visible but not durable.",
    RecoverySkipsEqualWords "recovery_skips_equal_words" "Recovery does not flush a word that already reads as it should.",
    EvictWithoutRecord "evict_without_record" "Evict clears the entry and frees the slot with no tombstone.",
    EvictClearsOneHalf "evict_clears_one_half" "Evict clears the slot half of the entry only.",
    DiscardWithoutRecord "discard_without_record" "Discard clears the entry and frees the slot with no tombstone.",
    FillRacesWrite "fill_races_write" "A fill installs what it read although the block was written and evicted meanwhile.",
    FillDuringWriteBack "fill_during_write_back" "A fill reads the backing while a write-back of that block is not yet synced.",
    CleanBeforeSync "clean_before_sync" "A block is marked clean before the backing's sync.",
    CleanIgnoresRedirty "clean_ignores_redirty" "A block that changed during its write-back is marked clean.",
    TwoWriteBacksInFlight "two_write_backs_in_flight" "Two write-backs of one block may be in flight.",
    WriteBackForgottenWithEntry "write_back_forgotten_with_entry" "The write-back in flight is remembered in the entry, and lost with it at a discard.",
    FailedSyncForgotten "failed_sync_forgotten" "After a failed sync, a batch written before it is marked clean by the next good one.",
    BackingNotSyncedAtOpen "backing_not_synced_at_open" "Open serves fills from a backing that still holds a killed process's unsynced writes.",
}

/// What an exploration runs under.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules {
    /// The broken rule, if any.
    pub broken: Option<Mutant>,
    /// Whether the protocol's own invariants are asserted at each step, besides what a user could see.
    pub invariants: bool,
}

impl Rules {
    /// Whether `mutant` is the broken rule.
    pub fn breaks(&self, mutant: Mutant) -> bool {
        self.broken == Some(mutant)
    }
}
