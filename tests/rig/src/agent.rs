//! The first process of a guest: mounts what programs expect, then runs the scripts that the host puts
//! into the shared folder, one after the other.
//!
//! The guest's root is the host's, read-only; its shared folder, `/run/rig`, is the one place of the
//! host that it can write to. Script N is the file `N.sh` there. What it prints goes to `N.out`, then
//! its exit status appears as `N.status`. A script named `end` ends the guest.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::mount::{MountFlags, mount};

use crate::Result;

/// Where the guest sees the folder that it shares with the host.
pub const SHARED: &str = "/run/rig";
/// Kernel parameters that the host sets; the kernel passes them on as environment.
pub const SHARED_VARIABLE: &str = "forebay_rig_shared";
/// Comma-separated names of kernel modules to load.
pub const MODULES_VARIABLE: &str = "forebay_rig_modules";

const PERIOD: Duration = Duration::from_millis(10);
const NO_EXIT_STATUS: i32 = 255;

/// Whether this process is the first one of a guest.
pub fn is_first_process() -> bool {
    std::process::id() == 1 && std::env::var_os(SHARED_VARIABLE).is_some()
}

/// Lives as the first process, until the host says `end`; never returns to a caller that could end.
pub fn live() -> ! {
    if let Err(error) = set_up().and_then(|()| run_scripts()) {
        eprintln!("forebay-rig-guest: {error}");
    }
    rustix::fs::sync();
    // Ends the guest's kernel and with it this process.
    let _ = rustix::system::reboot(rustix::system::RebootCommand::PowerOff);
    loop {
        std::thread::sleep(PERIOD);
    }
}

fn set_up() -> Result<()> {
    let mounts = [
        ("proc", "/proc"),
        ("sysfs", "/sys"),
        ("tmpfs", "/run"),
        ("tmpfs", "/mnt"),
    ];
    for (kind, place) in mounts {
        mount_at(kind, place)?;
    }
    if !Path::new("/dev/null").exists() {
        mount_at("devtmpfs", "/dev")?;
    }
    for folder in [
        "/dev/shm",
        SHARED,
        "/run/lock",
        "/run/tmp",
        "/mnt/a",
        "/mnt/b",
    ] {
        fs::create_dir_all(folder)?;
    }
    mount_at("tmpfs", "/dev/shm")?;
    let host = std::ffi::CString::new(variable(SHARED_VARIABLE)?)?;
    mount("none", SHARED, "hostfs", MountFlags::empty(), &*host)?;
    load_modules(&variable(MODULES_VARIABLE).unwrap_or_default())?;
    fs::write(Path::new(SHARED).join("up"), "")?;
    Ok(())
}

fn variable(name: &str) -> Result<String> {
    std::env::var(name).map_err(|error| format!("{name}: {error}").into())
}

fn mount_at(kind: &str, place: &str) -> Result<()> {
    mount(kind, place, kind, MountFlags::empty(), None)
        .map_err(|error| format!("mount {kind} at {place}: {error}").into())
}

/// The modules lie beside the package's kernel, not where modprobe looks.
fn load_modules(names: &str) -> Result<()> {
    if names.is_empty() {
        return Ok(());
    }
    let release = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let release = release.trim();
    let folder = Path::new("/run/modules/lib/modules");
    fs::create_dir_all(folder)?;
    std::os::unix::fs::symlink(
        Path::new("/usr/lib/uml/modules").join(release),
        folder.join(release),
    )?;
    let status = shell_environment(Command::new("modprobe").args(["-d", "/run/modules", "-a"]))
        .args(names.split(','))
        .status()?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("modprobe {names}: {status}").into()),
    }
}

fn shell_environment(command: &mut Command) -> &mut Command {
    command
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("HOME", "/run")
        .env("TMPDIR", "/run/tmp")
        .env("LC_ALL", "C")
        // There is no udev to wait for.
        .env("DM_DISABLE_UDEV", "1")
        .current_dir("/run")
        .stdin(Stdio::null())
}

fn run_scripts() -> Result<()> {
    let shared = Path::new(SHARED);
    for number in 0.. {
        let script = shared.join(format!("{number}.sh"));
        while !script.exists() {
            if shared.join("end").exists() {
                return Ok(());
            }
            std::thread::sleep(PERIOD);
        }
        let out = fs::File::create(shared.join(format!("{number}.out")))?;
        let status = shell_environment(Command::new("bash").arg(&script))
            .stdout(out.try_clone()?)
            .stderr(out)
            .status()?;
        let code = status
            .code()
            .or(status.signal().map(|signal| 128 + signal))
            .unwrap_or(NO_EXIT_STATUS);
        let unfinished = shared.join(format!("{number}.unfinished"));
        fs::write(&unfinished, code.to_string())?;
        fs::rename(unfinished, shared.join(format!("{number}.status")))?;
    }
    Ok(())
}
