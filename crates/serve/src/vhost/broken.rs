//! Why a queue of the guest's does not run on.

use virtio_queue::Error as QueueError;

/// Why a queue does not run on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Broken {
    #[error("its descriptors or rings are not in the guest's memory, or not aligned")]
    Outside,
    #[error("{0}")]
    Queue(QueueError),
    #[error("the entries that it says are there cannot be read")]
    Unreadable,
    #[error("chain {0} is made available again before its answer")]
    Repeated(u16),
    #[error("chain {0} is more than the queue has")]
    NoSuchHead(u16),
    #[error("the guest's memory is not there any more: its file was shortened, or has no room")]
    MemoryLost,
}

impl From<QueueError> for Broken {
    fn from(error: QueueError) -> Broken {
        Broken::Queue(error)
    }
}
