//! What a file system does with requests that come by the rings.

use std::io;

use super::entry::Request;

/// A file system whose requests the rings bring. Their threads call it at once.
pub trait Service: Send + Sync + 'static {
    /// The calling thread will serve requests.
    fn begin_thread(&self) {}

    /// Carries the request out: how long the answer in its payload is.
    ///
    /// # Errors
    /// What the caller is told, by its number; `ENOSYS` for what is not offered, which the kernel remembers.
    fn answer(&self, request: Request<'_>) -> io::Result<usize>;
}
