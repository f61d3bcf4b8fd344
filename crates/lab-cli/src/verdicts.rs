//! `forebay-lab verdicts`: what became of the papers' figures, for the documentation.

use std::path::Path;

use forebay_command::{Failure, output};
use forebay_harness::write_file;
use forebay_lab::elsewhere::Reports;
use forebay_lab::figures::{filled, verdicts_to_markdown};

use crate::arguments::VerdictsOptions;

/// Prints them, or puts them into a page.
pub fn print(options: &VerdictsOptions) -> Result<(), Failure> {
    let path = options.folder.join("lab.json");
    let refused = |why: &str| Failure::Arguments(format!("{}: {why}", path.display()));
    let json = read(&path)?;
    let lab = serde_json::from_str(&json).map_err(|error| refused(&error.to_string()))?;
    let reports = Reports::beside(&options.folder);
    let text = verdicts_to_markdown(&lab, &reports).map_err(|why| refused(&why))?;
    let Some(into) = &options.into else {
        output::text_of_ours(text.trim_end());
        return Ok(());
    };
    let page = filled(&read(into)?, &text).ok_or_else(|| {
        let path = into.display();
        Failure::Arguments(format!(
            "{path}: it has no place for verdicts, two lines as docs/inside/papers.md has them"
        ))
    })?;
    Ok(write_file(into, page.as_bytes())?)
}

fn read(path: &Path) -> Result<String, Failure> {
    let named = |error| Failure::Arguments(format!("{}: {error}", path.display()));
    std::fs::read_to_string(path).map_err(named)
}
