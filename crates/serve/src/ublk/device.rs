//! Devices that are there already: left behind by an earlier process, or in use.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use libublk::ctrl::UblkCtrl;
use libublk::sys;

use super::{REQUEST_BYTES_MAX, UblkError, UblkOptions};

/// How long the driver may take to notice that the process of a device has ended.
const QUIESCE_DEADLINE: Duration = Duration::from_secs(10);

/// How often that is polled.
const QUIESCE_INTERVAL: Duration = Duration::from_millis(50);

/// The kernel's directory of the devices.
const CLASS_PATH: &str = "/sys/class/ublk-char";

/// What the driver said when it was asked to do `action`.
pub(super) fn driver(action: &'static str) -> impl Fn(libublk::UblkError) -> UblkError {
    move |error| {
        let reason = match error {
            libublk::UblkError::UringIOError(code) | libublk::UblkError::OtherError(code) => {
                std::io::Error::from_raw_os_error(code.abs()).to_string()
            }
            other => other.to_string(),
        };
        UblkError::Driver { action, reason }
    }
}

/// A device that waits for a process to serve it.
pub(super) struct Waiting {
    pub(super) number: u32,
    pub(super) queues: u16,
    pub(super) depth: u16,
    pub(super) request_bytes_max: u32,
}

impl Waiting {
    /// Has the driver wait for this process.
    ///
    /// # Errors
    /// The driver, or a device that is not like the disk of `size_bytes`.
    pub(super) fn start_recovery(&self, size_bytes: u64) -> Result<(), UblkError> {
        let control = UblkCtrl::new_simple(self.number as i32).map_err(driver("find it"))?;
        let mut parameters = sys::ublk_params {
            types: sys::UBLK_PARAM_TYPE_BASIC,
            ..Default::default()
        };
        control
            .get_params(&mut parameters)
            .map_err(driver("describe the device that was left behind"))?;
        let unusable = |found: String| UblkError::Unusable {
            path: PathBuf::from(control.get_bdev_path()),
            found,
        };
        let found_bytes = parameters.basic.dev_sectors * 512;
        if found_bytes > size_bytes {
            return Err(unusable(format!(
                "{found_bytes} bytes where the disk has {size_bytes}"
            )));
        }
        if self.request_bytes_max > REQUEST_BYTES_MAX {
            let bytes = self.request_bytes_max;
            return Err(unusable(format!("requests of up to {bytes} bytes")));
        }
        if size_bytes - found_bytes >= 512 {
            tracing::warn!(
                device = control.get_bdev_path(),
                found_bytes,
                size_bytes,
                "the disk has grown; its ublk device does when it is served anew"
            );
        }
        control
            .start_user_recover()
            .map_err(driver("take over the device that was left behind"))?;
        Ok(())
    }
}

/// The device of this identity that an earlier process left behind, if there is one.
///
/// # Errors
/// The number that is asked for belongs to another device; the device does not come to rest.
pub(super) fn left_behind(options: &UblkOptions) -> Result<Option<Waiting>, UblkError> {
    let is_wanted = |number: &u32| options.number.is_none_or(|wanted| wanted == *number);
    for number in existing().into_iter().filter(is_wanted) {
        let Ok(control) = UblkCtrl::new_simple(number as i32) else {
            // It went away.
            continue;
        };
        let found = control.dev_info();
        if options.identity == 0 || found.ublksrv_flags != options.identity {
            if options.number.is_some() {
                return Err(UblkError::Taken(number));
            }
            continue;
        }
        wait_until_quiesced(&control)?;
        return Ok(Some(Waiting {
            number,
            queues: found.nr_hw_queues,
            depth: found.queue_depth,
            request_bytes_max: found.max_io_buf_bytes,
        }));
    }
    Ok(None)
}

/// Numbers of the devices that there are, the lowest first.
fn existing() -> Vec<u32> {
    let entries = std::fs::read_dir(CLASS_PATH).into_iter().flatten();
    let number = |entry: std::io::Result<std::fs::DirEntry>| {
        let name = entry.ok()?.file_name();
        name.to_str()?.strip_prefix("ublkc")?.parse().ok()
    };
    let mut numbers: Vec<u32> = entries.filter_map(number).collect();
    numbers.sort_unstable();
    numbers
}

/// The process that had the device is gone, since this one has its disk; the driver may not know yet.
fn wait_until_quiesced(control: &UblkCtrl) -> Result<(), UblkError> {
    let until = Instant::now() + QUIESCE_DEADLINE;
    loop {
        control.read_dev_info().map_err(driver("describe it"))?;
        if u32::from(control.dev_info().state) == sys::UBLK_S_DEV_QUIESCED {
            return Ok(());
        }
        if Instant::now() >= until {
            return Err(UblkError::Driver {
                action: "let go of the device that was left behind",
                reason: "its earlier process is still served".into(),
            });
        }
        std::thread::sleep(QUIESCE_INTERVAL);
    }
}

/// Whether the block device is claimed, as by a mounted file system, or just open.
pub(super) fn is_in_use(path: &Path) -> bool {
    let claimed = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_EXCL)
        .open(path);
    match claimed {
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) => true,
        Err(_) => false,
        Ok(file) => {
            drop(file);
            is_open(path)
        }
    }
}

/// Whether a process that this one may look at has the file open.
fn is_open(path: &Path) -> bool {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter(|process| process.file_name().to_string_lossy().parse::<u32>().is_ok())
        .filter_map(|process| std::fs::read_dir(process.path().join("fd")).ok())
        .flat_map(|descriptors| descriptors.flatten())
        .any(|descriptor| std::fs::read_link(descriptor.path()).is_ok_and(|target| target == path))
}
