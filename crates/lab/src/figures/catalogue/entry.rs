//! A figure or a table of a paper, and where it is reproduced.

use crate::elsewhere::Source;
use crate::figures::Paper;

/// Where it is reproduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// In this report, as the figure of this name.
    Here(&'static str),
    /// In this report as the figure of this name, but on a model of what the paper ran.
    Modelled(&'static str),
    /// By another program, whose report is read.
    Elsewhere(Source),
    /// In this report as the figure of this name, of the engines; the text's numbers are of what another program measures.
    Beside(&'static str, Source),
    /// A drawing, or a list of what was used: there is nothing to measure.
    Drawing,
}

/// A figure or a table of a paper.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Whose.
    pub paper: Paper,
    /// Its number there, like `Figure 7a`.
    pub number: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// Where it is reproduced.
    pub standing: Standing,
    /// What is measured elsewhere and how, what a model lacks and what that would take, or where what is drawn is built; nothing that a
    /// run finds.
    pub words: &'static str,
}

/// An entry, in one call.
pub(super) const fn entry(
    paper: Paper,
    number: &'static str,
    title: &'static str,
    standing: Standing,
    words: &'static str,
) -> Entry {
    Entry {
        paper,
        number,
        title,
        standing,
        words,
    }
}

impl Entry {
    /// How tables name it: `Tinca, Figure 7a`.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}, {}", self.paper.name(), self.number)
    }

    /// The figure of this report that stands for it.
    #[must_use]
    pub const fn figure(&self) -> Option<&'static str> {
        match self.standing {
            Standing::Here(name) | Standing::Modelled(name) | Standing::Beside(name, _) => {
                Some(name)
            }
            Standing::Elsewhere(_) | Standing::Drawing => None,
        }
    }

    /// The program by whose report it is judged, where it is another.
    #[must_use]
    pub const fn source(&self) -> Option<Source> {
        match self.standing {
            Standing::Elsewhere(source) | Standing::Beside(_, source) => Some(source),
            Standing::Here(_) | Standing::Modelled(_) | Standing::Drawing => None,
        }
    }

    /// What reproduces it.
    #[must_use]
    pub fn command(&self) -> String {
        match self.standing {
            Standing::Here(name) | Standing::Modelled(name) => format!("forebay-lab run {name}"),
            Standing::Elsewhere(source) => source.command().into(),
            // What its numbers are of comes first.
            Standing::Beside(name, source) => {
                format!("{}; forebay-lab run {name}", source.command())
            }
            Standing::Drawing => "–".into(),
        }
    }
}
