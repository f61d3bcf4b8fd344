//! Redundancy of mapped memory at the end of each transaction, beside none and beside `forebay-dax`'s passes.
//!
//! "TVARAK: Software-Managed Hardware Offload for DAX NVM Storage Redundancy" (Kateja, Beckmann and Ganger,
//! CMU-PDL-19-105, §4) compares its hardware with two designs in software: TxB-Page-Csums, after Mojim and HotPot, and
//! TxB-Object-Csums, after Pangolin. Here they keep real checksums and a real parity, in the files of a region of
//! `forebay-dax`, under programs whose transactions undo themselves after a crash. The protocol, and what differs from the
//! paper, is in `docs/inside/papers.md`.

mod changes;
mod checks;
mod design;
mod error;
mod heap;
mod layout;
mod log;
mod maps;
mod measure;
mod media;
mod protect;
mod recover;
mod report;
#[cfg(test)]
mod tests;
mod verify;

pub use design::Design;
pub use error::{Error, Result};
pub use heap::{Heap, Transaction};
pub use layout::Object;
pub use maps::{Map, MapKind, Table};
pub use measure::{
    MapLoad, NoRows, REPORTED, Reported, TransactionsRow, TransactionsScope, Workload,
    measure_transactions,
};
pub use media::{Media, UNIT_BYTES};
pub use protect::BytesRead;
pub use recover::Recovered;
pub use report::TransactionsReport;
pub use verify::Verified;
