//! Random operations on a pool against a plain model of it.

#![no_main]

#[path = "../../crates/cache/tests/fixtures/mod.rs"]
mod fixtures;

libfuzzer_sys::fuzz_target!(|data: &[u8]| fixtures::operations::run(data));
