//! What cases do alike with other programs: copies, and numbers that they print.

use std::path::Path;

use forebay_harness::Result;

use crate::place::Session;

/// The number that follows `key` in a line of `text`.
pub fn number_after(text: &str, key: &str) -> Result<f64> {
    let rest = text.split_once(key).map(|(_, rest)| rest.trim_start());
    let end = |rest: &str| {
        rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.')
            .unwrap_or(rest.len())
    };
    let number = rest.map(|rest| &rest[..end(rest)]);
    number
        .and_then(|number| number.parse().ok())
        .ok_or_else(|| format!("no number after {key:?} in:\n{text}").into())
}

/// Copies a directory as it is, owners and all.
pub fn copy(session: &Session<'_>, from: &Path, to: &Path) -> Result<()> {
    let mut command = std::process::Command::new("cp");
    command.arg("-a").args([from, to]);
    session.output(command).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_in_what_programs_print() {
        let printed = "number of clients: 4\ntps = 1234.5 (without initial connection time)\n";
        assert_eq!(number_after(printed, "tps =").expect("there"), 1234.5);
        assert!(number_after(printed, "latency").is_err());
    }
}
