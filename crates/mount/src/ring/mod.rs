//! The mount's requests by the [rings](forebay_serve::fuse_ring): each is handed to the [`Operations`], as those by `/dev/fuse` are.

mod dispatch;

use std::io;
use std::sync::Arc;

use forebay_serve::fuse_ring::{Request, Service};

use crate::credentials;
use crate::operations::Operations;
use crate::scheduler::Scheduler;

/// What the threads of the rings serve.
pub struct RingService {
    operations: Arc<Operations>,
    scheduler: Arc<Scheduler>,
}

impl RingService {
    pub fn new(operations: &Arc<Operations>, scheduler: &Arc<Scheduler>) -> Arc<RingService> {
        Arc::new(RingService {
            operations: Arc::clone(operations),
            scheduler: Arc::clone(scheduler),
        })
    }
}

impl Service for RingService {
    fn begin_thread(&self) {
        credentials::take_own_umask();
    }

    fn answer(&self, request: Request<'_>) -> io::Result<usize> {
        self.scheduler.note();
        dispatch::answer(&self.operations, request)
    }
}
