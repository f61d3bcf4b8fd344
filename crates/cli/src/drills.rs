//! Drills as the command line and the control socket name them.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use forebay::internals::MediumArea;
use serde::{Deserialize, Serialize};

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DrillKind {
    /// A bit of what stands there turns over.
    BitFlip,
    /// The next write there is lost, though its fence was good.
    LostWrite,
    /// The next write there arrives elsewhere in the same part.
    MisdirectedWrite,
    /// For a tenth of a second reads of a block get another one's bytes.
    MisdirectedRead,
    /// Of a line of the next write there some words do not arrive.
    TornLine,
    /// A page fails when it is touched next, and what it held is gone.
    Poison,
    /// All fences of the member fail from now on.
    DeadMember,
    /// The member is put back as it was before; of an idle pool, with --save and later --restore.
    StaleMember,
}

/// A part of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Area {
    /// The blocks.
    Slot,
    /// The log.
    Lane,
    /// The table of what is cached.
    Table,
    /// The checks of the table's lines.
    Seal,
    /// Which members count.
    Roster,
    /// The incarnation.
    Incarnation,
    /// The disks' descriptions.
    VolumeLine,
    /// What the pool is.
    Superblock,
    /// What of the log is done.
    Checkpoint,
    /// The ends of records, of a strict pool.
    CommitWord,
}

impl Area {
    /// As it is called in results.
    pub fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// The library's name for it.
    pub fn medium_area(self) -> MediumArea {
        match self {
            Area::Slot => MediumArea::Slots,
            Area::Lane => MediumArea::Lanes,
            Area::Table => MediumArea::Table,
            Area::Seal => MediumArea::Seals,
            Area::Roster => MediumArea::Roster,
            Area::Incarnation => MediumArea::Incarnation,
            Area::VolumeLine => MediumArea::VolumeLines,
            Area::Superblock => MediumArea::Superblock,
            Area::Checkpoint => MediumArea::Checkpoint,
            Area::CommitWord => MediumArea::CommitWords,
        }
    }
}

impl DrillKind {
    /// As it is called in results.
    pub fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// A drill.
#[derive(Clone, Debug, PartialEq, Eq, Args, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inject {
    /// What goes wrong.
    #[arg(value_enum)]
    pub kind: DrillKind,
    /// The number of the member that does it [default: that which is read first of the block, or the first one].
    #[arg(long, value_name = "NUMBER")]
    pub member: Option<u32>,
    /// The part of the member [default: slot].
    #[arg(long, value_enum, value_name = "PART")]
    pub area: Option<Area>,
    /// The disk of the block [default: any block that is in the pool].
    #[arg(long = "disk", value_name = "NAME", requires = "block")]
    pub volume: Option<String>,
    /// The block's number.
    #[arg(long, value_name = "NUMBER", requires = "volume")]
    pub block: Option<u64>,
    /// What is left to chance follows from it.
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u64>,
    /// Seconds to wait for a write to strike [default: 10].
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub wait: Option<u64>,
    /// Of stale-member: keep a copy of the member, which is POOL, in this new file.
    #[arg(long, value_name = "FILE", conflicts_with = "restore")]
    #[serde(skip)]
    pub save: Option<PathBuf>,
    /// Of stale-member: make the member, which is POOL, what it was when it was kept in this file.
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    pub restore: Option<PathBuf>,
}
