//! What one client has set up: its features, its memory, its queues.
//!
//! A queue runs from the moment that all of it is known until something of it changes; then it is
//! stopped, which waits for what it has taken, and started again.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use vhost::VhostUserMemoryRegionBase;
use vhost::vhost_user::message::{
    VhostTransferStateDirection, VhostTransferStatePhase, VhostUserConfigFlags, VhostUserInflight,
    VhostUserLog, VhostUserMemoryRegion, VhostUserProtocolFeatures, VhostUserShMemConfig,
    VhostUserSharedMsg, VhostUserSingleMemoryRegion, VhostUserVirtioFeatures,
    VhostUserVringAddrFlags, VhostUserVringState,
};
use vhost::vhost_user::{Error, GpuBackend, Result, VhostUserBackendReqHandlerMut};
use virtio_bindings::bindings::virtio_ring::VIRTIO_RING_F_EVENT_IDX;
use vm_memory::GuestAddress;

use crate::vhost::config::{self, CONFIG_BYTES_MAX, WRITE_BACK_OFFSET};
use crate::vhost::execute::Executor;
use crate::vhost::memory::{MemoryTable, REGIONS_MAX};
use crate::vhost::ring::{Layout, QUEUE_SIZE_MAX, Ring};
use crate::vhost::runner::Runner;
use crate::vhost::server::VhostUserOptions;
use crate::vhost::workers::Workers;

/// One queue: what the client has said of it, and the queue itself while it runs.
#[derive(Default)]
struct QueueState {
    size: Option<u16>,
    /// Descriptors, available ring, used ring.
    places: Option<[GuestAddress; 3]>,
    next_available: u16,
    kick: Option<OwnedFd>,
    call: Option<OwnedFd>,
    error: Option<OwnedFd>,
    is_enabled: bool,
    runner: Option<Runner>,
}

/// One client's state.
pub(crate) struct Session {
    options: VhostUserOptions,
    executor: Arc<Executor>,
    workers: Arc<Workers>,
    features: u64,
    table: MemoryTable,
    queues: Vec<QueueState>,
    /// What the guest reads where it asks whether it has to flush. It need not, whatever it sets.
    write_back: u8,
}

