//! The control socket: how a command asks the daemon that owns a pool.
//!
//! One JSON object a line each way; `docs/using/control-socket.md` lists them. The socket lies beside the
//! pool's first member, is named after it with `.sock` added, and only its owner may open it (mode
//! 0600). [`protocol`] knows lines, [`server`] the daemon's side, [`client`] the command's.

pub mod client;
mod clients;
pub mod protocol;
pub mod server;

use std::path::{Path, PathBuf};

pub use client::{Client, ClientError};
pub use protocol::{PROTOCOL_VERSION, Parameters, Refusal, RefusalKind, Reply, Request};
pub use server::{ControlServer, Handler, Progress, bind_private_for};

/// Where the daemon that serves the pool with this first member listens.
pub fn control_path(pool_member: &Path) -> PathBuf {
    let mut name = pool_member.as_os_str().to_owned();
    name.push(".sock");
    PathBuf::from(name)
}
