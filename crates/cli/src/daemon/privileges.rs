//! Giving up root once everything that needs it is open.
//!
//! The C library changes the ids of every thread of the process. Leaving user 0 clears the
//! capabilities with them; that it worked is checked, because the user asked not to serve as root.

use std::ffi::CString;

use forebay_command::Failure;
use nix::unistd::{Uid, User, getuid, initgroups, setresgid, setresuid, setuid};

/// The user to become, looked up while the system's tables are surely readable.
#[derive(Debug)]
pub struct Target {
    user: User,
    name: CString,
}

impl Target {
    /// Looks `name` up.
    ///
    /// # Errors
    /// There is no such user, or this process may not become another one.
    pub fn of_name(name: &str) -> Result<Target, Failure> {
        let refuse = |found: String| Failure::Arguments(format!("--user {name}: {found}"));
        let user = User::from_name(name)
            .map_err(|error| refuse(format!("it cannot be looked up: {error}")))?
            .ok_or_else(|| {
                refuse("there is no such user; make one with useradd --system".into())
            })?;
        if !getuid().is_root() && getuid() != user.uid {
            return Err(refuse("only root can become another user".into()));
        }
        let name = CString::new(name).map_err(|error| refuse(error.to_string()))?;
        Ok(Target { user, name })
    }

    /// The user and the group that are to own the sockets.
    pub fn owner(&self) -> (u32, u32) {
        (self.user.uid.as_raw(), self.user.gid.as_raw())
    }

    /// Becomes the user, irrevocably.
    ///
    /// # Errors
    /// The system refused, or root could be regained.
    pub fn assume(&self) -> Result<(), Failure> {
        let User { uid, gid, .. } = self.user;
        if getuid() == uid {
            return Ok(());
        }
        initgroups(&self.name, gid)
            .and_then(|()| setresgid(gid, gid, gid))
            .and_then(|()| setresuid(uid, uid, uid))
            .map_err(|error| {
                Failure::Failed(format!("cannot become user {}: {error}", self.user.name))
            })?;
        if !uid.is_root() && setuid(Uid::from_raw(0)).is_ok() {
            return Err(Failure::Failed(format!(
                "root's rights came back after becoming user {}; not serving",
                self.user.name
            )));
        }
        tracing::info!(
            user = self.user.name,
            "root's rights are given up: what is attached from now on must be this user's"
        );
        Ok(())
    }
}
