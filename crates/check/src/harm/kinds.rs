//! What a medium does wrong, and where.

use forebay::unstable::MediumArea;

/// What one member of a mirrored pool does wrong, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A bit is turned over.
    BitFlip,
    /// What a fence was to make durable did not happen.
    LostWrite,
    /// It arrived elsewhere.
    MisdirectedWrite,
    /// Loads get what is elsewhere.
    MisdirectedRead,
    /// Of a line some words arrived, behind a good fence.
    TornLine,
    /// A page is lost, and is known to be.
    Poison,
    /// A fence fails.
    FailedFence,
    /// The member is gone.
    DeadMember,
    /// After a power cut the member is as it was before an incarnation.
    StaleMember,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 9] = [
        Kind::BitFlip,
        Kind::LostWrite,
        Kind::MisdirectedWrite,
        Kind::MisdirectedRead,
        Kind::TornLine,
        Kind::Poison,
        Kind::FailedFence,
        Kind::DeadMember,
        Kind::StaleMember,
    ];

    /// As it stands in reports.
    pub fn name(self) -> &'static str {
        match self {
            Kind::BitFlip => "bit_flip",
            Kind::LostWrite => "lost_write",
            Kind::MisdirectedWrite => "misdirected_write",
            Kind::MisdirectedRead => "misdirected_read",
            Kind::TornLine => "torn_line",
            Kind::Poison => "poison",
            Kind::FailedFence => "failed_fence",
            Kind::DeadMember => "dead_member",
            Kind::StaleMember => "stale_member",
        }
    }

    /// It waits for a write.
    pub fn is_of_writes(self) -> bool {
        matches!(
            self,
            Kind::LostWrite | Kind::MisdirectedWrite | Kind::TornLine
        )
    }

    /// It takes the whole member.
    pub fn is_of_member(self) -> bool {
        matches!(
            self,
            Kind::FailedFence | Kind::DeadMember | Kind::StaleMember
        )
    }
}

/// A kind with the part of the member that it is about; none for what is about the whole.
pub type Combination = (Kind, Option<MediumArea>);

/// Every part of a member.
const AREAS: [MediumArea; 10] = [
    MediumArea::Superblock,
    MediumArea::Incarnation,
    MediumArea::Checkpoint,
    MediumArea::Roster,
    MediumArea::CommitWords,
    MediumArea::VolumeLines,
    MediumArea::Table,
    MediumArea::Seals,
    MediumArea::Lanes,
    MediumArea::Slots,
];

/// Those that are written only when a member joins or leaves.
pub fn is_of_membership(area: Option<MediumArea>) -> bool {
    matches!(area, Some(MediumArea::Superblock | MediumArea::Roster))
}

/// Every kind as often as any other: once with each part, or as often with the whole member.
pub fn round() -> Vec<Combination> {
    let of = |kind: Kind| AREAS.map(|area| (kind, Some(area).filter(|_| !kind.is_of_member())));
    Kind::ALL.into_iter().flat_map(of).collect()
}

/// The same of a strict pool of one copy, without what it does not promise to see: without its commit word a record that no
/// other follows is, to recovery, a commit that was never finished.
pub fn round_of_one_copy() -> Vec<Combination> {
    let is_seen = |(kind, area): &Combination| {
        let is_unseen = matches!(
            area,
            None | Some(MediumArea::Roster | MediumArea::CommitWords)
        );
        // Zeroes in the place of an incarnation's line are what was there before its turn.
        let is_blank = (*kind, *area) == (Kind::MisdirectedRead, Some(MediumArea::Incarnation));
        let is_rewritten = kind.is_of_writes() && is_of_membership(*area);
        !(is_unseen || is_blank || is_rewritten || *kind == Kind::Poison)
    };
    round().into_iter().filter(is_seen).collect()
}

/// As it stands in reports.
pub fn area_name(area: Option<MediumArea>) -> &'static str {
    match area {
        None => "member",
        Some(MediumArea::Superblock) => "superblock",
        Some(MediumArea::Incarnation) => "incarnation",
        Some(MediumArea::Checkpoint) => "checkpoint",
        Some(MediumArea::Roster) => "roster",
        Some(MediumArea::CommitWords) => "commit_word",
        Some(MediumArea::VolumeLines) => "volume_line",
        Some(MediumArea::Table) => "table",
        Some(MediumArea::Seals) => "seals",
        Some(MediumArea::Lanes) => "lane",
        Some(MediumArea::Slots) => "slot",
    }
}

/// One thing that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Harm {
    /// What, and about which part.
    pub what: Combination,
    /// The member that does it.
    pub member: usize,
    /// Decides the rest.
    pub seed: u64,
}
