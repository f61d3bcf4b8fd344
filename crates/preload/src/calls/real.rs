//! The functions that ours stand in front of.

use std::ffi::{CStr, c_char, c_int, c_long, c_uint, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

/// What a thread begins with.
pub type Start = extern "C" fn(*mut c_void) -> *mut c_void;

fn find(address: &AtomicPtr<c_void>, name: &'static CStr) -> *mut c_void {
    let known = address.load(Ordering::Relaxed);
    if !known.is_null() {
        return known;
    }
    // SAFETY: the name ends in a zero and outlives the call.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    if found.is_null() {
        // A program found our function, so its libc has the real one; without it nothing can be right.
        let message = c"forebay: libc lacks a function that this program calls\n";
        // SAFETY: plain calls; the process ends.
        unsafe {
            libc::syscall(libc::SYS_write, 2, message.as_ptr(), message.count_bytes());
            libc::abort();
        }
    }
    address.store(found, Ordering::Relaxed);
    found
}

macro_rules! real {
    ($($name:ident($($argument:ty),*) $(-> $result:ty)?;)*) => { $(
        #[allow(non_snake_case, reason = "libc's name")]
        pub fn $name() -> unsafe extern "C-unwind" fn($($argument),*) $(-> $result)? {
            static ADDRESS: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
            const NAME: &CStr = match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("a name without zeroes"),
            };
            // SAFETY: libc's function of this name has this type.
            unsafe { std::mem::transmute(find(&ADDRESS, NAME)) }
        }
    )* };
}

type Path = *const c_char;
type Strings = *const *const c_char;
type Bytes = *mut c_void;

