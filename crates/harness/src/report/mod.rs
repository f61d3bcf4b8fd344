//! How measurements are written down, the same everywhere: named [`rows`] as JSON with the commit they
//! belong to, and [`Page`]s with plots, tables and their numbers in one HTML file that needs no network.
//!
//! A file appears whole or not at all: it is written beside its place and renamed.

pub mod bars;
mod chart;
mod lying;
mod marks;
mod page;
pub mod rows;
mod scale;
mod svg;
mod table;

pub use bars::Bar;
pub use chart::{Chart, Series, Shape};
pub use page::{Page, Section};
pub use rows::Row;
pub use table::{Table, TextTable};

use std::io::{self, Write as _};
use std::path::Path;

/// Replaces the file at `path` by `bytes`, and makes its folder first.
///
/// Errors name the file.
pub fn write_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let write = || {
        std::fs::create_dir_all(folder)?;
        let mut file = tempfile::Builder::new()
            .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
            .tempfile_in(folder)?;
        file.write_all(bytes)?;
        file.persist(path)?;
        Ok::<(), io::Error>(())
    };
    write().map_err(|error| {
        let message = format!("{}: cannot write the report: {error}", path.display());
        io::Error::new(error.kind(), message)
    })
}

/// The text with what HTML and SVG would read as markup replaced.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            other => out.push(other),
        }
    }
    out
}

/// The middle of some numbers, the mean of the middle two where there are two; none of none.
#[must_use]
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

/// A number for people: three significant digits, and no fraction where it says nothing.
#[must_use]
pub fn digits(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        large if large >= 100.0 => group_thousands(value.round()),
        large if large >= 10.0 => format!("{value:.1}"),
        small if small >= 1.0 => format!("{value:.2}"),
        small if small >= 0.001 => format!("{value:.3}"),
        _ => format!("{value:.2e}"),
    }
}

fn group_thousands(value: f64) -> String {
    let plain = format!("{:.0}", value.abs());
    let mut out = String::from(if value < 0.0 { "-" } else { "" });
    for (index, digit) in plain.chars().enumerate() {
        if index > 0 && (plain.len() - index) % 3 == 0 {
            // A narrow space that does not break: a comma is a decimal point to half the world.
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_in_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0]), Some(2.5));
        assert_eq!(median(Vec::new()), None);
    }

    #[test]
    fn numbers_have_the_digits_that_say_something() {
        let shown = [0.0, 0.0123, 1.234, 12.34, 123.4, 12345.6, -1234.0].map(digits);
        let wanted = [
            "0",
            "0.012",
            "1.23",
            "12.3",
            "123",
            "12\u{202f}346",
            "-1\u{202f}234",
        ];
        assert_eq!(shown, wanted);
    }

    #[test]
    fn a_file_is_replaced_whole_and_its_folder_made() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("deep/report.txt");
        write_file(&path, b"first").expect("written");
        write_file(&path, b"second").expect("replaced");
        assert_eq!(std::fs::read(&path).expect("there"), b"second");
        let entries = std::fs::read_dir(path.parent().expect("a parent")).expect("a folder");
        assert_eq!(entries.count(), 1, "nothing else is left");
        let error = write_file(&path.join("under-a-file"), b"").expect_err("not a folder");
        assert!(error.to_string().contains("under-a-file"), "{error}");
    }
}
