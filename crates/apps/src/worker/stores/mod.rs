//! The key-value stores that workloads run over.

mod library;
mod redis;

use std::path::Path;

use forebay_harness::Result;
use serde::{Deserialize, Serialize};

/// Bytes of every value.
pub const VALUE_BYTES: usize = 1024;

pub trait Store: Sync {
    /// A client of it, for one thread. What it writes survives a crash when the call returns if
    /// `is_durable`, else after [`Client::finish`] at the latest.
    fn client(&self, is_durable: bool) -> Result<Box<dyn Client + '_>>;
}

pub trait Client {
    /// Writes a record; `is_new` if there is none of that key.
    fn put(&mut self, key: &str, value: &[u8], is_new: bool) -> Result<()>;

    /// A record; none where there is none.
    fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>>;

    /// Reads up to `count` records in order, from the first that is not before `key`; how many it were.
    fn scan(&mut self, key: &str, count: usize) -> Result<usize>;

    /// Waits for everything that is under way.
    fn finish(&mut self) -> Result<()>;
}

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
