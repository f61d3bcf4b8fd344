//! What every store does for its clients.

use forebay_harness::Result;

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
