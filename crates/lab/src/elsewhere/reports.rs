//! Reports of other programs, where they lie beside the laboratory's own.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use forebay_harness::date;
use serde_json::Value;

use super::claim::Claim;
use super::rows::Rows;
use super::{applications, files, study, tvarak};

/// A larger file is no report.
const BYTES_MAX: u64 = 64 << 20;
/// Letters of a commit that tell it from others.
const COMMIT_LETTERS: usize = 12;

/// Which program measures a figure that the laboratory does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// The block cache study in guests: the grid.
    Grid,
    /// The same: where a request's time goes.
    Layers,
    /// TVARAK's simulator.
    Simulator,
    /// Bugs of firmware in it.
    Bugs,
    /// File buffers.
    Files,
    /// Applications over files.
    Applications,
}

impl Source {
    /// All of them.
    const ALL: [Source; 6] = [
        Source::Grid,
        Source::Layers,
        Source::Simulator,
        Source::Bugs,
        Source::Files,
        Source::Applications,
    ];

    /// What makes its report.
    #[must_use]
    pub const fn command(self) -> &'static str {
        match self {
            Source::Grid | Source::Layers => "make rig-grid",
            Source::Simulator => "forebay-lab tvarak run all",
            Source::Bugs => "forebay-lab tvarak bugs --out target/lab",
            Source::Files => "forebay-lab files",
            Source::Applications => "make bench-apps",
        }
    }

    /// Where its report lies, from the folder of the laboratory's.
    const fn place(self) -> &'static str {
        match self {
            Source::Grid => "../rig/grid.json",
            Source::Layers => "../rig/layers.json",
            Source::Simulator => "tvarak.json",
            Source::Bugs => "tvarak-bugs.json",
            Source::Files => "files.json",
            Source::Applications => "../apps/report.json",
        }
    }

    /// All that its paper's text says, judged by a report; by none where that is null.
    fn claims(self, report: &Value) -> Vec<Claim> {
        match self {
            Source::Grid => study::grid_claims(&Rows::of_report(report)),
            Source::Layers => study::layer_claims(&Rows::of_report(report)),
            Source::Simulator => tvarak::claims(report),
            Source::Bugs => tvarak::bugs(report),
            Source::Files => files::claims(report),
            Source::Applications => applications::claims(&Rows::of_report(report)),
        }
    }
}

/// One report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// What the paper's text says, judged by it.
    claims: Vec<Claim>,
    /// Of which commit and when, and which file it is, in words; why there is none, where it is not there.
    about: Result<String, String>,
}

impl Report {
    /// What it says of a figure, by its number there.
    pub fn claims<'a>(&'a self, figure: &'a str) -> impl Iterator<Item = &'a Claim> {
        self.claims
            .iter()
            .filter(move |claim| claim.figure == figure)
    }

    /// Of which commit, and when.
    ///
    /// # Errors
    /// It is not there, or no report; in words.
    pub fn about(&self) -> Result<&str, &str> {
        self.about.as_deref().map_err(String::as_str)
    }
}

/// All of them.
#[derive(Clone, Debug)]
pub struct Reports(BTreeMap<Source, Report>);

impl Reports {
    /// None is there.
    #[must_use]
    pub fn none() -> Reports {
        Reports::read(|_| None)
    }

    /// Those in `folder`, where the laboratory's own report is, and in `rig` and `apps` beside it.
    #[must_use]
    pub fn beside(folder: &Path) -> Reports {
        let path = |source: Source| match source.place().strip_prefix("../") {
            // Without a folder above that is named it is the one below which this program runs.
            Some(rest) => folder.parent().unwrap_or(folder).join(rest),
            None => folder.join(source.place()),
        };
        Reports::read(|source| Some(path(source)))
    }

    fn read(path: impl Fn(Source) -> Option<PathBuf>) -> Reports {
        let reports = Source::ALL.map(|source| {
            let (report, about) = match path(source).map(|path| read(&path)) {
                Some(Ok(Some((report, date)))) => {
                    let about = about(&report, &date, source);
                    (report, Ok(about))
                }
                Some(Err(error)) => (Value::Null, Err(error.to_string())),
                Some(Ok(None)) | None => (Value::Null, Err(String::new())),
            };
            let claims = source.claims(&report);
            (source, Report { claims, about })
        });
        Reports(reports.into())
    }

    /// That of a source.
    #[must_use]
    pub fn of(&self, source: Source) -> &Report {
        // Each source has one, if only to say that it is not there.
        &self.0[&source]
    }
}

