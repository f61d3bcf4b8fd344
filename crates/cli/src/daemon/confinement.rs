//! Which files a daemon may still open once everything is open, where `--allow-backing` says so: those
//! below what it names, for the disks of now and those that are attached later.
//!
//! The daemon's own checks of what it is asked to attach make for clear errors; that a compromised daemon
//! opens nothing else is enforced by the kernel (landlock), for all threads and for good. What is open stays
//! open. Such a daemon cannot mount or unmount either: a process of its own does the latter.

#![allow(unsafe_code, reason = "a signal handler calls the system itself")]

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use forebay_command::Failure;
use landlock::{
    ABI, Access, AccessFs, BitFlags, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError,
    path_beneath_rules,
};

use super::every_thread;

/// What is forbidden everywhere else, as far as the kernel knows it; the same for every kernel that does.
const KNOWN: ABI = ABI::V5;

/// Read to find out what a block device is.
const READ_TO_ATTACH: [&str; 2] = ["/sys", "/dev/disk"];

/// The directories and files, resolved.
#[derive(Clone, Debug)]
pub struct Confinement {
    allowed: Vec<PathBuf>,
}

impl Confinement {
    /// To these.
    ///
    /// # Errors
    /// One is not there.
    pub fn to(paths: &[PathBuf]) -> Result<Confinement, Failure> {
        let resolve = |path: &PathBuf| {
            std::fs::canonicalize(path).map_err(|error| {
                Failure::Arguments(format!("--allow-backing {}: {error}", path.display()))
            })
        };
        let allowed = paths.iter().map(resolve).collect::<Result<_, _>>()?;
        Ok(Confinement { allowed })
    }

    /// Refuses a file or device outside, also one that is to be made there.
    pub fn check(&self, path: &Path) -> Result<(), Failure> {
        let folder = path.parent().unwrap_or(path);
        let resolved = std::fs::canonicalize(path).or_else(|_| std::fs::canonicalize(folder));
        let Ok(resolved) = resolved else {
            // Opening it reports why.
            return Ok(());
        };
        if self.allowed.iter().any(|path| resolved.starts_with(path)) {
            return Ok(());
        }
        let allowed: Vec<_> = self.allowed.iter().map(|path| path.display()).collect();
        Err(Failure::Arguments(format!(
            "{} lies outside of what this daemon may open, {allowed:?}; start it with another \
             --allow-backing",
            resolved.display()
        )))
    }

    /// Confines all threads. Sockets can come and go beside these, and the files of regions in theirs, where those are
    /// there by now. False where the kernel has no landlock.
    ///
    /// # Errors
    /// The kernel's.
    pub fn enter(&self, sockets: &[PathBuf], regions: &[PathBuf]) -> Result<bool, Failure> {
        let refused = |error: &dyn std::fmt::Display| {
            Failure::Failed(format!(
                "the daemon cannot be confined to files ({error}); leave --allow-backing out"
            ))
        };
        // Read on occasion from where it cannot be read then.
        forebay::internals::know_boot();
        forebay_serve::vhost::know_host();
        let ruleset = self
            .ruleset(sockets, regions)
            .map_err(|error| refused(&error))?;
        let Some(ruleset) = ruleset else {
            return Ok(false);
        };
        every_thread::run(move || restrict_this_thread(&ruleset))
            .map_err(|error| refused(&error))?;
        Ok(true)
    }

    fn ruleset(
        &self,
        sockets: &[PathBuf],
        regions: &[PathBuf],
    ) -> Result<Option<OwnedFd>, RulesetError> {
        let folders = sockets.iter().filter_map(|socket| socket.parent());
        let marks = forebay::internals::mark_folder();
        let own = self.allowed.iter().chain(regions).chain([&marks]);
        let created = Ruleset::default()
            .handle_access(AccessFs::from_all(KNOWN))?
            .create()?
            .add_rules(path_beneath_rules(own, of_backings()))?
            .add_rules(path_beneath_rules(folders, of_sockets()))?
            .add_rules(path_beneath_rules(
                READ_TO_ATTACH,
                AccessFs::ReadFile | AccessFs::ReadDir,
            ))?;
        Ok(created.into())
    }
}

/// Everything but programs, devices, pipes and links.
fn of_backings() -> BitFlags<AccessFs> {
    let never = AccessFs::Execute
        | AccessFs::MakeChar
        | AccessFs::MakeBlock
        | AccessFs::MakeFifo
        | AccessFs::MakeSym;
    AccessFs::from_all(KNOWN) & !never
}

/// A socket is made in a private directory beside, and moved to its place.
fn of_sockets() -> BitFlags<AccessFs> {
    AccessFs::ReadDir
        | AccessFs::MakeSock
        | AccessFs::MakeDir
        | AccessFs::RemoveDir
        | AccessFs::RemoveFile
        | AccessFs::Refer
}

fn restrict_this_thread(ruleset: &OwnedFd) -> i32 {
    // SAFETY: it takes two numbers, no memory.
    let result =
        unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0_u32) };
    match result {
        0 => 0,
        // SAFETY: this thread's own errno, which is put back by the signal's handler.
        _ => match unsafe { *libc::__errno_location() } {
            // A thread that was made by confined ones, again and again.
            libc::E2BIG => 0,
            errno => errno,
        },
    }
}

/// Tries to open what it may not, harmlessly where it may: the outcome of each attempt.
pub fn try_files() -> Vec<(&'static str, Option<i32>)> {
    let made = std::env::temp_dir().join(format!("forebay-try-{}", std::process::id()));
    let number = |result: std::io::Result<()>| result.err().and_then(|error| error.raw_os_error());
    let make = std::fs::File::create_new(&made).and_then(|_| std::fs::remove_file(&made));
    vec![
        ("read", number(std::fs::File::open("/etc/passwd").map(drop))),
        ("list", number(std::fs::read_dir("/etc").map(drop))),
        ("make", number(make)),
        (
            "process",
            number(std::fs::File::open("/proc/self/environ").map(drop)),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backing_outside_is_refused_by_name_also_through_a_link() {
        let (inside, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let confinement = Confinement::to(&[inside.path().to_owned()]).unwrap();
        let image = outside.path().join("image");
        std::fs::write(&image, b"").unwrap();
        let link = inside.path().join("link");
        std::os::unix::fs::symlink(&image, &link).unwrap();
        for path in [&image, &link] {
            let message = confinement.check(path).unwrap_err().to_string();
            assert!(message.contains("--allow-backing"), "{message}");
        }
        let own = inside.path().join("image");
        std::fs::write(&own, b"").unwrap();
        confinement.check(&own).unwrap();
        Confinement::to(&[outside.path().join("nothing")]).unwrap_err();
    }
}
