//! Opens whatever bytes come as a pool: an error or a pool, never a panic.

#![no_main]

#[path = "../../crates/cache/tests/fixtures/mod.rs"]
mod fixtures;

libfuzzer_sys::fuzz_target!(|data: &[u8]| fixtures::media_open::run(data));
