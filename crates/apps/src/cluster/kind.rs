//! What an engine's files lie on.

use clap::ValueEnum;

/// In the order of reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Kind {
    /// ext4 on the disk.
    Disk,
    /// Memory, in which a sync does nothing: the ceiling.
    Tmpfs,
    /// `forebay mount` over ext4 on the disk.
    Mount,
    /// ext4 on the disk of `forebay serve`.
    Serve,
    /// The same with data in the file system's journal, as the published designs have it.
    ServeJournal,
    /// The same of `forebay-lab serve`, with Classic.
    LabClassic,
    /// With Tinca.
    LabTinca,
    /// With Tinca, below an ext4 without a journal: as many writes as in the paper, where Tinca takes the journal's place.
    LabTincaWithoutJournal,
}

pub const KINDS: [Kind; 8] = [
    Kind::Disk,
    Kind::Tmpfs,
    Kind::Mount,
    Kind::Serve,
    Kind::ServeJournal,
    Kind::LabClassic,
    Kind::LabTinca,
    Kind::LabTincaWithoutJournal,
];

/// What is measured unless others are asked for.
pub const USUAL_KINDS: [Kind; 4] = [Kind::Disk, Kind::Tmpfs, Kind::Mount, Kind::Serve];

/// What the memory and the disks pay is compared on these.
pub const COST_KINDS: [Kind; 4] = [
    Kind::LabClassic,
    Kind::LabTinca,
    Kind::LabTincaWithoutJournal,
    Kind::ServeJournal,
];

impl Kind {
    /// In the names of numbers.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Disk => "disk",
            Kind::Tmpfs => "tmpfs",
            Kind::Mount => "mount",
            Kind::Serve => "serve",
            Kind::ServeJournal => "serve_journal",
            Kind::LabClassic => "lab_classic",
            Kind::LabTinca => "lab_tinca",
            Kind::LabTincaWithoutJournal => "lab_tinca_without_journal",
        }
    }

    pub const fn title(self) -> &'static str {
        match self {
            Kind::Disk => "disk",
            Kind::Tmpfs => "tmpfs",
            Kind::Mount => "Forebay mount",
            Kind::Serve => "Forebay serve",
            Kind::ServeJournal => "Forebay serve, data=journal",
            Kind::LabClassic => "Classic",
            Kind::LabTinca => "Tinca",
            Kind::LabTincaWithoutJournal => "Tinca, ext4 without a journal",
        }
    }

    /// The published design that `forebay-lab` serves.
    pub const fn design(self) -> Option<&'static str> {
        match self {
            Kind::LabClassic => Some("classic"),
            Kind::LabTinca | Kind::LabTincaWithoutJournal => Some("tinca"),
            Kind::Disk | Kind::Tmpfs | Kind::Mount | Kind::Serve | Kind::ServeJournal => None,
        }
    }

    /// Whether ext4 is on a disk that a daemon serves, which counts lines and blocks.
    pub const fn is_served(self) -> bool {
        !matches!(self, Kind::Disk | Kind::Tmpfs | Kind::Mount)
    }

    pub const fn has_journal(self) -> bool {
        !matches!(self, Kind::LabTincaWithoutJournal)
    }

    /// What ext4 is mounted with. The published designs are compared as in their paper, whose ext4 wrote data to its
    /// journal, too.
    pub const fn mount_options(self) -> &'static str {
        match self {
            Kind::ServeJournal | Kind::LabClassic | Kind::LabTinca => "noatime,data=journal",
            _ => "noatime",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_name_of_its_own_and_the_command_knows_all() {
        let mut names = KINDS.map(Kind::name).to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), KINDS.len());
        assert_eq!(Kind::value_variants(), KINDS);
    }
}
