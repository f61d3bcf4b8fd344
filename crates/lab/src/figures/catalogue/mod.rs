//! Every figure and table of the five papers: where it is reproduced, or what it would take.

mod caches;
mod others;
mod tinca;

use super::Paper;

/// Where it is reproduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// In this report, as the figure of this name.
    Here(&'static str),
    /// In this report as the figure of this name, but on a model of what the paper ran.
    Modelled(&'static str),
    /// By this command.
    Elsewhere(&'static str),
    /// Nowhere.
    Missing,
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
    /// What came out elsewhere, what is missing and what that would take, or where what is drawn is built.
    pub words: &'static str,
}

use Standing::{Drawing, Elsewhere, Here, Missing, Modelled};

const fn entry(
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

/// All of them, in the order of the papers.
pub(super) fn catalogue() -> impl Iterator<Item = &'static Entry> {
    let papers = [
        tinca::TINCA,
        caches::SPINDLE_AND_STUDY,
        others::TVARAK_AND_AUTOBAHN,
    ];
    papers.into_iter().flatten()
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
            Here(name) | Modelled(name) => Some(name),
            Elsewhere(_) | Missing | Drawing => None,
        }
    }

    /// What reproduces it.
    #[must_use]
    pub fn command(&self) -> String {
        match self.standing {
            Here(name) | Modelled(name) => format!("forebay-lab run {name}"),
            Elsewhere(command) => command.into(),
            Missing | Drawing => "–".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::all;

    #[test]
    fn every_figure_of_the_lab_is_in_it_once() {
        let mut known: Vec<&str> = catalogue().filter_map(Entry::figure).collect();
        let mut figures: Vec<&str> = all().iter().map(|figure| figure.name).collect();
        known.sort_unstable();
        figures.sort_unstable();
        assert_eq!(known, figures);
    }

    #[test]
    fn what_is_missing_says_what_it_would_take() {
        for entry in catalogue() {
            let is_short = matches!(entry.standing, Missing | Modelled(_));
            assert!(
                !is_short || entry.words.contains("It would take"),
                "{}",
                entry.name()
            );
        }
    }

    /// The documentation has a line for each, with what reproduces it.
    #[test]
    fn the_documentation_has_them_all() {
        let text = include_str!("../../../../../docs/inside/papers.md");
        for entry in catalogue() {
            let begin = format!("| {} | {} |", entry.name(), entry.command());
            let mut lines = text.lines().map(|line| line.replace('`', ""));
            assert!(
                lines.any(|line| line.starts_with(&begin)),
                "no line begins with {begin}"
            );
        }
    }
}
