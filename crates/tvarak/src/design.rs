//! The designs that are compared (§4): what each adds to the baseline.

/// A design.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Design {
    /// No redundancy.
    Baseline,
    /// The basic controller of §3.2.
    Naive,
    /// With DAX-CL-checksums, §3.3: EV.
    LineSums,
    /// With redundancy cached besides, §3.4.
    Cached,
    /// With diffs of dirty data in the LLC besides, §3.5: EVU, which is TVARAK.
    Tvarak,
    /// The same, with ways of the LLC divided at run time as is best for sets that are watched: what §4.7 leaves for future work.
    Adaptive,
    /// Software, a checksum for each object: TxB-Object-Csums, after Pangolin.
    TxbObject,
    /// Software, a checksum for each page: TxB-Page-Csums, after Mojim and HotPot.
    TxbPage,
    /// Software, in passes behind the programs: asynchronous, after Vilamb.
    Passes,
    /// Forebay's own regions: in passes behind the programs, row by row.
    Regions,
    /// The same, with a sync of what was written at the end of each transaction.
    RegionsSync,
}

impl Design {
    /// All of them: those of the paper's Figure 9 in its order, then those in software.
    pub const ALL: [Design; 11] = [
        Design::Baseline,
        Design::Naive,
        Design::LineSums,
        Design::Cached,
        Design::Tvarak,
        Design::Adaptive,
        Design::TxbObject,
        Design::TxbPage,
        Design::Passes,
        Design::Regions,
        Design::RegionsSync,
    ];

    /// The name, as the command takes it and reports print it.
    pub fn as_str(self) -> &'static str {
        match self {
            Design::Baseline => "baseline",
            Design::Naive => "naive",
            Design::LineSums => "ev",
            Design::Cached => "ev-cached",
            Design::Tvarak => "tvarak",
            Design::Adaptive => "tvarak-adaptive",
            Design::TxbObject => "txb-object",
            Design::TxbPage => "txb-page",
            Design::Passes => "async",
            Design::Regions => "regions",
            Design::RegionsSync => "regions-sync",
        }
    }

    /// Whether the paper's §4 measures it. It has the asynchronous one in its Table 1 alone, and ours not at all.
    pub fn is_of_the_evaluation(self) -> bool {
        !matches!(self, Design::Passes | Design::Adaptive) && !self.has_region_sums()
    }

    /// Whether programs keep redundancy themselves, by a library.
    pub fn is_in_software(self) -> bool {
        self.has_region_sums()
            || matches!(self, Design::TxbObject | Design::TxbPage | Design::Passes)
    }

    /// Whether it keeps the sums of Forebay's regions.
    pub fn has_region_sums(self) -> bool {
        matches!(self, Design::Regions | Design::RegionsSync)
    }

    /// Whether a controller stands between the LLC and NVM.
    pub fn has_controller(self) -> bool {
        !self.is_in_software() && self != Design::Baseline
    }

    /// Whether it verifies lines, not pages.
    pub fn has_line_sums(self) -> bool {
        self.has_controller() && self != Design::Naive
    }

    /// Whether it caches redundancy.
    pub fn has_caches(self) -> bool {
        matches!(self, Design::Cached | Design::Tvarak | Design::Adaptive)
    }

    /// Whether the LLC keeps diffs of what is dirty.
    pub fn has_diffs(self) -> bool {
        matches!(self, Design::Tvarak | Design::Adaptive)
    }

    /// Whether the sets of the LLC divide their ways as they find it best.
    pub fn is_adaptive(self) -> bool {
        self == Design::Adaptive
    }
}

impl std::str::FromStr for Design {
    type Err = String;

    fn from_str(text: &str) -> Result<Design, String> {
        let found = Design::ALL
            .into_iter()
            .find(|design| design.as_str() == text);
        found.ok_or_else(|| {
            let names = Design::ALL.map(Design::as_str).join(", ");
            format!("there is no design {text}; there are {names}")
        })
    }
}