real! {
    openat(c_int, Path, c_int, c_uint) -> c_int;
    fopen(Path, Path) -> *mut libc::FILE;
    fopen64(Path, Path) -> *mut libc::FILE;
    freopen(Path, Path, *mut libc::FILE) -> *mut libc::FILE;
    freopen64(Path, Path, *mut libc::FILE) -> *mut libc::FILE;
    fdopen(c_int, Path) -> *mut libc::FILE;
    dprintf() -> c_int;
    __dprintf_chk() -> c_int;
    vdprintf(c_int, Path, Bytes) -> c_int;
    __vdprintf_chk(c_int, c_int, Path, Bytes) -> c_int;
    backtrace_symbols_fd(*const Bytes, c_int, c_int);
    aio_read(*mut libc::aiocb) -> c_int;
    aio_write(*mut libc::aiocb) -> c_int;
    aio_fsync(c_int, *mut libc::aiocb) -> c_int;
    lio_listio(c_int, *const *mut libc::aiocb, c_int, Bytes) -> c_int;
    mkstemp(*mut c_char) -> c_int;
    mkostemp(*mut c_char, c_int) -> c_int;
    mkstemps(*mut c_char, c_int) -> c_int;
    mkostemps(*mut c_char, c_int, c_int) -> c_int;
    mkdtemp(*mut c_char) -> *mut c_char;
    read(c_int, Bytes, usize) -> isize;
    pread(c_int, Bytes, usize, i64) -> isize;
    readv(c_int, *const libc::iovec, c_int) -> isize;
    preadv(c_int, *const libc::iovec, c_int, i64) -> isize;
    preadv2(c_int, *const libc::iovec, c_int, i64, c_int) -> isize;
    write(c_int, *const c_void, usize) -> isize;
    pwrite(c_int, *const c_void, usize, i64) -> isize;
    writev(c_int, *const libc::iovec, c_int) -> isize;
    pwritev(c_int, *const libc::iovec, c_int, i64) -> isize;
    pwritev2(c_int, *const libc::iovec, c_int, i64, c_int) -> isize;
    lseek(c_int, i64, c_int) -> i64;
    fsync(c_int) -> c_int;
    fdatasync(c_int) -> c_int;
    sync();
    syncfs(c_int) -> c_int;
    sync_file_range(c_int, i64, i64, c_uint) -> c_int;
    ftruncate(c_int, i64) -> c_int;
    truncate(Path, i64) -> c_int;
    fallocate(c_int, c_int, i64, i64) -> c_int;
    posix_fallocate(c_int, i64, i64) -> c_int;
    close(c_int) -> c_int;
    close_range(c_uint, c_uint, c_int) -> c_int;
    dup(c_int) -> c_int;
    dup2(c_int, c_int) -> c_int;
    dup3(c_int, c_int, c_int) -> c_int;
    fcntl(c_int, c_int, usize) -> c_int;
    lockf(c_int, c_int, i64) -> c_int;
    ioctl(c_int, usize, usize) -> c_int;
    stat(Path, *mut libc::stat) -> c_int;
    lstat(Path, *mut libc::stat) -> c_int;
    fstat(c_int, *mut libc::stat) -> c_int;
    fstatat(c_int, Path, *mut libc::stat, c_int) -> c_int;
    statx(c_int, Path, c_int, c_uint, *mut libc::statx) -> c_int;
    __xstat(c_int, Path, *mut libc::stat) -> c_int;
    __lxstat(c_int, Path, *mut libc::stat) -> c_int;
    __fxstat(c_int, c_int, *mut libc::stat) -> c_int;
    __fxstatat(c_int, c_int, Path, *mut libc::stat, c_int) -> c_int;
    renameat2(c_int, Path, c_int, Path, c_uint) -> c_int;
    linkat(c_int, Path, c_int, Path, c_int) -> c_int;
    symlinkat(Path, c_int, Path) -> c_int;
    unlinkat(c_int, Path, c_int) -> c_int;
    mkdirat(c_int, Path, c_uint) -> c_int;
    mknodat(c_int, Path, c_uint, u64) -> c_int;
    remove(Path) -> c_int;
    fchmod(c_int, c_uint) -> c_int;
    fchown(c_int, c_uint, c_uint) -> c_int;
    fsetxattr(c_int, Path, *const c_void, usize, c_int) -> c_int;
    fremovexattr(c_int, Path) -> c_int;
    chmod(Path, c_uint) -> c_int;
    chown(Path, c_uint, c_uint) -> c_int;
    lchown(Path, c_uint, c_uint) -> c_int;
    setxattr(Path, Path, *const c_void, usize, c_int) -> c_int;
    removexattr(Path, Path) -> c_int;
    lsetxattr(Path, Path, *const c_void, usize, c_int) -> c_int;
    lremovexattr(Path, Path) -> c_int;
    fchmodat(c_int, Path, c_uint, c_int) -> c_int;
    fchownat(c_int, Path, c_uint, c_uint, c_int) -> c_int;
    futimens(c_int, *const libc::timespec) -> c_int;
    utimensat(c_int, Path, *const libc::timespec, c_int) -> c_int;
    utime(Path, *const c_void) -> c_int;
    utimes(Path, *const c_void) -> c_int;
    lutimes(Path, *const c_void) -> c_int;
    futimes(c_int, *const c_void) -> c_int;
    futimesat(c_int, Path, *const c_void) -> c_int;
    mmap(Bytes, usize, c_int, c_int, c_int, i64) -> *mut c_void;
    sendfile(c_int, c_int, *mut i64, usize) -> isize;
    copy_file_range(c_int, *mut i64, c_int, *mut i64, usize, c_uint) -> isize;
    splice(c_int, *mut i64, c_int, *mut i64, usize, c_uint) -> isize;
    setrlimit(c_uint, *const libc::rlimit) -> c_int;
    prlimit(libc::pid_t, c_uint, *const libc::rlimit, *mut libc::rlimit) -> c_int;
    sendmsg(c_int, *const libc::msghdr, c_int) -> isize;
    sendmmsg(c_int, *mut libc::mmsghdr, c_uint, c_int) -> c_int;
    syscall(c_long, usize, usize, usize, usize, usize, usize) -> c_long;
    io_setup(c_int, *mut c_void) -> c_int;
    io_uring_queue_init(c_uint, *mut c_void, c_uint) -> c_int;
    io_uring_queue_init_params(c_uint, *mut c_void, *mut c_void) -> c_int;
    io_uring_queue_init_mem(c_uint, *mut c_void, *mut c_void, *mut c_void, usize) -> c_int;
    io_uring_setup(c_uint, *mut c_void) -> c_int;
    pthread_create(*mut libc::pthread_t, *const libc::pthread_attr_t, Start, *mut c_void) -> c_int;
    fork() -> c_int;
    _Fork() -> c_int;
    execve(Path, Strings, Strings) -> c_int;
    execv(Path, Strings) -> c_int;
    execvp(Path, Strings) -> c_int;
    execvpe(Path, Strings, Strings) -> c_int;
    fexecve(c_int, Strings, Strings) -> c_int;
    execveat(c_int, Path, Strings, Strings, c_int) -> c_int;
    execl() -> c_int;
    execlp() -> c_int;
    execle() -> c_int;
    clone() -> c_int;
    posix_spawn(*mut libc::pid_t, Path, *const c_void, *const c_void, Strings, Strings) -> c_int;
    posix_spawnp(*mut libc::pid_t, Path, *const c_void, *const c_void, Strings, Strings) -> c_int;
    pidfd_spawn(*mut libc::pid_t, Path, *const c_void, *const c_void, Strings, Strings) -> c_int;
    pidfd_spawnp(*mut libc::pid_t, Path, *const c_void, *const c_void, Strings, Strings) -> c_int;
    posix_spawn_file_actions_adddup2(*mut c_void, c_int, c_int) -> c_int;
    system(Path) -> c_int;
    popen(Path, Path) -> *mut libc::FILE;
    _exit(c_int);
}
