//! The key-value stores that workloads run over.

mod library;
mod redis;
mod store;

use std::path::Path;

use forebay_harness::Result;
use serde::{Deserialize, Serialize};

pub use store::{Client, Store, VALUE_BYTES};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    Redis,
    Rocksdb,
    Wiredtiger,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Redis => "redis",
            Kind::Rocksdb => "rocksdb",
            Kind::Wiredtiger => "wiredtiger",
        }
    }

    /// The store behind a socket, or in a directory; `library` joins this program and the store's.
    pub fn open(self, at: &Path, library: Option<&Path>) -> Result<Box<dyn Store>> {
        match (self, library) {
            (Kind::Redis, _) => Ok(Box::new(redis::Redis::new(at.to_owned()))),
            (_, Some(library)) => Ok(Box::new(library::Library::open(library, at)?)),
            (_, None) => Err(format!("{} needs a library", self.name()).into()),
        }
    }
}
