//! What ext4 lies on, one after the other.

/// In the order of reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Contender {
    /// The backing file itself.
    Bare,
    Classic,
    /// Classic with the cleaner that the lab can give each design.
    ClassicCleaner,
    Tinca,
    TincaCleaner,
    /// Tinca below an ext4 that has no journal: as many writes as in the paper, where Tinca takes the journal's
    /// place, though not its transactions.
    TincaWithoutJournal,
    Forebay,
    /// Forebay that writes back only what leaves, in LRU's order, as the designs do.
    ForebayLate,
}

pub const CONTENDERS: [Contender; 8] = [
    Contender::Bare,
    Contender::Classic,
    Contender::ClassicCleaner,
    Contender::Tinca,
    Contender::TincaCleaner,
    Contender::TincaWithoutJournal,
    Contender::Forebay,
    Contender::ForebayLate,
];

impl Contender {
    pub const fn name(self) -> &'static str {
        match self {
            Contender::Bare => "bare",
            Contender::Classic => "classic",
            Contender::ClassicCleaner => "classic_cleaner",
            Contender::Tinca => "tinca",
            Contender::TincaCleaner => "tinca_cleaner",
            Contender::TincaWithoutJournal => "tinca_without_journal",
            Contender::Forebay => "forebay",
            Contender::ForebayLate => "forebay_late",
        }
    }

    pub const fn title(self) -> &'static str {
        match self {
            Contender::Bare => "bare disk",
            Contender::Classic => "Classic",
            Contender::ClassicCleaner => "Classic, cleaner",
            Contender::Tinca => "Tinca",
            Contender::TincaCleaner => "Tinca, cleaner",
            Contender::TincaWithoutJournal => "Tinca, ext4 without a journal",
            Contender::Forebay => "Forebay",
            Contender::ForebayLate => "Forebay, write-back late",
        }
    }

    /// The published design that is served by `forebay-lab`.
    pub const fn design(self) -> Option<&'static str> {
        match self {
            Contender::Classic | Contender::ClassicCleaner => Some("classic"),
            Contender::Tinca | Contender::TincaCleaner | Contender::TincaWithoutJournal => {
                Some("tinca")
            }
            Contender::Bare | Contender::Forebay | Contender::ForebayLate => None,
        }
    }

    /// What `forebay serve` is told besides.
    pub const fn settings(self) -> &'static [&'static str] {
        match self {
            Contender::ForebayLate => &[
                "--replacement",
                "lru",
                "--dirty-low",
                "100",
                "--dirty-high",
                "100",
            ],
            _ => &[],
        }
    }

    pub const fn has_cleaner(self) -> bool {
        matches!(self, Contender::ClassicCleaner | Contender::TincaCleaner)
    }

    pub const fn has_journal(self) -> bool {
        !matches!(self, Contender::TincaWithoutJournal)
    }
}
