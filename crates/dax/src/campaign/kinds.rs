//! What goes wrong below a region, and in which of its bytes.

/// What a file does wrong, once in a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Nothing,
    BitFlip,
    LostWrite,
    MisdirectedWrite,
    /// The next eviction brings the right bytes back.
    MisdirectedReadOnce,
    /// None does.
    MisdirectedRead,
    TornWrite,
    /// A page is lost, and is known to be.
    Poison,
    /// An extent or the parity is gone, its sidecar with it.
    DeadPair,
    /// It comes back as it was before an opening that went on without it.
    OldPair,
}

impl Kind {
    /// As it stands in reports.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Nothing => "nothing",
            Kind::BitFlip => "bit_flip",
            Kind::LostWrite => "lost_write",
            Kind::MisdirectedWrite => "misdirected_write",
            Kind::MisdirectedReadOnce => "misdirected_read_once",
            Kind::MisdirectedRead => "misdirected_read",
            Kind::TornWrite => "torn_write",
            Kind::Poison => "poison",
            Kind::DeadPair => "dead_pair",
            Kind::OldPair => "old_pair",
        }
    }

    /// Bytes of a whole file are gone, for good.
    pub fn loses_bytes(self) -> bool {
        matches!(self, Kind::Poison | Kind::DeadPair | Kind::OldPair)
    }
}

/// Which bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Area {
    Extent,
    Parity,
    PageSum,
    RegionLine,
}

impl Area {
    /// As it stands in reports.
    pub fn name(self) -> &'static str {
        match self {
            Area::Extent => "extent",
            Area::Parity => "parity",
            Area::PageSum => "page_sum",
            Area::RegionLine => "region_line",
        }
    }
}

/// What happens in which bytes.
pub type Combination = (Kind, Area);

/// One round of trials: each kind as often as any other, in each area that it can meet.
pub fn round() -> Vec<Combination> {
    const AREAS: [Area; 4] = [Area::Extent, Area::Parity, Area::PageSum, Area::RegionLine];
    const KINDS: [Kind; 7] = [
        Kind::BitFlip,
        Kind::LostWrite,
        Kind::MisdirectedWrite,
        Kind::MisdirectedReadOnce,
        Kind::MisdirectedRead,
        Kind::TornWrite,
        Kind::Poison,
    ];
    let mut round = Vec::new();
    for area in AREAS {
        round.extend(KINDS.map(|kind| (kind, area)));
        let of_files = match area {
            Area::Extent | Area::PageSum => Area::Extent,
            Area::Parity | Area::RegionLine => Area::Parity,
        };
        round.extend([Kind::DeadPair, Kind::OldPair].map(|kind| (kind, of_files)));
    }
    round.push((Kind::Nothing, Area::Extent));
    round
}

/// What goes wrong in the trial of this number.
pub fn combination(number: u64) -> Combination {
    let round = round();
    round[(number % round.len() as u64) as usize]
}
