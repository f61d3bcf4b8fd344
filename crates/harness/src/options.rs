//! What every verifying program is told in the same words: its seed, how much it does, where its report goes;
//! and how it says the way it ended.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde::de::DeserializeOwned;

use crate::{Result, Row, rows};

/// Which program is tested.
#[derive(Args, Clone, Debug)]
pub struct SubjectOptions {
    /// The command to test; what it preloads is beside it
    #[arg(long, value_name = "PATH", default_value = "target/release/forebay")]
    forebay: PathBuf,
}

impl SubjectOptions {
    /// Where it is, whatever the folder.
    ///
    /// # Errors
    /// It is not there.
    pub fn forebay(&self) -> Result<PathBuf> {
        let path = std::path::absolute(&self.forebay)?;
        match path.is_file() {
            true => Ok(path),
            false => Err(format!(
                "{} is not there; `make build` builds it, or name another by --forebay",
                path.display()
            )
            .into()),
        }
    }
}

/// What is chosen at random.
#[derive(Args, Clone, Debug)]
pub struct SeedOption {
    /// Repeats the choices; what the machine does meanwhile is its own [default: any]
    #[arg(long)]
    seed: Option<u64>,
}

impl SeedOption {
    /// The seed of the run called `name`; it is said, so that the run can be repeated.
    #[must_use]
    pub fn seed(&self, name: &str) -> u64 {
        let seed = self.seed.unwrap_or_else(|| fastrand::u64(..1 << 32));
        eprintln!("{name}: seed {seed}");
        seed
    }
}

/// How much is done, and how it is told.
#[derive(Args, Clone, Debug)]
pub struct RunOptions {
    /// A bounded share of everything: shows that it works
    #[arg(long)]
    pub quick: bool,
    /// Where the report goes [default: target/NAME/report.json]
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

impl RunOptions {
    /// The one of the two that the run is of.
    #[must_use]
    pub fn pick<T>(&self, quick: T, whole: T) -> T {
        if self.quick { quick } else { whole }
    }

    /// Where the report of the run called `name` goes.
    #[must_use]
    pub fn report(&self, name: &str) -> PathBuf {
        let usual = || Path::new("target").join(name).join("report.json");
        self.report.clone().unwrap_or_else(usual)
    }

    /// Writes the report of the run called `name`, and prints it.
    ///
    /// # Errors
    /// The file cannot be written, or standard output does not take it.
    pub fn finish(&self, name: &str, rows: &[Row]) -> Result<()> {
        let report = self.report(name);
        rows::write(&report, rows)?;
        rows::print(rows, self.json)?;
        eprintln!("written to {}", report.display());
        Ok(())
    }
}

/// A bar for `length` steps.
#[must_use]
pub fn progress_bar(length: u64) -> ProgressBar {
    let template = "{elapsed_precise} {wide_bar} {human_pos}/{human_len} {msg}";
    let style = ProgressStyle::with_template(template);
    ProgressBar::new(length).with_style(style.expect("the template is sound"))
}

/// What a program is told by itself, as a child of itself.
///
/// # Errors
/// It is no JSON of that.
pub fn json<T: DeserializeOwned>(text: &str) -> serde_json::Result<T> {
    serde_json::from_str(text)
}

/// The exit code of a program: 0 where all was well, 1 where something was found wrong, 2 where it could not
/// be done, which is said.
#[must_use]
pub fn exit_code(program: &str, outcome: Result<bool>) -> ExitCode {
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("{program}: {error}");
            ExitCode::from(2)
        }
    }
}
