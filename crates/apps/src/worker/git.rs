//! Commits of `git`, each of which is durable: `core.fsync=all`.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::outcome::Outcome;
use forebay_harness::{Result, output};

const FILES: usize = 20;
const DEADLINE: Duration = Duration::from_secs(120);

/// `git`, as this program's child: where it runs, how, and nothing of the user's own settings.
fn git(program: &Path, repository: &Path, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new(program);
    command
        .arg("-C")
        .arg(repository)
        .args(["-c", "core.fsync=all", "-c", "core.fsyncMethod=fsync"])
        .args(["-c", "gc.auto=0", "-c", "maintenance.auto=false"])
        .args([
            "-c",
            "user.name=Forebay",
            "-c",
            "user.email=nobody@localhost",
        ])
        .args(arguments)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("HOME", repository);
    output(&mut command, DEADLINE)
}

/// Changes a file and commits, for so long; then looks whether the history is whole.
///
/// Errors: git's; another number of commits is there than was made.
pub fn run(program: &Path, repository: &Path, seconds: f64) -> Result<Outcome> {
    std::fs::create_dir(repository)?;
    let change = |number: usize| {
        let file = repository.join(format!("file-{}", number % FILES));
        std::fs::write(file, format!("change {number}\n").repeat(40))
    };
    git(program, repository, &["init", "--quiet"])?;
    for number in 0..FILES {
        change(number)?;
    }
    git(program, repository, &["add", "--all"])?;
    git(program, repository, &["commit", "--quiet", "-m", "all"])?;
    let length = Duration::from_secs_f64(seconds);
    let mut commits = 0;
    let began = Instant::now();
    while began.elapsed() < length {
        change(FILES + commits)?;
        git(
            program,
            repository,
            &["commit", "--quiet", "-a", "-m", "one"],
        )?;
        commits += 1;
    }
    let rate = commits as f64 / began.elapsed().as_secs_f64();
    git(program, repository, &["fsck", "--full", "--strict"])?;
    let there = git(program, repository, &["rev-list", "--count", "HEAD"])?;
    if there.trim() != (commits + 1).to_string() {
        return Err(format!("{} commits, made {}", there.trim(), commits + 1).into());
    }
    Ok(Outcome::rate("git_commit", rate, "commits/s"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_are_made() {
        let Some(program) = forebay_harness::find_program("git") else {
            println!("skipped commits: needs git");
            return;
        };
        let folder = tempfile::tempdir().expect("a folder");
        let outcome = run(&program, &folder.path().join("repository"), 0.01).expect("it runs");
        assert_eq!(outcome.rows[0].name, "git_commit");
    }
}
