//! The part that talks to the driver: a device for a disk, its queues, its end.
//!
//! A device has a thread that owns it and a thread a queue. Dropping the server does not remove the
//! device: it is served as long as the process runs, and waits for the next process afterwards.
//! Only [`UblkServer::remove`] removes it.

use std::cell::RefCell;
use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use libublk::ctrl::{UblkCtrl, UblkCtrlBuilder};
use libublk::io::{BufDescList, UblkDev, UblkQueue};
use libublk::{BufDesc, UblkFlags, UblkIORes, sys};
use parking_lot::{Mutex, MutexGuard};

use super::device::{self, Waiting, driver};
use super::{
    CONTROL_PATH, IoDescriptor, Parameters, REQUEST_BYTES_MAX, UblkError, UblkOptions, execute,
};
use crate::block_device::BlockDevice;

/// Requests that the kernel may have outstanding in a queue.
const QUEUE_DEPTH: u16 = 64;

/// How libublk calls what serves a device.
const TARGET_NAME: &str = "forebay";

/// A disk that the kernel has as a block device.
pub struct UblkServer {
    number: u32,
    path: PathBuf,
    was_taken_over: bool,
    owner: Mutex<Option<JoinHandle<()>>>,
}

impl fmt::Debug for UblkServer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "UblkServer({})", self.path.display())
    }
}

/// What the owner of a device says once it is served.
type Started = Result<(u32, PathBuf), UblkError>;

impl UblkServer {
    /// Serves `device` as a block device of this host; it is there on return. A device of the same
    /// identity that an earlier process left behind is taken over, with the requests that wait on it.
    ///
    /// # Errors
    /// No driver, no rights, a number that is taken, whatever the driver says.
    pub fn start(
        device: Arc<dyn BlockDevice>,
        options: &UblkOptions,
    ) -> Result<UblkServer, UblkError> {
        check_driver()?;
        let waiting = device::left_behind(options)?;
        let was_taken_over = waiting.is_some();
        let options = *options;
        let (sender, started) = channel();
        let owner = std::thread::Builder::new()
            .name("ublk".into())
            .spawn(move || own(&device, &options, waiting, &sender))
            .map_err(|error| UblkError::Driver {
                action: "start",
                reason: error.to_string(),
            })?;
        // A thread that ends without sending has panicked, which ends the process.
        let (number, path) = started.recv().unwrap_or(Err(UblkError::Driver {
            action: "start",
            reason: "its thread ended".into(),
        }))?;
        Ok(UblkServer {
            number,
            path,
            was_taken_over,
            owner: Mutex::new(Some(owner)),
        })
    }

    /// Its block device.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The N of its `/dev/ublkbN`.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Whether it was left behind by an earlier process.
    pub fn was_taken_over(&self) -> bool {
        self.was_taken_over
    }

