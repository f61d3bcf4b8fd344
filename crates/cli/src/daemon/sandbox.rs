//! What the daemon gives up once everything is open: system calls that it never needs, and that would
//! serve an attacker in control of it.
//!
//! A list of what is forbidden, for all threads and for good. It starts no program, looks into no other
//! process, loads nothing into the kernel, changes neither the host's clock nor its name, and leaves none of
//! its namespaces. What is forbidden fails with EPERM.

use std::collections::BTreeMap;

use forebay_command::Failure;
use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter_all_threads,
};

/// Forbidden to every daemon.
const FORBIDDEN: &[c_long] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_add_key,
    libc::SYS_keyctl,
    libc::SYS_request_key,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_chroot,
    libc::SYS_pivot_root,
    libc::SYS_fsopen,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_reboot,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_personality,
    libc::SYS_mknodat,
];

/// Forbidden to one that serves disks: files by their handles are the mount's.
const FORBIDDEN_TO_DISKS: &[c_long] = &[libc::SYS_open_by_handle_at, libc::SYS_name_to_handle_at];

/// What is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Daemon {
    /// Disks.
    Disks,
    /// A directory.
    Directory,
}

/// Confines all threads.
///
/// # Errors
/// The kernel has no such filters.
pub fn enter(daemon: Daemon) -> Result<(), Failure> {
    let refused = |error: &dyn std::fmt::Display| {
        Failure::Failed(format!(
            "the sandbox cannot be entered ({error}); use a kernel with seccomp filters, or say \
             --sandbox off"
        ))
    };
    let program = program(daemon).map_err(|error| refused(&error))?;
    apply_filter_all_threads(&program).map_err(|error| refused(&error))
}

fn program(daemon: Daemon) -> Result<BpfProgram, seccompiler::BackendError> {
    let more = match daemon {
        Daemon::Disks => FORBIDDEN_TO_DISKS,
        // It makes what its users make: pipes and devices, too.
        Daemon::Directory => &[],
    };
    let is_forbidden = |call: &&c_long| daemon == Daemon::Disks || **call != libc::SYS_mknodat;
    let calls = FORBIDDEN.iter().filter(is_forbidden).chain(more);
    // No conditions: whatever its arguments are.
    let mut rules: BTreeMap<i64, _> = calls.map(|call| (*call, Vec::new())).collect();
    if daemon == Daemon::Directory {
        // A thread that makes a file for a caller takes that one's umask, which would be all threads' else.
        let own = libc::CLONE_FS as u64;
        let else_forbidden =
            SeccompCondition::new(0, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, own)?;
        rules.insert(
            libc::SYS_unshare,
            vec![SeccompRule::new(vec![else_forbidden])?],
        );
    }
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let refuse = SeccompAction::Errno(libc::EPERM as u32);
    SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch)?.try_into()
}

/// Whether a daemon of this user can be in it: `fusermount3`, which unmounts for users other than root,
/// is a program to start.
pub fn can_be_entered(is_mounted: bool, has_unmounter: bool) -> bool {
    rustix::process::geteuid().is_root() || !is_mounted || has_unmounter
}

/// Tries what is forbidden, harmlessly where it is not: the outcome of each attempt.
pub fn try_forbidden() -> Vec<(&'static str, Option<i32>)> {
    let number = |result: Result<(), nix::Error>| result.err().map(|error| error as i32);
    let program = std::process::Command::new("/bin/true").spawn();
    let started = program.and_then(|mut child| child.wait().map(drop));
    let no_process = nix::unistd::Pid::from_raw(i32::MAX);
    let nothing = std::fs::File::open("/dev/null");
    let module = nothing.map_err(|_| nix::Error::EIO).and_then(|file| {
        let flags = nix::kmod::ModuleInitFlags::empty();
        nix::kmod::finit_module(&file, c"", flags)
    });
    vec![
        (
            "execve",
            started.err().and_then(|error| error.raw_os_error()),
        ),
        ("ptrace", number(nix::sys::ptrace::attach(no_process))),
        ("finit_module", number(module)),
        (
            "setns",
            number(nix::sched::setns(
                std::io::stdin(),
                nix::sched::CloneFlags::CLONE_NEWUTS,
            )),
        ),
        ("chroot", number(nix::unistd::chroot("/nowhere/at/all"))),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filter_is_one_that_the_kernel_takes() {
        for daemon in [Daemon::Disks, Daemon::Directory] {
            let program = program(daemon).unwrap();
            assert!(program.len() > FORBIDDEN.len(), "{daemon:?}");
        }
    }
}
