//! The names of a real directory tree, by the kernel's calls relative to open directories.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{Access, AtFlags, Dir, FileType, Gid, Mode, OFlags, RenameFlags, Uid};
use rustix::fs::{Statx, StatxFlags, StatxTimestamp};
use rustix::io::Errno;
use rustix::time::ClockId;

use super::attributes::AttributeChange;
use super::file_system::{self, Mark};
use super::handles;
use super::proof::Proof;
use super::real_attributes;
pub(crate) use super::real_attributes::link_of;
use super::space::{BOOT_BYTES, Creation, Identity, KIND_BITS, Mounting, NameSpace, Renaming};
use super::space::{Seen, Sought, is_directory};
use crate::identity::FileIdentity;
use crate::observe;

/// What becomes of a descriptor that stays open: programs count on low numbers being theirs.
pub type KeepDescriptor = fn(OwnedFd) -> io::Result<OwnedFd>;

/// A directory of each file system seen, open for syncing it.
struct Devices {
    open: HashMap<u64, Arc<OwnedFd>>,
    keep: KeepDescriptor,
}

/// A directory tree of the kernel's.
pub(crate) struct RealSpace {
    root: Arc<OwnedFd>,
    devices: Mutex<Devices>,
    /// Which boot this is; none if the kernel does not say.
    boot: Option<[u8; BOOT_BYTES]>,
    /// When it began, if another moment is to be taken for that: nanoseconds since 1970.
    started_ns: Option<i128>,
    /// The root of everything: too much to be looked through.
    is_everything: bool,
    /// This process may open any inode by its handle, and give it any attribute.
    is_privileged: bool,
}

impl fmt::Debug for RealSpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RealSpace")
            .field("root", &self.root)
            .finish()
    }
}

impl RealSpace {
    /// The tree under an open directory.
    pub(crate) fn new(root: OwnedFd) -> RealSpace {
        RealSpace::in_boot(root, boot_id(), None)
    }

    /// The same, in the boot of this id, which began then.
    #[cfg(test)]
    pub(super) fn of_boot(root: OwnedFd, boot: [u8; BOOT_BYTES], started_ns: i128) -> RealSpace {
        RealSpace::in_boot(root, Some(boot), Some(started_ns))
    }

    fn in_boot(
        root: OwnedFd,
        boot: Option<[u8; BOOT_BYTES]>,
        started_ns: Option<i128>,
    ) -> RealSpace {
        let path = RealSpace::absolute_path(root.as_fd());
        RealSpace {
            root: Arc::new(root),
            devices: Mutex::new(Devices {
                open: HashMap::new(),
                keep: Ok,
            }),
            boot,
            started_ns,
            is_everything: path.is_ok_and(|path| path == b"/"),
            is_privileged: real_attributes::is_privileged(),
        }
    }

    /// Any open inode.
    pub(crate) fn seen_of(descriptor: BorrowedFd<'_>) -> io::Result<Seen> {
        see(descriptor, OsStr::new(""), AtFlags::EMPTY_PATH)
    }

    /// The same inode, without any access to it.
    pub(crate) fn path_only(descriptor: BorrowedFd<'_>) -> io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        Ok(rustix::fs::open(link_of(descriptor), flags, Mode::empty())?)
    }

    fn know_device(&self, directory: BorrowedFd<'_>, device: u64) -> io::Result<()> {
        let mut devices = self.devices();
        let keep = devices.keep;
        if let std::collections::hash_map::Entry::Vacant(entry) = devices.open.entry(device) {
            entry.insert(Arc::new(keep(readable(directory)?)?));
        }
        Ok(())
    }

    /// Descriptors that stay go through `keep`, those that are open now too.
    pub(super) fn keep_descriptors_by(&self, keep: KeepDescriptor) -> io::Result<()> {
        let mut devices = self.devices();
        devices.keep = keep;
        for descriptor in devices.open.values_mut() {
            *descriptor = Arc::new(keep(descriptor.as_ref().try_clone()?)?);
        }
        Ok(())
    }

