//! Named one-line faults of the protocol, for checking the crash checker.
//!
//! Without the `mutants` feature `mutated` is the constant `false` and nothing of this is in the
//! code that ships. With it, one fault at a time can be switched on; `forebay-check mutants` must
//! then find lost or wrong data.

/// Defines a crate's `Mutant` with `ALL` and `name`, and the switches `set` and `mutated`. The feature
/// `mutants` is that crate's own.
#[doc(hidden)]
#[macro_export]
macro_rules! mutants {
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

mutants! {
    /// A fault: one changed line of production code.
    #[allow(missing_docs)] // The names say what is broken; `name()` prints them.
    pub enum Mutant {
        CommitFenceRemoved,
        RecordCrcSkipped,
        DataCheckSkipped,
        CheckpointPassesInFlight,
        CheckpointFlushSkipped,
        CheckpointFenceRemoved,
        LaneReusedBeforeCheckpoint,
        SlotFreedBeforeFence,
        DeltaBeforeFence,
        DeltaLinesNotFlushed,
        DeltaReplayedOnSlot,
        EvictWithoutRecord,
        EvictClearsOneHalf,
        CleanBeforeSync,
        CleanIgnoresRedirty,
        FillIgnoresVersion,
        FillWithoutFence,
        OlderRecordReplayedLast,
        JudgeByDataAlone,
        NewestToOldestDropped,
        SaltKept,
        SwitchBeforeFence,
        NamedBaseEntriesKept,
        StrictWordBeforeFence,
        StrictWordIgnored,
        AppendPublishedBeforeFence,
        ZeroWithoutRecord,
        DetachedBeforeEmptied,
        MarkAfterFirstAcknowledgement,
        SizeWithoutItsLine,
        GrownOverOldLog,
        PatchedSlotShared,
        SharedSlotPatched,
        SharedSlotFreed,
        SharedWithoutHold,
        ReferencesNotRebuilt,
        BasesNotHeld,
        GrowSyncSwallowed,
        ZeroingsForgotten,
        VolumeLinesUnsettled,
        PageCacheBelieved,
        ReadHitVersionIgnored,
        HeldWithoutRecheck,
        CompletedAppendUnmarked,
        TestedRecordNotFlushed,
        TwinTrustedByCrc,
        SettlingSkipped,
        EqualEntriesNotFlushed,
        SlotsGivenBackAfterFailedFence,
        FilledFromUnsyncedZeroes,
        SyncEpochIgnored,
        AttachedWithoutSync,
        TornLifePlaceKept,
        OddEndGrownUnlocked,
        CommittedAfterFailedFence,
        BaseVersionIgnored,
        AtomicReadUnchecked,
        ZeroedUnderReaders,
        WrittenBackUnderZeroing,
        WatermarkPassesInFlight,
        FilledAfterDetach,
        CleanEntriesNotFlushed,
    }
}
