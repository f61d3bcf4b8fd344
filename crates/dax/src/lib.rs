//! Mapped regions: memory that programs store into directly, with checksums and parity that follow behind.
//!
//! A region is one run of bytes over files beside the members of a pool. Programs map it and store into it as they
//! like; a pass each period finds the pages that were stored to and makes their sums and the parity of their rows.
//! Between its first store and the end of its pass a page is not protected: that *window* is measured.
//!
//! The design is the asynchronous one of the software redundancy that "TVARAK: Software-Managed Hardware Offload for
//! DAX NVM Storage Redundancy" (Kateja, Beckmann and Ganger, CMU-PDL-19-105, §2.3) compares with. The protocol, and
//! why it holds, is in `docs/inside/dax.md`.

#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

#[cfg(any(test, feature = "campaign"))]
mod campaign;
mod engine;
mod error;
mod format;
mod keeper;
mod list;
mod medium;
#[cfg(any(test, feature = "campaign"))]
#[cfg_attr(not(test), allow(dead_code, reason = "some of it is the tests' alone"))]
mod model;
#[doc(hidden)]
pub mod mutants;
mod options;
mod pool;
mod recover;
mod region;
mod repeating;
mod report;
mod seal;
#[cfg(test)]
mod tests;
mod track;

#[cfg(feature = "campaign")]
#[doc(hidden)]
pub use campaign::{Counted, Report, replay as replay_campaign, run as run_campaign};
pub use error::{Error, ErrorKind, Result};
pub use forebay_pmem::Counters;
pub use keeper::Keeper;
pub use list::list;
pub use options::{CreateOptions, OpenOptions, TrackerKind, UnknownTracker};
pub use pool::DaxPool;
pub use region::DaxRegion;
pub use report::{
    Counts, Created, KeptRegion, Listed, RegionState, Sealed, Status, Verified, Window,
};
pub use seal::seal;
