//! AutoBahn: a durable buffer above the file system, with lock-free queues from stage to stage.
//!
//! "AutoBahn: a concurrency control framework for non-volatile file buffer" (Jang et al., Cluster Computing 2019,
//! §4, §5): volumes, inodes and blocks of 16 KiB in persistent memory; free, dirty and clean blocks in lock-free FIFO
//! queues; writers, flushers and a reclaimer that hand them on in a circle. It stands above files, not blocks, and so is
//! no [`Engine`](crate::Engine). What the paper leaves open, and what it loses as printed, is in
//! `docs/inside/papers.md`.

mod background;
mod block_lock;
mod buffer;
mod counts;
mod file;
mod flush;
mod folder;
mod layout;
mod media;
mod opened;
mod options;
mod pipeline;
mod queue;
mod reclaim;
mod recover;
mod sync;
#[cfg(test)]
mod tests;
mod wakeup;

pub use buffer::AutoBahn;
pub use counts::StageCounts;
pub use file::{AutoBahnFile, WriteMode};
pub use folder::{Folder, RealFolder, StoredFile};
pub use options::AutoBahnOptions;
pub use recover::Recovered;
