//! Looks for journals on whatever disk comes: it may find none, and never one beyond the disk's end.

#![no_main]

#[path = "../../crates/cache/tests/fixtures/mod.rs"]
mod fixtures;

libfuzzer_sys::fuzz_target!(|data: &[u8]| fixtures::journal_locate::run(data));
