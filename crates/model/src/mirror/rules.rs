//! The rules of redundancy, and the one of them that a mutant breaks.

use crate::rules::mutants;

mutants! {
    CopyNotStreamed "copy_not_streamed" "The second half of a new pair is not written.",
    CopyStreamedAfterFence "copy_streamed_after_fence" "The second half of a new pair is written after the fence.",
    RecordOnOneMember "record_on_one_member" "A record goes to one member only.",
    TestedByFirstHalfOnly "tested_by_first_half_only" "Recovery tests a record by the first half of each pair.",
    TestedHalfNotRestored "tested_half_not_restored" "A half that did not match in the test stays as it is.",
    DeltaOnOneHalf "delta_on_one_half" "A change in place is made on the first half only.",
    DeltaLinesOfCopyNotFlushed "delta_lines_of_copy_not_flushed" "The checkpoint flushes what changed in place on the first half only.",
    CopyLetGoBeforeCheckpoint "copy_let_go_before_checkpoint" "A copy is let go when its block is clean, before a checkpoint has made that durable.",
    LimboAba "limbo_aba" "A copy is let go because its block is clean again, whatever happened since the checkpoint began.",
    CleanMarkLineNotTouched "clean_mark_line_not_touched" "A checkpoint leaves out the lines in which only a clean mark changed.",
    SealWithS "seal_with_s" "Seals are written with S, after the fence of their lines.",
    TableTakenWithoutSeals "table_taken_without_seals" "Recovery takes the first member's table as it is.",
    RecordsOfOneMemberReplayed "records_of_one_member_replayed" "Recovery replays a record that one member has before the other has it.",
    HalvesMadeEqualWithTable "halves_made_equal_with_table" "Halves that did not match in the test are made equal by the fence of the table, not before.",
    LineNotJudged "line_not_judged" "A checkpoint overwrites a line of the table without a look whether the other member has it.",
    RosterAfterAcknowledgement "roster_after_acknowledgement" "A commit whose fence failed on a dead member is acknowledged before the roster says so.",
    EpochNotRechecked "epoch_not_rechecked" "A commit does not look at the epoch again under its locks.",
    StaleMemberTrusted "stale_member_trusted" "Recovery takes every member that is there, whatever the newest roster says.",
    OpenWithAbsentMember "open_with_absent_member" "A pool opens although its roster calls a member in that is not there.",
    RebuildingMemberTrusted "rebuilding_member_trusted" "The roster calls a member in before it has everything.",
    TombstonedUnderCommit "tombstoned_under_commit" "A clean block whose only place went out is unmapped while a commit holds its key.",
    CalledInBeforeCleanMarks "called_in_before_clean_marks" "A member is called in without blocks that are clean by no finished checkpoint.",
    NewMemberToldAtOnce "new_member_told_at_once" "A roster that adds a member is stored on it before it is fenced on the others.",
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