/// The report and when its file was written; none where there is no file.
///
/// Errors name the file: it cannot be read, or is no report.
fn read(path: &Path) -> io::Result<Option<(Value, String)>> {
    let named =
        |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    let mut file = match File::open(path) {
        Ok(file) => file.take(BYTES_MAX),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(named(error)),
    };
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(named)?;
    let report = serde_json::from_slice(&bytes).map_err(|error| named(error.into()))?;
    let written = file
        .get_ref()
        .metadata()
        .and_then(|of_file| of_file.modified());
    let date = date(written.unwrap_or(SystemTime::UNIX_EPOCH));
    Ok(Some((report, date)))
}

/// Its commit and date; what it does not say itself is that of the file.
fn about(report: &Value, written: &str, source: Source) -> String {
    let machine = report.get("machine");
    let told = |name: &str| {
        let of_machine = machine.and_then(|machine| machine.get(name));
        of_machine.or_else(|| report.get(name))?.as_str()
    };
    let row = || {
        let mut rows = report.as_array()?.iter();
        let row = rows.find(|row| row.get("name").and_then(Value::as_str) == Some("commit_hash"));
        row?.get("value")?.as_str()
    };
    let commit = told("commit_hash").or_else(row).unwrap_or("unknown");
    let short: String = commit.chars().take(COMMIT_LETTERS).collect();
    let changed = if commit.ends_with("-dirty") {
        " with changes"
    } else {
        ""
    };
    let name = source.place().trim_start_matches("../");
    format!(
        "{name} of commit {short}{changed}, {} UTC",
        told("date").unwrap_or(written)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elsewhere::Verdict;
    use std::fs;

    const GRID: &str = r#"[
        {"name": "fig7a_threads1_raw_fast", "value": 100, "unit": "IOPS"},
        {"name": "fig7a_threads1_bcache", "value": 66.5, "unit": "IOPS"},
        {"name": "commit_hash", "value": "0123456789abcdef0123-dirty"}
    ]"#;

    #[test]
    fn reports_are_read_where_they_lie_with_their_commit_and_date() {
        let target = tempfile::tempdir().expect("a folder");
        let [lab, rig] = ["lab", "rig"].map(|name| target.path().join(name));
        for folder in [&lab, &rig] {
            fs::create_dir(folder).expect("made");
        }
        fs::write(rig.join("grid.json"), GRID).expect("written");
        let files =
            r#"{"machine": {"commit_hash": "fedcba", "date": "2019-08-23 14:05", "cores": 2}}"#;
        fs::write(lab.join("files.json"), files).expect("written");
        let reports = Reports::beside(&lab);
        let grid = reports.of(Source::Grid);
        let about = grid.about().expect("there");
        assert!(
            about.starts_with("rig/grid.json of commit 0123456789ab with changes, 2"),
            "{about}"
        );
        let verdicts: Vec<&Verdict> = grid
            .claims("Figure 7a")
            .map(|claim| &claim.verdict)
            .collect();
        assert_eq!(verdicts[0], &Verdict::Holds);
        assert_eq!(
            reports.of(Source::Files).about(),
            Ok("files.json of commit fedcba, 2019-08-23 14:05 UTC")
        );
        assert_eq!(reports.of(Source::Layers).about(), Err(""));
    }

    #[test]
    fn what_is_no_report_is_named_and_judges_nothing() {
        let lab = tempfile::tempdir().expect("a folder");
        for bad in ["", "{\"claims\": [", "\u{0}\u{0}"] {
            fs::write(lab.path().join("tvarak.json"), bad).expect("written");
            let reports = Reports::beside(lab.path());
            let error = reports
                .of(Source::Simulator)
                .about()
                .expect_err("no report");
            assert!(error.contains("tvarak.json"), "{error}");
        }
        for odd in ["7", "[[]]", "{\"claims\": {\"a\": 1}}", "null"] {
            fs::write(lab.path().join("tvarak.json"), odd).expect("written");
            fs::write(lab.path().join("files.json"), odd).expect("written");
            let reports = Reports::beside(lab.path());
            assert_eq!(
                reports.of(Source::Simulator).claims("Figure 8").count(),
                0,
                "{odd}"
            );
            let files = reports.of(Source::Files);
            assert!(
                files
                    .claims("Figure 1")
                    .all(|claim| claim.verdict.is_held().is_none())
            );
        }
    }

    #[test]
    fn where_none_is_there_the_text_is_still_told() {
        let reports = Reports::none();
        for (source, figure) in [
            (Source::Grid, "Figure 8b"),
            (Source::Layers, "Table 1"),
            (Source::Bugs, "Figure 1"),
            (Source::Applications, "Figure 12"),
        ] {
            let mut claims = reports.of(source).claims(figure);
            assert!(claims.all(|claim| claim.verdict == Verdict::NotMeasured && claim.ours == "–"));
            assert!(reports.of(source).claims(figure).count() > 0, "{figure}");
        }
    }
}