fn refuse<T>(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Result<T> {
    Err(Error::ReqHandlerError(io::Error::other(error)))
}

const UNSUPPORTED: Error = Error::InvalidOperation("not offered by this server");

impl QueueState {
    /// Stops it, if it runs. What it takes next is remembered.
    fn halt(&mut self) {
        if let Some(runner) = self.runner.take() {
            self.next_available = runner.end();
        }
    }

    fn forget(&mut self) {
        self.halt();
        *self = QueueState::default();
    }
}

impl Session {
    pub(crate) fn new(options: VhostUserOptions, executor: Arc<Executor>) -> Session {
        let workers = Arc::new(Workers::new(options.workers));
        let queues = (0..options.queues).map(|_| QueueState::default()).collect();
        Session {
            options,
            executor,
            workers,
            features: 0,
            table: MemoryTable::default(),
            queues,
            write_back: 0,
        }
    }

    fn offered(&self) -> u64 {
        config::features(&self.options) | VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits()
    }

    fn queue(&mut self, index: u32) -> Result<&mut QueueState> {
        self.queues
            .get_mut(index as usize)
            .ok_or(Error::InvalidParam)
    }

    fn halt_all(&mut self) {
        self.queues.iter_mut().for_each(QueueState::halt);
    }

    /// Runs the queue if all of it is known and it is to run.
    fn start_if_ready(&mut self, index: u32) -> Result<()> {
        let features = self.features;
        let (memory, executor) = (self.table.memory(), Arc::clone(&self.executor));
        let workers = Arc::clone(&self.workers);
        let queue = self.queue(index)?;
        let (Some(size), Some([descriptors, available, used]), Some(kick), true, None) = (
            queue.size,
            queue.places,
            &queue.kick,
            queue.is_enabled,
            &queue.runner,
        ) else {
            return Ok(());
        };
        let layout = Layout {
            size,
            descriptors,
            available,
            used,
            next_available: queue.next_available,
            event_index: features & (1 << VIRTIO_RING_F_EVENT_IDX) != 0,
        };
        let again = |descriptor: &Option<OwnedFd>| {
            let copied = descriptor.as_ref().map(OwnedFd::try_clone).transpose();
            copied.map_err(Error::ReqHandlerError)
        };
        let kick = kick.try_clone().map_err(Error::ReqHandlerError)?;
        let (call, error) = (again(&queue.call)?, again(&queue.error)?);
        let ring = match Ring::new(&layout, memory, executor, call) {
            Ok(ring) => ring,
            Err(broken) => {
                tracing::warn!(queue = index, error = %broken, "a guest's queue is not started");
                return refuse(broken);
            }
        };
        let runner = Runner::start(ring, kick, error, workers).map_err(Error::ReqHandlerError)?;
        queue.runner = Some(runner);
        Ok(())
    }

    fn start_all(&mut self) -> Result<()> {
        (0..u32::from(self.options.queues)).try_for_each(|index| self.start_if_ready(index))
    }

    /// Stops the queue, changes it, and starts it again where it can run.
    fn change(&mut self, index: u32, change: impl FnOnce(&mut QueueState)) -> Result<()> {
        let queue = self.queue(index)?;
        queue.halt();
        change(queue);
        self.start_if_ready(index)
    }

    /// Stops all queues, changes the memory, and starts them again.
    fn change_memory(
        &mut self,
        change: impl FnOnce(&mut MemoryTable) -> io::Result<()>,
    ) -> Result<()> {
        self.halt_all();
        change(&mut self.table).map_err(Error::ReqHandlerError)?;
        self.start_all()
    }

    /// Everything is forgotten but the memory.
    fn reset(&mut self) {
        self.queues.iter_mut().for_each(QueueState::forget);
        self.features = 0;
        self.write_back = 0;
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.halt_all();
        self.workers.end();
    }
}

/// A descriptor that never makes us wait.
fn without_blocking(file: File) -> Result<OwnedFd> {
    let descriptor = OwnedFd::from(file);
    let set = || fcntl_setfl(&descriptor, fcntl_getfl(&descriptor)? | OFlags::NONBLOCK);
    set().map_err(|errno| Error::ReqHandlerError(errno.into()))?;
    Ok(descriptor)
}

impl VhostUserBackendReqHandlerMut for Session {
    fn set_owner(&mut self) -> Result<()> {
        Ok(())
    }

    fn reset_owner(&mut self) -> Result<()> {
        self.reset();
        Ok(())
    }

    fn reset_device(&mut self) -> Result<()> {
        self.reset();
        Ok(())
    }

    fn get_features(&mut self) -> Result<u64> {
        Ok(self.offered())
    }

    fn set_features(&mut self, features: u64) -> Result<()> {
        if features & !self.offered() != 0 {
            return Err(Error::InvalidParam);
        }
        if features != self.features {
            self.halt_all();
            self.features = features;
        }
        if features & VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits() == 0 {
            // Such a client cannot say when a queue is to run.
            self.queues
                .iter_mut()
                .for_each(|queue| queue.is_enabled = true);
        }
        self.start_all()
    }

    fn set_mem_table(
        &mut self,
        regions: &[VhostUserMemoryRegion],
        files: Vec<File>,
        _postcopy: Option<bool>,
    ) -> Result<Option<Vec<VhostUserMemoryRegionBase>>> {
        self.change_memory(|table| table.replace(regions, files))?;
        Ok(None)
    }

    fn set_vring_num(&mut self, index: u32, size: u32) -> Result<()> {
        let size = u16::try_from(size).map_err(|_| Error::InvalidParam)?;
        if !size.is_power_of_two() || size > QUEUE_SIZE_MAX {
            return refuse(format!(
                "a queue of {size} entries; it has a power of two up to {QUEUE_SIZE_MAX}"
            ));
        }
        self.change(index, |queue| queue.size = Some(size))
    }

    fn set_vring_addr(
        &mut self,
        index: u32,
        _flags: VhostUserVringAddrFlags,
        descriptors: u64,
        used: u64,
        available: u64,
        _log: u64,
    ) -> Result<()> {
        let place = |address| self.table.guest_address(address).ok_or(Error::InvalidParam);
        let places = [place(descriptors)?, place(available)?, place(used)?];
        self.change(index, |queue| queue.places = Some(places))
    }

    fn set_vring_base(&mut self, index: u32, base: u32) -> Result<()> {
        self.change(index, |queue| queue.next_available = base as u16)
    }

    fn get_vring_base(&mut self, index: u32) -> Result<VhostUserVringState> {
        let queue = self.queue(index)?;
        queue.halt();
        queue.kick = None;
        queue.call = None;
        Ok(VhostUserVringState::new(index, queue.next_available.into()))
    }

    fn set_vring_kick(&mut self, index: u8, file: Option<File>) -> Result<()> {
        let Some(file) = file else {
            return refuse("a queue without kicks would have to be polled, which is not done");
        };
        let kick = without_blocking(file)?;
        self.change(index.into(), |queue| queue.kick = Some(kick))
    }

    fn set_vring_call(&mut self, index: u8, file: Option<File>) -> Result<()> {
        let call = file.map(without_blocking).transpose()?;
        let queue = self.queue(index.into())?;
        if let Some(runner) = &queue.runner {
            let again = call.as_ref().map(OwnedFd::try_clone).transpose();
            runner
                .ring()
                .set_call(again.map_err(Error::ReqHandlerError)?);
        }
        queue.call = call;
        Ok(())
    }

    fn set_vring_err(&mut self, index: u8, file: Option<File>) -> Result<()> {
        let error = file.map(without_blocking).transpose()?;
        self.change(index.into(), |queue| queue.error = error)
    }

    fn get_protocol_features(&mut self) -> Result<VhostUserProtocolFeatures> {
        Ok(VhostUserProtocolFeatures::MQ
            | VhostUserProtocolFeatures::REPLY_ACK
            | VhostUserProtocolFeatures::BACKEND_REQ
            | VhostUserProtocolFeatures::CONFIG
            | VhostUserProtocolFeatures::RESET_DEVICE
            | VhostUserProtocolFeatures::CONFIGURE_MEM_SLOTS)
    }

    fn set_protocol_features(&mut self, features: u64) -> Result<()> {
        match features & !self.get_protocol_features()?.bits() {
            0 => Ok(()),
            _ => Err(Error::InvalidParam),
        }
    }

    fn get_queue_num(&mut self) -> Result<u64> {
        Ok(self.options.queues.into())
    }

    fn set_vring_enable(&mut self, index: u32, enable: bool) -> Result<()> {
        let queue = self.queue(index)?;
        if queue.is_enabled == enable {
            return Ok(());
        }
        self.change(index, |queue| queue.is_enabled = enable)
    }

    fn get_config(
        &mut self,
        offset: u32,
        size: u32,
        _flags: VhostUserConfigFlags,
    ) -> Result<Vec<u8>> {
        let space = config::space(&*self.executor.device, &self.options, self.write_back);
        let (start, size) = (offset as usize, size as usize);
        let part = start
            .checked_add(size)
            .and_then(|end| space.get(start..end));
        part.map(<[u8]>::to_vec).ok_or(Error::InvalidParam)
    }

    fn set_config(
        &mut self,
        offset: u32,
        bytes: &[u8],
        _flags: VhostUserConfigFlags,
    ) -> Result<()> {
        // Only one byte can be set, but some clients send all of them back.
        let place = WRITE_BACK_OFFSET.checked_sub(offset as usize);
        let value = place.and_then(|place| bytes.get(place));
        match value {
            Some(value @ (0 | 1)) if offset as usize + bytes.len() <= CONFIG_BYTES_MAX => {
                self.write_back = *value;
                Ok(())
            }
            _ => Err(Error::InvalidParam),
        }
    }

    fn set_gpu_socket(&mut self, _gpu_backend: GpuBackend) -> Result<()> {
        Err(UNSUPPORTED)
    }

    fn get_shared_object(&mut self, _uuid: VhostUserSharedMsg) -> Result<File> {
        Err(UNSUPPORTED)
    }

    fn get_inflight_fd(
        &mut self,
        _inflight: &VhostUserInflight,
    ) -> Result<(VhostUserInflight, File)> {
        Err(UNSUPPORTED)
    }

    fn set_inflight_fd(&mut self, _inflight: &VhostUserInflight, _file: File) -> Result<()> {
        Err(UNSUPPORTED)
    }

    fn get_max_mem_slots(&mut self) -> Result<u64> {
        Ok(REGIONS_MAX as u64)
    }

    fn add_mem_region(
        &mut self,
        region: &VhostUserSingleMemoryRegion,
        file: File,
        _postcopy: Option<bool>,
    ) -> Result<Option<VhostUserMemoryRegionBase>> {
        self.change_memory(|table| table.add(region, file))?;
        Ok(None)
    }

    fn remove_mem_region(&mut self, region: &VhostUserSingleMemoryRegion) -> Result<()> {
        self.change_memory(|table| table.remove(region))
    }

    fn set_device_state_fd(
        &mut self,
        _direction: VhostTransferStateDirection,
        _phase: VhostTransferStatePhase,
        _file: File,
    ) -> Result<Option<File>> {
        Err(UNSUPPORTED)
    }

    fn check_device_state(&mut self) -> Result<()> {
        Err(UNSUPPORTED)
    }

    fn get_shmem_config(&mut self) -> Result<VhostUserShMemConfig> {
        Err(UNSUPPORTED)
    }

    fn set_log_base(&mut self, _log: &VhostUserLog, _file: File) -> Result<()> {
        Err(UNSUPPORTED)
    }
}
