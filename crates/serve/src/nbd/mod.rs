//! Disks over NBD, the network block device protocol: fixed newstyle, structured replies.
//!
//! ```text
//!   NbdServer  accepts, limits, drains          Exports  names -> BlockDevice
//!       |  a thread for each connection            |
//!   handshake (option_data)  ----------------------+
//!       |  Negotiated
//!   connection (inbox, request, room, reply)  -- execute --> BlockDevice
//!       |  Transport
//!   socket, tls
//! ```
//!
//! All connections see one coherent disk, and every answered write is durable; see `docs/using/nbd.md`.

mod address;
mod connection;
mod execute;
mod exports;
mod handshake;
mod inbox;
mod link;
mod memory;
mod option_data;
mod protocol;
mod reply;
mod request;
mod room;
mod server;
mod socket;
mod stats;
#[doc(hidden)]
pub mod testing;
mod tls;
mod transport;
mod waiting;

pub use address::{NbdAddress, NbdAddressError};
pub use exports::{ExportError, Exports};
pub use server::{NbdError, NbdOptions, NbdServer};
pub use stats::NbdStats;
pub use tls::TlsFiles;
pub use transport::Transport;
