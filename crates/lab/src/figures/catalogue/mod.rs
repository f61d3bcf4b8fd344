//! Every figure and table of the five papers, and where it is reproduced.

mod caches;
mod entry;
mod others;
mod tinca;

pub use entry::{Entry, Standing};

/// All of them, in the order of the papers.
pub(super) fn catalogue() -> impl Iterator<Item = &'static Entry> {
    let papers = [
        tinca::TINCA,
        caches::SPINDLE_AND_STUDY,
        others::TVARAK_AND_AUTOBAHN,
    ];
    papers.into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::all;
    use Standing::Modelled;

    #[test]
    fn every_figure_of_the_lab_is_in_it_once() {
        let mut known: Vec<&str> = catalogue().filter_map(Entry::figure).collect();
        let mut figures: Vec<&str> = all().iter().map(|figure| figure.name).collect();
        known.sort_unstable();
        figures.sort_unstable();
        assert_eq!(known, figures);
    }

    #[test]
    fn what_is_on_a_model_says_what_the_real_one_would_take() {
        for entry in catalogue() {
            let is_on_a_model = matches!(entry.standing, Modelled(_));
            assert!(
                !is_on_a_model || entry.words.contains("It would take"),
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