    fn devices(&self) -> MutexGuard<'_, Devices> {
        self.devices.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where an open inode is, as the kernel says.
    fn absolute_path(descriptor: BorrowedFd<'_>) -> io::Result<Vec<u8>> {
        let link = rustix::fs::readlink(link_of(descriptor), Vec::new())?;
        Ok(link.into_bytes())
    }
}

/// Which mounting of its file system a file is on; none where changes could be forgotten while it lasts.
pub(crate) fn mounting_of(file: BorrowedFd<'_>) -> io::Result<Option<Mounting>> {
    mounting_in(boot_id(), file)
}

fn mounting_in(
    boot: Option<[u8; BOOT_BYTES]>,
    file: BorrowedFd<'_>,
) -> io::Result<Option<Mounting>> {
    if let Some(mount) = observe::mounting() {
        let boot = [0; BOOT_BYTES];
        return Ok(Some(Mounting { boot, mount }));
    }
    let Some(boot) = boot else {
        return Ok(None);
    };
    if !OWN_FILE_SYSTEMS.contains(&rustix::fs::fstatfs(file)?.f_type) {
        return Ok(None);
    }
    let stat = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, MOUNT_ID_UNIQUE)?;
    let is_unique = stat.stx_mask & MOUNT_ID_UNIQUE.bits() != 0;
    Ok(is_unique.then_some(Mounting {
        boot,
        mount: stat.stx_mnt_id,
    }))
}

/// This boot's id, which no other has.
fn boot_id() -> Option<[u8; BOOT_BYTES]> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    Some(u128::from_str_radix(&digits, 16).ok()?.to_le_bytes())
}

/// File systems that are this kernel's alone: nothing is done that it does not know, and only it can
/// forget.
const OWN_FILE_SYSTEMS: [i64; 5] = [
    libc::EXT4_SUPER_MAGIC,
    libc::XFS_SUPER_MAGIC,
    libc::BTRFS_SUPER_MAGIC,
    libc::F2FS_SUPER_MAGIC,
    libc::TMPFS_MAGIC,
];

/// `STATX_MNT_ID_UNIQUE` (since Linux 6.8): the number of a mount, which is not used again.
const MOUNT_ID_UNIQUE: StatxFlags = StatxFlags::from_bits_retain(0x4000);

/// Gives what was just made its owner and its mode, by a descriptor: another user of its directory may have put something else at its
/// name meanwhile, a link to a file of root's for example.
pub(super) fn give(made: BorrowedFd<'_>, creation: &Creation) -> io::Result<()> {
    let seen = RealSpace::seen_of(made)?;
    let kind = creation.mode & KIND_BITS;
    if seen.mode & KIND_BITS != kind {
        return Err(io::Error::other(
            "something else took the place of what recovery made; others must not write to the directory meanwhile",
        ));
    }
    if (seen.user, seen.group) != (creation.user, creation.group) {
        let user = Uid::from_raw(creation.user);
        let group = Gid::from_raw(creation.group);
        let given = rustix::fs::chownat(made, c"", Some(user), Some(group), AtFlags::EMPTY_PATH);
        // A process that may not give files away made it as its own user.
        given.or_else(|error| match error {
            Errno::PERM => Ok(()),
            error => Err(error),
        })?;
    }
    if kind != libc::S_IFLNK {
        let mode = Mode::from_raw_mode(creation.mode & !KIND_BITS);
        rustix::fs::chmod(link_of(made), mode)?;
    }
    Ok(())
}

fn readable(directory: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(directory, ".", flags, Mode::empty())?)
}

