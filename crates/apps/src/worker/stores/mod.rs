//! The key-value stores that workloads run over.

mod library;
mod redis;

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use crate::Result;

/// A store.
pub trait Store: Sync {
    /// A client of it, for one thread. What it writes survives a crash when the call returns if
    /// `is_durable`, else after [`Client::finish`] at the latest.
    ///
    /// Errors: the store's.
    fn client(&self, is_durable: bool) -> Result<Box<dyn Client + '_>>;
}

/// One connection.
pub trait Client {
    /// Writes a record; `is_new` if there is none of that key.
    ///
    /// Errors: the store's.
    fn put(&mut self, key: &str, value: &[u8], is_new: bool) -> Result<()>;

    /// A record; none where there is none.
    ///
    /// Errors: the store's.
    fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>>;

    /// Reads up to `count` records in order, from the first that is not before `key`; how many it were.
    ///
    /// Errors: the store's.
    fn scan(&mut self, key: &str, count: usize) -> Result<usize>;

    /// Waits for everything that is under way.
    ///
    /// Errors: the store's.
    fn finish(&mut self) -> Result<()>;
}

/// Which store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// A server that runs already
    Redis,
    /// A library
    Rocksdb,
    /// A library
    Wiredtiger,
}

/// Which store, and where it is.
#[derive(Debug, Args)]
pub struct StoreArguments {
    /// Which
    #[arg(long)]
    pub store: Kind,
    /// The server's socket, or the directory; several are shards, each a store with clients of its own
    #[arg(long, required = true)]
    pub at: Vec<PathBuf>,
    /// The library that joins this program and the store's
    #[arg(long)]
    pub library: Option<PathBuf>,
}

impl StoreArguments {
    /// As in the names of rows.
    pub fn name(&self) -> &'static str {
        match self.store {
            Kind::Redis => "redis",
            Kind::Rocksdb => "rocksdb",
            Kind::Wiredtiger => "wiredtiger",
        }
    }

    /// All of them.
    ///
    /// Errors: the store's.
    pub fn open(&self) -> Result<Vec<Box<dyn Store>>> {
        self.at.iter().map(|at| self.open_one(at)).collect()
    }

    fn open_one(&self, at: &Path) -> Result<Box<dyn Store>> {
        match (self.store, &self.library) {
            (Kind::Redis, _) => Ok(Box::new(redis::Redis::new(at.to_owned()))),
            (_, Some(library)) => Ok(Box::new(library::Library::open(library, at)?)),
            (_, None) => Err(format!("{} needs --library", self.name()).into()),
        }
    }
}
