//! What a commit will cost on a device: measured before a pool is made there.

use super::Device;
use crate::page::{PAGE_BYTES, Pages};
use std::io;
use std::time::{Duration, Instant};

/// The median time of `rounds` durable writes of two pages, as a commit of one block is, or of as many as fit `at_most`. They go
/// over the last pages of the device, which lose what they have.
///
/// # Errors
/// The system's.
///
/// # Panics
/// The device has fewer pages.
pub fn durable_write_cost(
    device: &dyn Device,
    rounds: usize,
    at_most: Duration,
) -> io::Result<Duration> {
    let zeroes = Pages::zeroed(2);
    let pages = (zeroes.len() / PAGE_BYTES) as u64;
    let page = device.pages().checked_sub(pages).expect("it has pages");
    let start = Instant::now();
    let mut took = Vec::with_capacity(rounds);
    while took.is_empty() || took.len() < rounds && start.elapsed() < at_most {
        let before = Instant::now();
        device.write_durable(page, &[&zeroes])?;
        took.push(before.elapsed());
    }
    took.sort_unstable();
    Ok(took[took.len() / 2])
}
