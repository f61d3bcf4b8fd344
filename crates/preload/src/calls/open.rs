//! open, and the calls like it.

use std::ffi::{CStr, c_char, c_int, c_uint};
use std::io;
use std::os::fd::{AsFd, AsRawFd, IntoRawFd, OwnedFd};

use forebay_files::FileIdentity;
use rustix::fs::{Access, AtFlags, Mode, OFlags};

use super::{active, answer, borrowed, covered, guarded, os_error, real};
use crate::inside::Inside;
use crate::open_file::{Life, OpenFile};
use crate::process::Process;
use crate::{buffering, cover, descriptors, table};
use forebay_files::tally::Count;

/// What only counts while a file is opened.
const OPENING_ONLY: i32 =
    libc::O_CREAT | libc::O_EXCL | libc::O_NOCTTY | libc::O_TRUNC | libc::O_CLOEXEC;

/// One call of `open`.
struct Opening<'a> {
    process: &'static Process,
    folder: c_int,
    path: &'a CStr,
    flags: c_int,
    mode: Mode,
}

/// # Safety
/// `path` is as `openat` demands.
unsafe fn open_at(folder: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
    if let Some(process) = active()
        && flags & (libc::O_PATH | libc::O_DIRECTORY) == 0
        // SAFETY: by our contract `path` is null or a C string that outlives the call.
        && unsafe { covered(process, folder, path) }.is_some()
    {
        let _inside = Inside::enter();
        // SAFETY: covered, so not null, and by our contract a C string that outlives the call.
        let path = unsafe { CStr::from_ptr(path) };
        let opening = Opening {
            process,
            folder,
            path,
            flags,
            mode: Mode::from_raw_mode(mode),
        };
        match guarded(|| opening.run()) {
            Ok(Some(fd)) => return fd,
            Ok(None) => {}
            Err(error) => return answer(Err(error)),
        }
    }
    // SAFETY: our caller keeps the contract of `openat`, whose arguments go on unchanged.
    unsafe { real::openat()(folder, path, flags, mode) }
}

