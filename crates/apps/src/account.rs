//! The users that packages made for their programs: some programs refuse to run as the superuser.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use forebay_harness::Result;

#[derive(Debug)]
pub struct Account {
    user: u32,
    group: u32,
}

impl Account {
    /// Errors: there is no such user.
    pub fn named(name: &str) -> Result<Account> {
        let users = std::fs::read_to_string("/etc/passwd")?;
        let mut fields = users
            .lines()
            .map(|line| line.split(':').collect::<Vec<_>>());
        let found = fields.find(|fields| fields.first() == Some(&name));
        let number = |index: usize| -> Option<u32> { found.as_ref()?.get(index)?.parse().ok() };
        match (number(2), number(3)) {
            (Some(user), Some(group)) => Ok(Account { user, group }),
            _ => Err(format!("no user {name} here; `scripts/setup.sh apps` makes it").into()),
        }
    }

    /// Makes the user the owner, alone.
    pub fn give(&self, path: &Path) -> Result<()> {
        chown(path, Some(self.user), Some(self.group))?;
        Ok(std::fs::set_permissions(
            path,
            PermissionsExt::from_mode(0o700),
        )?)
    }

    /// The program, run by this user where we are the superuser, in a directory that every user may enter.
    pub fn as_user(&self, mut command: Command) -> Command {
        let own = std::fs::metadata("/proc/self").map(|own| own.uid());
        if own.is_ok_and(|own| own != self.user) {
            command.uid(self.user).gid(self.group);
        }
        command.current_dir("/");
        command
    }
}