fn see(directory: BorrowedFd<'_>, name: &OsStr, flags: AtFlags) -> io::Result<Seen> {
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    let statx_flags = flags | AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    let stat = rustix::fs::statx(directory, name, statx_flags, wanted)?;
    let has_btime = stat.stx_mask & StatxFlags::BTIME.bits() != 0;
    let time = if has_btime {
        stat.stx_btime
    } else {
        stat.stx_ctime
    };
    let mut identity = Identity {
        device: rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor),
        inode: stat.stx_ino,
        proof: Proof::NOTHING,
    };
    let real = FileIdentity {
        device: identity.device,
        inode: identity.inode,
    };
    match observe::identity(real) {
        Some(said) => {
            identity.inode = said.inode;
            identity.proof = Proof::hash(&said.generation.to_le_bytes());
        }
        None => identity.proof = proof(directory, name, flags, has_btime.then_some(&stat)),
    }
    Ok(Seen {
        identity,
        mode: u32::from(stat.stx_mode),
        links: u64::from(stat.stx_nlink),
        user: stat.stx_uid,
        group: stat.stx_gid,
        node_device: rustix::fs::makedev(stat.stx_rdev_major, stat.stx_rdev_minor),
        made_ns: ns_of(&time),
        changed_ns: observe::changed_ns(real, ns_of(&stat.stx_ctime)),
    })
}

/// What tells the inode from those that had its number before: the kernel's file handle, which has
/// the inode's generation in it; else when it was made; else nothing.
fn proof(directory: BorrowedFd<'_>, name: &OsStr, flags: AtFlags, born: Option<&Statx>) -> Proof {
    let born_ns = born.map(|stat| {
        let seconds = stat.stx_btime.tv_sec.wrapping_mul(1_000_000_000);
        seconds.wrapping_add(i64::from(stat.stx_btime.tv_nsec))
    });
    match handles::handle_of(directory, name, flags) {
        Some((kind, handle)) => Proof::of_handle(kind, &handle, born_ns),
        None => born_ns.map_or(Proof::NOTHING, Proof::of_birth),
    }
}

fn ns_of(time: &StatxTimestamp) -> i128 {
    i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
}

fn clock_ns(clock: ClockId) -> i128 {
    let now = rustix::time::clock_gettime(clock);
    i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec)
}

impl NameSpace for RealSpace {
    type Handle = Arc<OwnedFd>;