impl Opening<'_> {
    fn has(&self, flag: i32) -> bool {
        self.flags & flag == flag
    }

    fn wants_to_write(&self) -> bool {
        self.flags & libc::O_ACCMODE != libc::O_RDONLY
    }

    /// The descriptor, or none if the real function is to open it.
    fn run(&self) -> io::Result<Option<c_int>> {
        if self.process.buffer().is_none() {
            self.process.recover_after_owner()?;
        }
        let follow = match self.has(libc::O_NOFOLLOW) {
            true => AtFlags::SYMLINK_NOFOLLOW,
            false => AtFlags::empty(),
        };
        match rustix::fs::statat(borrowed(self.folder), self.path, follow) {
            Ok(stat) => match buffering::identity_of(&stat) {
                Some(identity) => self.open_existing(identity),
                None => Ok(None),
            },
            Err(rustix::io::Errno::NOENT) if self.has(libc::O_CREAT) => self.create(),
            Err(_) => Ok(None),
        }
    }

    fn open_existing(&self, identity: FileIdentity) -> io::Result<Option<c_int>> {
        if self.has(libc::O_CREAT | libc::O_EXCL) {
            return Ok(None);
        }
        if let Some(file) = self.process.tracked(identity)
            && let Some(fd) = self.open_tracked(file, identity)?
        {
            return Ok(Some(fd));
        }
        if !self.wants_to_write() {
            return Ok(None);
        }
        let flags = self.kernel_flags().difference(OFlags::CREATE);
        match rustix::fs::openat(borrowed(self.folder), self.path, flags, self.mode) {
            Ok(fd) => self.enter(fd),
            // It may be written but not read: then it is not ours.
            Err(rustix::io::Errno::ACCESS | rustix::io::Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The file is buffered already. If the program has closed it, it goes on where it was; otherwise
    /// there will be two descriptions, so it becomes plain before the kernel opens it again.
    fn open_tracked(
        &self,
        file: &'static OpenFile,
        identity: FileIdentity,
    ) -> io::Result<Option<c_int>> {
        let mut life = file.write_life();
        if life.identity != Some(identity) {
            // It was released since we looked, and the record may be another file's by now.
            return Ok(None);
        }
        if file.is_held() || !life.is_buffered {
            buffering::unbuffer(self.process, file, &mut life)?;
            return Ok(None);
        }
        if self.is_more_synchronous_than(&life)? {
            buffering::unbuffer(self.process, file, &mut life)?;
            buffering::vacate(self.process, file, &mut life);
            drop(life);
            self.process.give_back(file);
            return Ok(None);
        }
        let (Some(own), Some(buffered)) = (&life.own, life.buffered()) else {
            return Ok(None);
        };
        self.check_access()?;
        if self.has(libc::O_TRUNC) && self.wants_to_write() {
            buffered.truncate(0)?;
        }
        let fd = match self.has(libc::O_CLOEXEC) {
            true => rustix::io::fcntl_dupfd_cloexec(own, 0)?,
            false => rustix::io::dup(own)?,
        };
        if !table::has_room(fd.as_raw_fd()) {
            buffering::unbuffer(self.process, file, &mut life)?;
            return Ok(None);
        }
        self.process.leave_closed(file);
        *file.lock_position() = 0;
        file.set_status(self.flags & !OPENING_ONLY);
        file.hold();
        table::set(fd.as_raw_fd(), Some(file));
        Ok(Some(fd.into_raw_fd()))
    }

    /// Whether the program now wants each write synced, and the kernel, for which flags are those of the
    /// first opening for ever, would not do it once the file is plain.
    fn is_more_synchronous_than(&self, life: &Life) -> io::Result<bool> {
        let wanted = OFlags::from_bits_retain((self.flags & libc::O_SYNC) as u32);
        Ok(match &life.own {
            Some(own) => !rustix::fs::fcntl_getfl(own)?.contains(wanted),
            None => false,
        })
    }

    fn check_access(&self) -> io::Result<()> {
        let access = match self.flags & libc::O_ACCMODE {
            libc::O_RDONLY => Access::READ_OK,
            libc::O_WRONLY => Access::WRITE_OK,
            _ => Access::READ_OK | Access::WRITE_OK,
        };
        Ok(rustix::fs::accessat(
            borrowed(self.folder),
            self.path,
            access,
            AtFlags::EACCESS,
        )?)
    }

    /// Nothing of this name is there. Names are logged while this process has the pool.
    fn create(&self) -> io::Result<Option<c_int>> {
        let flags = self.kernel_flags();
        let (Some(buffer), Some((folder, name))) =
            (self.process.buffer(), cover::split(self.path.to_bytes()))
        else {
            if !self.wants_to_write() {
                return Ok(None);
            }
            let fd = rustix::fs::openat(borrowed(self.folder), self.path, flags, self.mode)?;
            return self.enter(fd);
        };
        if rustix::fs::statat(borrowed(self.folder), self.path, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
            // A symbolic link to nothing: the kernel makes what it points to, elsewhere perhaps.
            let fd = rustix::fs::openat(borrowed(self.folder), self.path, flags, self.mode)?;
            self.process.names_unseen();
            return match self.wants_to_write() {
                true => self.enter(fd),
                false => Ok(Some(fd.into_raw_fd())),
            };
        }
        let parent = rustix::fs::openat(
            borrowed(self.folder),
            folder,
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        let directory = buffer.directory(descriptors::move_high(parent)?)?;
        let opened = directory.open(&name, flags.difference(OFlags::TRUNC), self.mode)?;
        if self.has(libc::O_TRUNC) && !opened.created {
            // Another process made it meanwhile.
            rustix::fs::ftruncate(&opened.descriptor, 0)?;
        }
        match self.wants_to_write() {
            true => self.enter(opened.descriptor),
            false => Ok(Some(opened.descriptor.into_raw_fd())),
        }
    }

    /// With reading, which the buffer needs. `O_SYNC` stays, for processes that inherit the
    /// description, though it makes write-back slower.
    fn kernel_flags(&self) -> OFlags {
        let mut flags = self.flags;
        if flags & libc::O_ACCMODE == libc::O_WRONLY {
            flags = flags & !libc::O_ACCMODE | libc::O_RDWR;
        }
        OFlags::from_bits_retain(flags as u32)
    }

    /// Enters a new descriptor of a regular file.
    fn enter(&self, fd: OwnedFd) -> io::Result<Option<c_int>> {
        let stat = rustix::fs::fstat(&fd)?;
        let number = fd.as_raw_fd();
        let status = self.flags & !OPENING_ONLY;
        let Some(identity) = buffering::identity_of(&stat) else {
            drop(fd);
            return Ok(None);
        };
        if !table::has_room(number) {
            return Ok(Some(fd.into_raw_fd()));
        }
        let file = self.process.take_open_file();
        // First: a record that is not held may be emptied.
        file.hold();
        file.set_status(status);
        file.write_life().identity = Some(identity);
        if self.process.buffer().is_some() {
            // It counts when it is synced.
            let _ = buffering::try_buffer(self.process, fd.as_fd(), file);
        }
        table::set(number, Some(file));
        Ok(Some(fd.into_raw_fd()))
    }
}

macro_rules! opens {
    ($($name:ident, $at:ident, $fortified:ident, $fortified_at:ident, $creat:ident;)*) => { $(
        /// # Safety
        /// libc's own demands.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
            // SAFETY: by libc's contract `path` is null or a C string. The mode is read from where a
            // variable argument would be.
            unsafe { open_at(libc::AT_FDCWD, path, flags, mode) }
        }
        /// # Safety
        /// libc's own demands.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $at(folder: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
            // SAFETY: by libc's contract `path` is null or a C string. The mode is read from where a
            // variable argument would be.
            unsafe { open_at(folder, path, flags, mode) }
        }
        /// # Safety
        /// libc's own demands.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $fortified(path: *const c_char, flags: c_int) -> c_int {
            // SAFETY: by libc's contract `path` is null or a C string; only calls without a mode come here.
            unsafe { open_at(libc::AT_FDCWD, path, flags, 0) }
        }
        /// # Safety
        /// libc's own demands.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $fortified_at(folder: c_int, path: *const c_char, flags: c_int) -> c_int {
            // SAFETY: by libc's contract `path` is null or a C string; only calls without a mode come here.
            unsafe { open_at(folder, path, flags, 0) }
        }
        /// # Safety
        /// libc's own demands.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $creat(path: *const c_char, mode: c_uint) -> c_int {
            // SAFETY: by libc's contract `path` is null or a C string.
            unsafe { open_at(libc::AT_FDCWD, path, libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC, mode) }
        }
    )* };
}
opens! {
    open, openat, __open_2, __openat_2, creat;
    open64, openat64, __open64_2, __openat64_2, creat64;
}

