//! Other programs: started in place of this one, or beside it.

use std::ffi::{c_char, c_int, c_void};

use super::{active, close_buffer, real};
use crate::forks;
use crate::inside::Inside;

type Strings = *const *const c_char;

/// This process is about to become another program, which shares nothing but descriptors.
pub extern "C" fn before_exec() {
    let Some(process) = active() else {
        return;
    };
    close_buffer(process);
    let _inside = Inside::enter();
    forks::tell_parent_of_exec();
}

macro_rules! execs {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => { $(
        /// # Safety
        /// libc's own demands.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($argument: $type),*) -> c_int {
            before_exec();
            // SAFETY: our caller keeps the contract of the real function, whose arguments go on unchanged.
            unsafe { real::$name()($($argument),*) }
        }
    )* };
}
execs! {
    execve(path: *const c_char, arguments: Strings, environment: Strings);
    execv(path: *const c_char, arguments: Strings);
    execvp(file: *const c_char, arguments: Strings);
    execvpe(file: *const c_char, arguments: Strings, environment: Strings);
    fexecve(fd: c_int, arguments: Strings, environment: Strings);
    execveat(base: c_int, path: *const c_char, arguments: Strings, environment: Strings, flags: c_int);
}

/// The forms that take a list of arguments.
#[cfg(target_arch = "x86_64")]
macro_rules! exec_lists {
    ($($name:ident, $find:ident;)*) => {
        $(
            extern "C" fn $find() -> *const c_void {
                before_exec();
                real::$name() as *const c_void
            }
        )*
        jumps! { $($name, $find;)* }
    };
}
#[cfg(target_arch = "x86_64")]
exec_lists! {
    execl, find_execl;
    execlp, find_execlp;
    execle, find_execle;
}

/// What is started has the descriptors that are not closed on exec.
fn before_spawn() {
    if let Some(process) = active()
        && !process.tracks_nothing()
    {
        let _inside = Inside::enter();
        forks::share_with_spawned(process);
    }
}

macro_rules! spawns {
    ($($name:ident),*) => { $(
        /// # Safety
        /// libc's own demands.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            id: *mut libc::pid_t,
            path: *const c_char,
            actions: *const c_void,
            attributes: *const c_void,
            arguments: Strings,
            environment: Strings,
        ) -> c_int {
            before_spawn();
            // SAFETY: our caller keeps the contract of the real function, whose arguments go on unchanged.
            unsafe { real::$name()(id, path, actions, attributes, arguments, environment) }
        }
    )* };
}
spawns!(posix_spawn, posix_spawnp, pidfd_spawn, pidfd_spawnp);

/// # Safety
/// libc's own demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn system(command: *const c_char) -> c_int {
    before_spawn();
    // SAFETY: our caller keeps the contract of `system`, whose arguments go on unchanged.
    unsafe { real::system()(command) }
}

/// # Safety
/// libc's own demands.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn popen(
    command: *const c_char,
    mode: *const c_char,
) -> *mut libc::FILE {
    before_spawn();
    // SAFETY: our caller keeps the contract of `popen`, whose arguments go on unchanged.
    unsafe { real::popen()(command, mode) }
}

/// `clone` with a function: a process beside this one, or a thread that libc does not know. The child
/// of a shared memory would use our locks.
#[cfg(target_arch = "x86_64")]
extern "C" fn find_clone() -> *const c_void {
    super::bypass::turn_off("the program makes processes by clone");
    real::clone() as *const c_void
}
#[cfg(target_arch = "x86_64")]
jumps! {
    clone, find_clone;
    __clone, find_clone;
}
