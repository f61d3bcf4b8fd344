//! `syscall`, by which all that the other functions do can be done by number.

use std::ffi::{c_int, c_long, c_uint};

use super::bypass::{escape_descriptor, escape_mapped, turn_off};
use super::{answer, bypass, data, descriptor, real, status, sync};
use crate::inside::is_inside;
use crate::process;

/// What `syscall` was given.
struct Asked {
    number: c_long,
    arguments: [usize; 6],
}

/// System calls by number: those that reach a covered file are seen to as their functions are.
///
/// # Safety
/// The kernel's own demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn syscall(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    // SAFETY: our caller keeps the contract of the system call; its arguments go on unchanged.
    let real = || unsafe { real::syscall()(number, a, b, c, d, e, f) };
    // No lock and no memory here: allocators call it while they hold their own.
    if is_inside() || process::get().is_none() {
        return real();
    }
    let asked = Asked {
        number,
        arguments: [a, b, c, d, e, f],
    };
    // SAFETY: our caller keeps the kernel's contract for this call.
    if let Some(result) = unsafe { asked.as_function() } {
        return result;
    }
    if let Err(error) = asked.prepare() {
        return answer(Err(error));
    }
    let result = real();
    if asked.changes_names()
        && let Some(process) = process::get()
    {
        process.names_unseen();
    }
    result
}

impl Asked {
    /// Does it by the function of its name, which answers in the same way. None if it has none.
    ///
    /// # Safety
    /// The kernel's own demands.
    unsafe fn as_function(&self) -> Option<c_long> {
        let [a, b, c, d, e, _] = self.arguments;
        let fd = a as c_int;
        // SAFETY: the kernel's contract for each call is that of libc's function of its name; the arguments
        // go in the same order.
        let result: c_long = unsafe {
            match self.number {
                libc::SYS_read => data::read(fd, b as *mut _, c) as c_long,
                libc::SYS_write => data::write(fd, b as *const _, c) as c_long,
                libc::SYS_pread64 => data::pread(fd, b as *mut _, c, d as i64) as c_long,
                libc::SYS_pwrite64 => data::pwrite(fd, b as *const _, c, d as i64) as c_long,
                libc::SYS_readv => data::readv(fd, b as *const _, c as c_int) as c_long,
                libc::SYS_writev => data::writev(fd, b as *const _, c as c_int) as c_long,
                libc::SYS_lseek => data::lseek(fd, b as i64, c as c_int),
                libc::SYS_fsync => sync::fsync(fd).into(),
                libc::SYS_fdatasync => sync::fdatasync(fd).into(),
                libc::SYS_sync => {
                    sync::sync();
                    0
                }
                libc::SYS_syncfs => sync::syncfs(fd).into(),
                libc::SYS_ftruncate => sync::ftruncate(fd, b as i64).into(),
                libc::SYS_close => descriptor::close(fd).into(),
                libc::SYS_close_range => {
                    descriptor::close_range(a as c_uint, b as c_uint, c as c_int).into()
                }
                libc::SYS_dup => descriptor::dup(fd).into(),
                #[cfg(target_arch = "x86_64")]
                libc::SYS_dup2 => descriptor::dup2(fd, b as c_int).into(),
                libc::SYS_dup3 => descriptor::dup3(fd, b as c_int, c as c_int).into(),
                libc::SYS_fcntl => descriptor::fcntl(fd, b as c_int, c).into(),
                libc::SYS_sendmsg => bypass::sendmsg(fd, b as *const _, c as c_int) as c_long,
                libc::SYS_fstat => status::fstat(fd, b as *mut _).into(),
                #[cfg(target_arch = "x86_64")]
                libc::SYS_stat => status::stat(a as *const _, b as *mut _).into(),
                #[cfg(target_arch = "x86_64")]
                libc::SYS_lstat => status::lstat(a as *const _, b as *mut _).into(),
                libc::SYS_newfstatat => {
                    status::fstatat(fd, b as *const _, c as *mut _, d as c_int).into()
                }
                libc::SYS_statx => {
                    status::statx(fd, b as *const _, c as c_int, d as c_uint, e as *mut _).into()
                }
                _ => return None,
            }
        };
        Some(result)
    }

    /// What has to be done before the kernel does it.
    fn prepare(&self) -> std::io::Result<()> {
        match self.number {
            libc::SYS_io_uring_setup | libc::SYS_io_setup => {
                turn_off("the program uses asynchronous I/O");
            }
            libc::SYS_clone | libc::SYS_clone3 => {
                turn_off("the program makes processes by system call");
            }
            #[cfg(target_arch = "x86_64")]
            libc::SYS_fork | libc::SYS_vfork => {
                turn_off("the program makes processes by system call");
            }
            libc::SYS_execve | libc::SYS_execveat => super::exec::before_exec(),
            libc::SYS_exit_group => super::process::before_exit(),
            libc::SYS_mmap if self.arguments[3] as c_int & libc::MAP_ANONYMOUS == 0 => {
                let [_, _, protection, flags, fd, ..] = self.arguments.map(|word| word as c_int);
                escape_mapped(fd, protection, flags)?;
            }
            libc::SYS_splice | libc::SYS_copy_file_range => {
                escape_descriptor(self.arguments[0] as c_int)?;
                escape_descriptor(self.arguments[2] as c_int)?;
            }
            libc::SYS_sendfile => {
                escape_descriptor(self.arguments[0] as c_int)?;
                escape_descriptor(self.arguments[1] as c_int)?;
            }
            _ if self.takes_descriptor() => escape_descriptor(self.arguments[0] as c_int)?,
            _ => {}
        }
        Ok(())
    }

    /// Whether the first argument is a descriptor whose bytes, size, times or rights are read or changed.
    fn takes_descriptor(&self) -> bool {
        matches!(
            self.number,
            libc::SYS_preadv
                | libc::SYS_pwritev
                | libc::SYS_preadv2
                | libc::SYS_pwritev2
                | libc::SYS_fallocate
                | libc::SYS_ioctl
                | libc::SYS_fchmod
                | libc::SYS_fchown
                | libc::SYS_fsetxattr
                | libc::SYS_fremovexattr
                | libc::SYS_utimensat
        )
    }

    /// Whether names may have changed, which the log does not know then.
    fn changes_names(&self) -> bool {
        let [_, b, c, ..] = self.arguments;
        match self.number {
            libc::SYS_openat => c as c_int & libc::O_CREAT != 0,
            #[cfg(target_arch = "x86_64")]
            libc::SYS_open => b as c_int & libc::O_CREAT != 0,
            #[cfg(target_arch = "x86_64")]
            libc::SYS_creat
            | libc::SYS_rename
            | libc::SYS_link
            | libc::SYS_symlink
            | libc::SYS_unlink
            | libc::SYS_rmdir
            | libc::SYS_mkdir
            | libc::SYS_mknod => true,
            libc::SYS_openat2
            | libc::SYS_renameat
            | libc::SYS_renameat2
            | libc::SYS_linkat
            | libc::SYS_symlinkat
            | libc::SYS_unlinkat
            | libc::SYS_mkdirat
            | libc::SYS_mknodat => true,
            _ => false,
        }
    }
}
