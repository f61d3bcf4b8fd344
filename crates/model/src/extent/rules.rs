//! The rules of mapped regions, and the one of them that a mutant breaks.

use crate::rules::mutants;

mutants! {
    OpenMarkAfterFirstStore "open_mark_after_first_store" "The program may store before the mark `open` is fenced.",
    MarkOnOneSidecarOnly "mark_on_one_sidecar_only" "The mark `open` is stored in one sidecar only.",
    SumsBeforeParity "sums_before_parity" "Sums are stored and fenced first; the pass ends when the parity is streamed.",
    LastFenceMissing "last_fence_missing" "A pass ends when its sums are stored, without the fence after them.",
    PagesNotFlushed "pages_not_flushed" "A pass does not flush the pages that it copied.",
    RescanSkipped "rescan_skipped" "A pass does not look again which pages were written after it copied them.",
    RescanProtects "rescan_protects" "The look after the copies protects the pages again, so that the next pass does not find them.",
    LeftRowForgotten "left_row_forgotten" "Pages whose row left a pass because of a mate are not taken by the next pass.",
    MatesTakenAsTheyAre "mates_taken_as_they_are" "Row mates that do not match their sums are summed as they are.",
    SyncLeavesRows "sync_leaves_rows" "`sync` does not hold the writers, and returns without the rows that were written meanwhile.",
    RepairUnheld "repair_unheld" "A page is repaired without holding its writers.",
    RepairNotJudgedAgain "repair_not_judged_again" "A repair holds the writers and does not judge the page again then.",
    SealedWhileMapped "sealed_while_mapped" "The program goes on storing during the last pass and the seal.",
    SealedUnverified "sealed_unverified" "The seal is stored without reading back what the last pass wrote.",
    SealBelievedAfterUnorderlyEnd "seal_believed_after_unorderly_end" "A region whose mark is `open` is served without a resync.",
    ResyncRebuildsUnasked "resync_rebuilds_unasked" "A resync rebuilds a page that does not match its sum from the others of its row.",
    ResyncTrustsMatchingRows "resync_trusts_matching_rows" "A resync leaves the parity of rows alone whose pages all match their sums.",
    ResyncDoesNotFlush "resync_does_not_flush" "A resync sums what it sees without making it durable.",
    UnverifiedNotRemembered "unverified_not_remembered" "A page that is taken as written gets a good sum, and only the open that did it tells.",
    PassNumberRepeated "pass_number_repeated" "The first pass of an open has a number that an earlier one had.",
    StaleSidecarBelieved "stale_sidecar_believed" "A sidecar of an older generation, and its extent, count like any other.",
    PartialMarkIsStale "partial_mark_is_stale" "A sidecar that a crash left a generation behind is taken for one that was away.",
    GenerationDrawnTwice "generation_drawn_twice" "An open without an extent draws the next generation, which an open that died may have stored on that extent.",
    RebuiltCountsAsVerified "rebuilt_counts_as_verified" "A page rebuilt after an unorderly end counts as verified because it matches its sum.",
    FlagWithoutPass "flag_without_pass" "A sum becomes unverified and keeps the number of its pass.",
    RebuiltCalledInEarly "rebuilt_called_in_early" "The line of a new extent is stored before its pages are fenced.",
    LostZeroedUntold "lost_zeroed_untold" "Pages that cannot be rebuilt become zeroes without a word.",
    EvidenceBeforeLease "evidence_before_lease" "The keeper looks at the file's times before it has the lease.",
    EvidenceAcrossBoots "evidence_across_boots" "A seal of an earlier boot is believed because the file's times have not moved.",
    EvidenceAfterSeal "evidence_after_seal" "The file's times that a seal keeps are read after it, and not before its pages are read back.",
    SealedOnBrokenLease "sealed_on_broken_lease" "A keeper stores the seal without a look whether it still has the lease.",
    FirstPassTakesDifferingOnly "first_pass_takes_differing_only" "The first pass of a keeper takes only the pages that do not match their sums, though a killed one may have left sums that are not durable.",
    ClosedUnderWaiter "closed_under_waiter" "A keeper that ends does not look whether a program waits for the lease already, or has it.",
    ReopenedBeforeLine "reopened_before_line" "A keeper that starts opens the extent to programs before the line is fenced that says it is closed no more.",
    SealedWithoutLease "sealed_without_lease" "The keeper seals what a program has open.",
}

/// What an exploration runs under.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules {
    /// The broken rule, if any.
    pub broken: Option<Mutant>,
    /// The fence between parity and sums is left out: what holds then tells what that fence is for.
    pub is_first_fence_left_out: bool,
}

impl Rules {
    /// Whether `mutant` is the broken rule.
    pub fn breaks(self, mutant: Mutant) -> bool {
        self.broken == Some(mutant)
    }
}
