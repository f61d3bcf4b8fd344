//! What the backing's mounts forbid is forbidden on this one too, or it would be a way around them.

use std::io;
use std::path::Path;

use forebay_serve::mount_point;
use fuser::MountOption;
use rustix::fs::StatVfsMountFlags;

/// What the mount of a directory forbids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restrictions {
    /// Set-user-id and set-group-id bits and capabilities mean nothing.
    pub no_suid: bool,
    /// Devices cannot be opened.
    pub no_devices: bool,
    /// Programs cannot be run.
    pub no_programs: bool,
    /// Nothing can be written.
    pub read_only: bool,
}

impl Restrictions {
    /// Those of the mount that `data` (resolved) lies on. Where a mount below `data` takes privileges
    /// away, all of the tree loses them, since one mount shows it all.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn of(data: &Path) -> io::Result<Restrictions> {
        let flags = rustix::fs::statvfs(data)?.f_flag;
        let below = mount_point::options_below(data)?;
        let is_below = |wanted: &str| {
            let mut options = below.iter().flat_map(|options| options.split(','));
            options.any(|option| option == wanted)
        };
        Ok(Restrictions {
            no_suid: flags.contains(StatVfsMountFlags::NOSUID) || is_below("nosuid"),
            no_devices: flags.contains(StatVfsMountFlags::NODEV) || is_below("nodev"),
            no_programs: flags.contains(StatVfsMountFlags::NOEXEC),
            read_only: flags.contains(StatVfsMountFlags::RDONLY),
        })
    }

    /// As options of the mount. Only root's mount may have privileges at all.
    pub fn options(self, is_root: bool) -> Vec<MountOption> {
        let mut options = vec![
            match self.no_suid || !is_root {
                true => MountOption::NoSuid,
                false => MountOption::Suid,
            },
            match self.no_devices || !is_root {
                true => MountOption::NoDev,
                false => MountOption::Dev,
            },
        ];
        options.extend(self.no_programs.then_some(MountOption::NoExec));
        options.extend(self.read_only.then_some(MountOption::RO));
        options
    }
}
