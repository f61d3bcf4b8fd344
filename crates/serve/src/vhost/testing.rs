//! One queue over any memory, for tests and fuzz targets.

use std::sync::Arc;

use vm_memory::{GuestAddress, GuestMemoryMmap};

use crate::block_device::BlockDevice;
use crate::vhost::execute::Executor;
use crate::vhost::memory::GuestMemory;
use crate::vhost::options::VhostUserOptions;
use crate::vhost::ring::{Layout, Ring};
use crate::vhost::stats::VhostUserStats;
use crate::vhost::workers::Workers;

/// Where a queue's parts are in the guest's memory.
#[derive(Clone, Copy, Debug)]
pub struct QueuePlaces {
    /// Its entries.
    pub size: u16,
    /// Its descriptors.
    pub descriptors: u64,
    /// The ring of available chains.
    pub available: u64,
    /// The ring of answers.
    pub used: u64,
}

/// Serves what is available in a queue, as a server would whose client had set it up so; what was
/// done, and all of it is done on return. Without workers in `options` requests are carried out in
/// their order.
///
/// # Errors
/// The queue is not in the memory, or what is in it is malformed.
pub fn serve_queue(
    device: Arc<dyn BlockDevice>,
    options: &VhostUserOptions,
    memory: &Arc<GuestMemoryMmap<()>>,
    places: QueuePlaces,
    event_index: bool,
) -> Result<VhostUserStats, String> {
    let executor = Arc::new(Executor::new(device, options));
    let layout = Layout {
        size: places.size,
        descriptors: GuestAddress(places.descriptors),
        available: GuestAddress(places.available),
        used: GuestAddress(places.used),
        next_available: 0,
        event_index,
    };
    let ring = Ring::new(
        &layout,
        Arc::new(GuestMemory::of_our_own((**memory).clone())),
        Arc::clone(&executor),
        [None, None],
    )
    .map_err(|broken| broken.to_string())?;
    let ring = Arc::new(ring);
    let workers = Workers::new(options);
    let served = ring.serve(&workers, &mut Vec::new());
    ring.wait_for_workers();
    workers.end();
    served.map_err(|broken| broken.to_string())?;
    Ok(executor.tallies.snapshot())
}
