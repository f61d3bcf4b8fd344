//! Programs that are run to their end.

use std::fs::File;
use std::io::{Read, Seek};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use crate::{Group, Result, tail};

/// What a program printed, and how it ended.
#[derive(Debug)]
pub struct Output {
    /// How it ended.
    pub status: ExitStatus,
    /// What it said to standard output.
    pub printed: String,
    /// What it said to standard error.
    pub complaints: String,
    name: String,
}

impl Output {
    /// The last lines of all it said.
    pub fn tail(&self) -> String {
        tail(&format!("{}{}", self.printed, self.complaints))
    }

    /// How it ended, and the last lines of all it said.
    pub fn told(&self) -> String {
        format!("{}: {}\n{}", self.name, self.status, self.tail())
    }
}

/// Runs a program to its end.
///
/// # Errors
/// It cannot be started, takes longer than `deadline`, or a signal came; the message ends in the last
/// lines that it printed.
pub fn run(command: &mut Command, deadline: Duration) -> Result<Output> {
    // Files, because a pipe would have to be read.
    let (mut stdout, mut stderr) = (tempfile::tempfile()?, tempfile::tempfile()?);
    command
        .stdin(Stdio::null())
        .stdout(stdout.try_clone()?)
        .stderr(stderr.try_clone()?);
    let mut group = Group::start(command)?;
    let status = group.wait(deadline);
    let name = group.name().to_owned();
    // What took too long is ended before its last words are read.
    drop(group);
    let (printed, complaints) = (read(&mut stdout)?, read(&mut stderr)?);
    match status {
        Ok(status) => Ok(Output {
            status,
            printed,
            complaints,
            name,
        }),
        Err(error) => {
            let said = tail(&format!("{printed}{complaints}"));
            Err(format!("{error}\n{said}").trim_end().into())
        }
    }
}

/// Runs a program that must succeed; what it printed.
///
/// # Errors
/// As [`run`], and if it fails.
pub fn output(command: &mut Command, deadline: Duration) -> Result<String> {
    let output = run(command, deadline)?;
    match output.status.success() {
        true => Ok(output.printed),
        false => {
            let (status, tail) = (output.status, output.tail());
            Err(format!("{command:?}: {status}\n{tail}").into())
        }
    }
}

fn read(file: &mut File) -> Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::processes::testing::{MINUTE, shell};

    #[test]
    fn what_is_printed_is_returned_and_a_failure_says_why() {
        let printed = output(&mut shell("echo one"), MINUTE).expect("it runs");
        assert_eq!(printed, "one\n");
        let error = output(&mut shell("echo why >&2; exit 3"), MINUTE).expect_err("fails");
        assert!(error.to_string().contains("why"), "{error}");
    }

    #[test]
    fn a_failure_may_be_an_answer() {
        let output = run(&mut shell("echo one; echo two >&2; exit 3"), MINUTE).expect("it ends");
        assert_eq!(output.status.code(), Some(3));
        assert_eq!(
            (output.printed.as_str(), output.complaints.as_str()),
            ("one\n", "two\n")
        );
        assert_eq!(output.told(), "sh: exit status: 3\none\ntwo");
    }

    #[test]
    fn nothing_is_left_of_a_program_that_takes_too_long_but_its_last_words() {
        let folder = tempfile::tempdir().expect("a folder");
        let mark = folder.path().join("pid");
        let script = format!("echo $$ > {}; echo on it; sleep 600 & wait", mark.display());
        let limit = Duration::from_millis(300);
        let error = run(&mut shell(&script), limit).expect_err("too long");
        assert!(error.to_string().ends_with("on it"), "{error}");
        let pid = std::fs::read_to_string(&mark).expect("it ran");
        assert!(!Path::new("/proc").join(pid.trim()).exists());
    }
}