macro_rules! other_names {
    ($($name:ident),*) => { $(
        /// # Safety
        /// libc's own demands.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
            // SAFETY: by libc's contract `path` is null or a C string. The mode is read from where a
            // variable argument would be.
            unsafe { open_at(libc::AT_FDCWD, path, flags, mode) }
        }
    )* };
}
other_names!(__open, __open64);

/// Streams open files inside libc. The lease sees to files that are buffered; what a process that died
/// left in the pool is brought back before.
///
/// # Safety
/// `path` is null or ends in a zero.
unsafe fn before_stream(path: *const c_char) -> io::Result<()> {
    let Some(process) = active() else {
        return Ok(());
    };
    let _inside = Inside::enter();
    // SAFETY: by our contract `path` is null or a C string that outlives the call.
    if process.buffer().is_some() || unsafe { covered(process, libc::AT_FDCWD, path) }.is_none() {
        return Ok(());
    }
    guarded(|| process.recover_after_owner())
}

/// A stream's file may be new: then the log does not know its name.
///
/// # Safety
/// Both are null or end in a zero.
unsafe fn making(
    path: *const c_char,
    mode: *const c_char,
    open: impl FnOnce() -> *mut libc::FILE,
) -> *mut libc::FILE {
    let makes = || {
        active()?.buffer()?;
        // SAFETY: by our contract `mode` is null or a C string, which has a first byte.
        let makes = unsafe { mode.as_ref() }.is_some_and(|letter| *letter != b'r' as c_char);
        (makes && !path.is_null()).then_some(())?;
        let _inside = Inside::enter();
        // SAFETY: not null, so by our contract a C string that outlives the call.
        let path = unsafe { CStr::from_ptr(path) };
        rustix::fs::access(path, Access::EXISTS).err()
    };
    let makes = makes().is_some();
    let stream = open();
    // SAFETY: by our contract `path` is null or a C string that outlives the call.
    unsafe { super::name::note_unlogged(makes && !stream.is_null(), libc::AT_FDCWD, path) };
    stream
}

macro_rules! streams {
    ($($name:ident, $again:ident;)*) => { $(
        /// # Safety
        /// libc's own demands.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(path: *const c_char, mode: *const c_char) -> *mut libc::FILE {
            // SAFETY: by libc's contract both are null or C strings; the arguments go on unchanged.
            unsafe {
                match before_stream(path) {
                    Ok(()) => making(path, mode, || real::$name()(path, mode)),
                    Err(error) => {
                        answer::<c_int>(Err(error));
                        std::ptr::null_mut()
                    }
                }
            }
        }
        /// # Safety
        /// libc's own demands.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $again(path: *const c_char, mode: *const c_char, stream: *mut libc::FILE) -> *mut libc::FILE {
            // SAFETY: by libc's contract both are null or C strings, and the stream is the caller's; the
            // arguments go on unchanged.
            unsafe {
                match before_stream(path) {
                    Ok(()) => making(path, mode, || real::$again()(path, mode, stream)),
                    Err(error) => {
                        answer::<c_int>(Err(error));
                        std::ptr::null_mut()
                    }
                }
            }
        }
    )* };
}
streams! {
    fopen, freopen;
    fopen64, freopen64;
}

/// A stream over a descriptor reads and writes it inside libc, where it cannot be intercepted.
///
/// # Safety
/// libc's own demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fdopen(fd: c_int, mode: *const c_char) -> *mut libc::FILE {
    if table::get(fd).is_some() && super::descriptor::release(fd, Count::Stdio).is_err() {
        answer::<c_int>(Err(os_error(libc::EIO)));
        return std::ptr::null_mut();
    }
    // SAFETY: our caller keeps the contract of `fdopen`, whose arguments go on unchanged.
    unsafe { real::fdopen()(fd, mode) }
}
