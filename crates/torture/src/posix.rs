//! What POSIX says of names, modes, owners, times and errors: the checks of `pjdfstest`, on the mount
//! beside the file system behind it.

use std::path::Path;
use std::time::Duration;

use crate::form::Form;
use crate::place::Place;
use crate::report::Report;
use crate::settings::Settings;
use forebay_harness::{Result, Row};

const DEADLINE: Duration = Duration::from_secs(600);
const POOL_BYTES: u64 = 64 << 20;
/// Users of every Debian; a nap longer than the steps of a file's times.
const CONFIGURATION: &str = r#"[features]
posix_fallocate = {}
utimensat = {}
utime_now = {}
rename_ctime = {}
[settings]
naptime = 0.02
allow_remount = false
[dummy_auth]
entries = [["nobody", "nogroup"], ["daemon", "daemon"]]
"#;

/// How many checks, and which failed.
#[derive(Debug, Default, PartialEq)]
struct Checks {
    count: u64,
    failed: Vec<String>,
}

/// The checks on a plain directory, which says what this machine can, and on the mounts.
pub fn run(settings: &Settings, report: &mut Report) -> Result<()> {
    let name = "POSIX checks";
    let Some(tool) = settings.tool("pjdfstest") else {
        report.skip(name, "needs pjdfstest; scripts/setup.sh apps installs it");
        return Ok(());
    };
    if !rustix::process::geteuid().is_root() {
        report.skip(name, "needs root: files of several users");
        return Ok(());
    }
    let plain = check(settings, Form::Plain, &tool)?;
    let (mut count, mut failed) = (0, 0);
    let mounts = settings
        .forms
        .iter()
        .copied()
        .filter(|form| form.is_mounted());
    for form in mounts {
        if let Some(lack) = form.lacks() {
            report.skip(&format!("{name} by {}", form.name()), lack);
            continue;
        }
        let mut checks = check(settings, form, &tool)?;
        // What fails without us too says nothing about us.
        checks.failed.retain(|one| !plain.failed.contains(one));
        count += checks.count;
        failed += checks.failed.len() as u64;
        let outcome = match checks.failed.is_empty() {
            true => Ok(checks.count),
            false => Err(format!("failed: {}", checks.failed.join(", ")).into()),
        };
        report.take(&format!("posix_checks_{}", form.name()), "checks", outcome);
    }
    report.row(Row::new("posix_checks", count as f64, "checks"));
    report.row(Row::new("posix_checks_failed", failed as f64, "checks"));
    let plain_failed = plain.failed.len() as f64;
    report.row(Row::new(
        "posix_checks_failed_plain",
        plain_failed,
        "checks",
    ));
    Ok(())
}

fn check(settings: &Settings, form: Form, tool: &Path) -> Result<Checks> {
    let mut place = Place::new(form, settings, &settings.disk, POOL_BYTES)?;
    place.start()?;
    let configuration = place.env.path("pjdfstest.toml");
    std::fs::write(&configuration, CONFIGURATION)?;
    let mut command = place.program(tool);
    command
        .arg("-c")
        .arg(configuration)
        .arg("-p")
        .arg(place.files())
        // For what must not work between file systems.
        .arg("-s")
        .arg(place.env.path(""));
    let output = forebay_harness::run(&mut command, DEADLINE)?;
    let checks = parse(&output.printed)
        .ok_or_else(|| format!("pjdfstest printed no result: {}", output.tail()))?;
    place.stop()?;
    Ok(checks)
}

/// From the summary, and the lines of those that failed; none where there is no summary.
fn parse(printed: &str) -> Option<Checks> {
    let summary = printed
        .lines()
        .rev()
        .find(|line| line.starts_with("Summary:"))?;
    let before = |word: &str| -> Option<u64> {
        let (head, _) = summary.split_once(word)?;
        head.split_whitespace().next_back()?.parse().ok()
    };
    // A failed check's name comes first, then what it says, set off by white space.
    let mut failed: Vec<String> = Vec::new();
    let mut is_saying = false;
    for line in printed.lines() {
        if let Some(name) = line.strip_suffix("FAILED") {
            failed.push(name.trim().to_owned());
            is_saying = true;
        } else if is_saying && line.starts_with(char::is_whitespace) {
            let last = failed.last_mut().expect("one has failed");
            last.push_str(": ");
            last.push_str(line.trim());
        } else {
            is_saying = false;
        }
    }
    Some(Checks {
        count: before(" passed,")? + before(" failed,")?,
        failed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_named_and_counted() {
        let printed = "chown::a      ok\nlink::b::c     FAILED\n\tAssertion 1\n\n\
            Summary: 1 failed, 22 skipped, 375 passed, 0 expected failures, 398 total\n";
        let wanted = Checks {
            count: 376,
            failed: vec!["link::b::c: Assertion 1".into()],
        };
        assert_eq!(parse(printed), Some(wanted));
        assert_eq!(parse("no such file"), None);
    }
}