    fn root(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.root)
    }

    fn seen(&self, handle: &Arc<OwnedFd>) -> io::Result<Seen> {
        let seen = RealSpace::seen_of(handle.as_fd())?;
        if seen.is_directory() && seen.links > 0 {
            self.know_device(handle.as_fd(), seen.identity.device)?;
        }
        Ok(seen)
    }

    fn look(&self, directory: &Arc<OwnedFd>, name: &OsStr) -> io::Result<Option<Seen>> {
        match see(directory.as_fd(), name, AtFlags::empty()) {
            Ok(seen) => Ok(Some(seen)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn hold(&self, directory: &Arc<OwnedFd>, name: &OsStr) -> io::Result<Arc<OwnedFd>> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let held = rustix::fs::openat(directory, name, flags, Mode::empty())?;
        Ok(Arc::new(held))
    }

    fn path(&self, handle: &Arc<OwnedFd>) -> io::Result<Vec<OsString>> {
        let root = RealSpace::absolute_path(self.root.as_fd())?;
        let path = RealSpace::absolute_path(handle.as_fd())?;
        let prefix = root.strip_suffix(b"/").unwrap_or(&root);
        let rest = path.strip_prefix(prefix).filter(|rest| {
            // "/data2" is not in "/data".
            rest.is_empty() || rest.starts_with(b"/")
        });
        let rest = rest.ok_or_else(|| io::Error::from_raw_os_error(libc::EXDEV))?;
        let names = rest.split(|byte| *byte == b'/');
        Ok(names
            .filter(|name| !name.is_empty())
            .map(|name| OsString::from_vec(name.to_vec()))
            .collect())
    }

    fn names(&self, directory: &Arc<OwnedFd>, prefix: &str) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in Dir::new(readable(directory.as_fd())?)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name.starts_with(prefix.as_bytes()) {
                names.push(OsString::from_vec(name.to_vec()));
            }
        }
        Ok(names)
    }

    fn is_empty(&self, directory: &Arc<OwnedFd>, name: &OsStr) -> io::Result<bool> {
        let held = self.hold(directory, name)?;
        for entry in Dir::new(readable(held.as_fd())?)? {
            let entry = entry?;
            if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn check_removable(&self, directory: &Arc<OwnedFd>, victim: &Seen) -> io::Result<()> {
        let access = Access::WRITE_OK | Access::EXEC_OK;
        let allowed = rustix::fs::accessat(directory, ".", access, AtFlags::EACCESS);
        if let Err(error @ (Errno::ACCESS | Errno::PERM | Errno::ROFS)) = allowed {
            return Err(error.into());
        }
        let there = RealSpace::seen_of(directory.as_fd())?;
        let user = rustix::process::geteuid();
        let owns = user.is_root() || [there.user, victim.user].contains(&user.as_raw());
        if there.mode & libc::S_ISVTX != 0 && !owns {
            return Err(Errno::PERM.into());
        }
        Ok(())
    }

    fn target(&self, directory: &Arc<OwnedFd>, name: &OsStr) -> io::Result<OsString> {
        let target = rustix::fs::readlinkat(directory, name, Vec::new())?;
        Ok(OsString::from_vec(target.into_bytes()))
    }

    fn make(&self, directory: &Arc<OwnedFd>, name: &OsStr, creation: &Creation) -> io::Result<()> {
        // Others get their rights when it has the owner that it is to have.
        let mode = Mode::from_raw_mode(creation.mode & libc::S_IRWXU);
        let made = match creation.mode & KIND_BITS {
            libc::S_IFREG => {
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
                rustix::fs::openat(directory, name, flags, mode)?
            }
            kind => {
                match kind {
                    libc::S_IFDIR => rustix::fs::mkdirat(directory, name, mode)?,
                    libc::S_IFLNK => rustix::fs::symlinkat(&creation.target, directory, name)?,
                    _ => {
                        let kind = FileType::from_raw_mode(creation.mode);
                        rustix::fs::mknodat(directory, name, kind, mode, creation.device)?;
                    }
                }
                let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                rustix::fs::openat(directory, name, flags, Mode::empty())?
            }
        };
        give(made.as_fd(), creation)
    }

    fn change(&self, handle: &Arc<OwnedFd>, change: &AttributeChange<'_>) -> io::Result<()> {
        real_attributes::change(handle.as_fd(), change)
    }

    fn link(
        &self,
        from: (&Arc<OwnedFd>, &OsStr),
        directory: &Arc<OwnedFd>,
        name: &OsStr,
    ) -> io::Result<()> {
        let flags = AtFlags::empty();
        Ok(rustix::fs::linkat(from.0, from.1, directory, name, flags)?)
    }

    fn rename(
        &self,
        from: (&Arc<OwnedFd>, &OsStr),
        to: (&Arc<OwnedFd>, &OsStr),
        how: Renaming,
    ) -> io::Result<()> {
        let flags = match how {
            Renaming::Replace => return Ok(rustix::fs::renameat(from.0, from.1, to.0, to.1)?),
            Renaming::NoReplace => RenameFlags::NOREPLACE,
            Renaming::Exchange => RenameFlags::EXCHANGE,
        };
        Ok(rustix::fs::renameat_with(
            from.0, from.1, to.0, to.1, flags,
        )?)
    }

    fn remove(&self, directory: &Arc<OwnedFd>, name: &OsStr, is_directory: bool) -> io::Result<()> {
        let flags = match is_directory {
            true => AtFlags::REMOVEDIR,
            false => AtFlags::empty(),
        };
        Ok(rustix::fs::unlinkat(directory, name, flags)?)
    }

    fn sync_inode(&self, handle: &Arc<OwnedFd>) -> io::Result<()> {
        let seen = RealSpace::seen_of(handle.as_fd())?;
        if !is_directory(seen.mode) {
            // Opening a file breaks leases, and closing it takes record locks; of others it could do
            // anything.
            return self.sync_all();
        }
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        match rustix::fs::open(link_of(handle.as_fd()), flags, Mode::empty()) {
            Ok(file) => observe::sync_all(file),
            Err(Errno::ACCESS) => self.sync_all(),
            Err(error) => Err(error.into()),
        }
    }

    fn sync_all(&self) -> io::Result<()> {
        // No thread that meets a directory waits for it.
        let open: Vec<Arc<OwnedFd>> = self.devices().open.values().cloned().collect();
        open.iter().try_for_each(observe::sync_file_system)
    }

    fn value(&self, handle: &Arc<OwnedFd>, name: &OsStr) -> io::Result<Option<Vec<u8>>> {
        real_attributes::value(&link_of(handle.as_fd()), name)
    }

    fn finds(&self, identity: &Identity) -> bool {
        self.is_privileged && identity.proof.handle().is_some() || observe::mounting().is_some()
    }

    fn mounting(&self, handle: &Arc<OwnedFd>) -> io::Result<Option<Mounting>> {
        mounting_in(self.boot, handle.as_fd())
    }

    fn mark(&self, handle: &Arc<OwnedFd>) -> io::Result<Option<Mark>> {
        // None without read permission on the directory; a mounted file is on no file system of its own.
        let uuid = readable(handle.as_fd()).ok();
        let uuid = uuid.and_then(|open| file_system::uuid_of(open.as_fd()));
        let is_watched = observe::mounting().is_some();
        if uuid.is_some() || is_watched || !Arc::ptr_eq(handle, &self.root) {
            return Ok(uuid);
        }
        Mark::of_birth(handle.as_fd())
    }

    fn seek(
        &self,
        directory: &Arc<OwnedFd>,
        identity: &Identity,
    ) -> io::Result<Sought<Arc<OwnedFd>>> {
        let Some((kind, handle)) = identity.proof.handle() else {
            return Ok(Sought::Unknown);
        };
        let directory = match readable(directory.as_fd()) {
            Ok(directory) => directory,
            // Any directory of the file system would do, but this one is not for us to read.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Ok(Sought::Unknown);
            }
            Err(error) => return Err(error),
        };
        let held = match handles::open(directory.as_fd(), kind, handle) {
            Ok(held) => held,
            Err(Errno::STALE | Errno::NOENT) => return Ok(Sought::Nowhere),
            Err(Errno::PERM | Errno::ACCESS | Errno::OPNOTSUPP | Errno::INVAL) => {
                return Ok(Sought::Unknown);
            }
            Err(error) => return Err(error.into()),
        };
        let seen = RealSpace::seen_of(held.as_fd())?;
        let is_it = seen.identity.inode == identity.inode && seen.identity.proof == identity.proof;
        Ok(match is_it && seen.links > 0 {
            true => Sought::Held(Arc::new(held)),
            false => Sought::Nowhere,
        })
    }

    fn is_searchable(&self) -> bool {
        !self.is_everything
    }

    /// When the machine started: what is older was read from the disk.
    fn durable_before_ns(&self) -> i128 {
        let started_ns = || self.now_ns() - clock_ns(ClockId::Boottime);
        self.started_ns.unwrap_or_else(started_ns)
    }

    fn boot(&self) -> [u8; BOOT_BYTES] {
        let watched = observe::mounting().map(|mount| u128::from(mount).to_le_bytes());
        watched.or(self.boot).unwrap_or_default()
    }

    fn booted_ns(&self) -> i128 {
        observe::booted_ns().unwrap_or_else(|| self.durable_before_ns())
    }

    fn change_clock_ns(&self) -> i128 {
        observe::change_clock_ns().unwrap_or_else(|| self.now_ns())
    }

    fn now_ns(&self) -> i128 {
        clock_ns(ClockId::RealtimeCoarse)
    }
}
