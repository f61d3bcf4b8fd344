//! `info`, `check`, `stat` and `recover` over forged pools with right checksums: plain lines, never a panic.

#![no_main]

#[path = "../../crates/cli/tests/fixtures/mod.rs"]
mod fixtures;

libfuzzer_sys::fuzz_target!(|data: &[u8]| fixtures::forged_pool::run(data));
