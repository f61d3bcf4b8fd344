//! Which of the paper's figures is repeated: what ext4 lies on for it, and how slow that is made.

use clap::ValueEnum;

use crate::tpcc::contender::Contender;
use crate::tpcc::medium::{MEDIA, Medium};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Figure {
    /// Figures 8a to 8c and 12c: by the number of users, memory and disk as they are
    #[default]
    #[value(name = "8")]
    Users,
    /// Figures 12a and 12b: 20 users, with the delays of an SSD, an HDD, PCM, STT-RAM and NVDIMM
    #[value(name = "12")]
    Media,
}

impl Figure {
    /// What takes part unless something else is asked for.
    pub const fn usual(self) -> &'static [Contender] {
        match self {
            Figure::Users => &[
                Contender::Bare,
                Contender::Classic,
                Contender::Tinca,
                Contender::TincaWithoutJournal,
                Contender::Forebay,
                Contender::ForebayLate,
            ],
            Figure::Media => &[
                Contender::Classic,
                Contender::TincaWithoutJournal,
                Contender::ClassicCleaner,
                Contender::TincaCleaner,
                Contender::ForebayLate,
            ],
        }
    }

    /// Whether it may take part: of the kinds of media only what `forebay-lab` serves, since that alone is made slower.
    pub const fn admits(self, contender: Contender) -> bool {
        match (self, contender) {
            (Figure::Users, _) => true,
            (Figure::Media, Contender::Bare | Contender::Forebay) => false,
            (Figure::Media, _) => true,
        }
    }

    /// How slow memory and disk are made; none as they are.
    pub fn media(self) -> Vec<Option<Medium>> {
        match self {
            Figure::Users => vec![None],
            Figure::Media => MEDIA.map(Some).into(),
        }
    }

    /// The run's name, of which its folder is called.
    pub const fn run(self) -> &'static str {
        match self {
            Figure::Users => "tpcc",
            Figure::Media => "tpcc-media",
        }
    }
}