    /// Whether the driver has released it, because it has been removed.
    pub fn is_gone(&self) -> bool {
        let owner = self.lock();
        owner.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Whether it is mounted or open.
    pub fn is_in_use(&self) -> bool {
        !self.is_gone() && device::is_in_use(&self.path)
    }

    /// Removes it: requests already taken are answered, later ones fail.
    ///
    /// # Errors
    /// The driver; the device is there as before.
    pub fn remove(&self) -> Result<(), UblkError> {
        if !self.is_gone()
            && let Err(error) = self.kill()
            && !self.is_gone()
        {
            return Err(error);
        }
        // Unlocked at once, so that other callers do not wait for slow requests.
        let owner = self.lock().take();
        if let Some(owner) = owner {
            // A panic there has ended the process.
            let _ = owner.join();
        }
        Ok(())
    }

    /// Has the driver end it. The owner's own connection to the driver is busy; this is another one.
    fn kill(&self) -> Result<(), UblkError> {
        let control = UblkCtrl::new_simple(self.number as i32).map_err(driver("remove it"))?;
        control.kill_dev().map_err(driver("remove it"))?;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Option<JoinHandle<()>>> {
        self.owner.lock()
    }
}

fn check_driver() -> Result<(), UblkError> {
    let opened = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(CONTROL_PATH);
    match opened {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Err(UblkError::NoDriver),
        Err(error) => Err(UblkError::Denied(error)),
    }
}

/// Owns a device from its beginning to its end.
fn own(
    device: &Arc<dyn BlockDevice>,
    options: &UblkOptions,
    waiting: Option<Waiting>,
    started: &Sender<Started>,
) {
    let control = match open(device.as_ref(), options, waiting.as_ref()) {
        Ok(control) => control,
        Err(error) => {
            let _ = started.send(Err(error));
            return;
        }
    };
    let parameters = Parameters::of(device.as_ref());
    let on_started = {
        let started = started.clone();
        move |control: &UblkCtrl| {
            let path = PathBuf::from(control.get_bdev_path());
            let _ = started.send(Ok((control.dev_info().dev_id, path)));
        }
    };
    let served = {
        let device = Arc::clone(device);
        control.run_target(
            move |target: &mut UblkDev| {
                target.tgt.dev_size = parameters.disk_sectors * 512;
                target.tgt.params = native(&parameters);
                Ok(())
            },
            move |queue, target: &UblkDev| serve_queue(device.as_ref(), queue, target),
            on_started,
        )
    };
    if let Err(error) = served {
        // Fails only where `start` no longer listens.
        let _ = started.send(Err(driver("start")(error)));
    }
    // One that was taken over is not removed with its control.
    if let Err(error) = control.del_dev() {
        tracing::debug!(%error, "the ublk device was removed before");
    }
}

fn open(
    device: &dyn BlockDevice,
    options: &UblkOptions,
    waiting: Option<&Waiting>,
) -> Result<UblkCtrl, UblkError> {
    let recovery = u64::from(sys::UBLK_F_USER_RECOVERY | sys::UBLK_F_USER_RECOVERY_REISSUE);
    let builder = UblkCtrlBuilder::default()
        .name(TARGET_NAME)
        .ctrl_flags(recovery)
        .ctrl_target_flags(options.identity);
    let Some(waiting) = waiting else {
        let number = options.number.map_or(-1, |number| number as i32);
        return builder
            .id(number)
            .nr_queues(options.queues)
            .depth(QUEUE_DEPTH)
            .io_buf_bytes(REQUEST_BYTES_MAX)
            .dev_flags(UblkFlags::UBLK_DEV_F_ADD_DEV)
            .build()
            .map_err(driver("add a device"));
    };
    waiting.start_recovery(device.size_bytes())?;
    builder
        .id(waiting.number as i32)
        .nr_queues(waiting.queues)
        .depth(waiting.depth)
        .io_buf_bytes(waiting.request_bytes_max)
        .dev_flags(UblkFlags::UBLK_DEV_F_RECOVER_DEV)
        .build()
        .map_err(driver("take over the device that was left behind"))
}

fn native(parameters: &Parameters) -> sys::ublk_params {
    sys::ublk_params {
        types: sys::UBLK_PARAM_TYPE_BASIC | sys::UBLK_PARAM_TYPE_DISCARD,
        basic: sys::ublk_param_basic {
            // Neither UBLK_ATTR_VOLATILE_CACHE nor UBLK_ATTR_FUA.
            attrs: 0,
            logical_bs_shift: parameters.logical_block_shift,
            physical_bs_shift: parameters.physical_block_shift,
            io_opt_shift: parameters.physical_block_shift,
            io_min_shift: parameters.physical_block_shift,
            max_sectors: parameters.request_sectors_max,
            dev_sectors: parameters.disk_sectors,
            ..Default::default()
        },
        discard: sys::ublk_param_discard {
            discard_alignment: parameters.discard_granularity_bytes,
            discard_granularity: parameters.discard_granularity_bytes,
            max_discard_sectors: parameters.discard_sectors_max,
            max_write_zeroes_sectors: parameters.zeroing_sectors_max,
            // More than one is refused by the driver.
            max_discard_segments: 1,
            ..Default::default()
        },
        ..Default::default()
    }
}

/// Serves a queue until its device ends.
fn serve_queue(device: &dyn BlockDevice, number: u16, target: &UblkDev) {
    let mut buffers = target.alloc_queue_io_bufs();
    // The driver writes into them and the library reads them as bytes; none starts undefined.
    buffers.iter_mut().for_each(|buffer| buffer.zero_buf());
    let buffers = RefCell::new(buffers);
    let queue = UblkQueue::new(number, target).and_then(|queue| {
        queue.submit_fetch_commands_unified(BufDescList::Slices(Some(&buffers.borrow())))
    });
    let queue = match queue {
        Ok(queue) => queue,
        Err(error) => {
            tracing::error!(queue = number, %error, "a ublk queue does not start");
            // Without this the start would wait for the queue for ever.
            target.notify_buffer_registration_complete(true);
            return;
        }
    };
    queue.wait_and_handle_io(|queue, tag, _| {
        let mut buffers = buffers.borrow_mut();
        let buffer = buffers[usize::from(tag)].as_mut_slice();
        let described = queue.get_iod(tag);
        let request = IoDescriptor {
            operation_and_flags: described.op_flags,
            sectors: described.nr_sectors,
            start_sector: described.start_sector,
        };
        let result = execute(device, &request, buffer);
        let answered = queue.complete_io_cmd_unified(
            tag,
            BufDesc::Slice(buffer),
            Ok(UblkIORes::Result(result)),
        );
        // Only a buffer of another kind than the device's is refused.
        answered.expect("the device takes buffers");
    });
}
