//! Random NBD requests against a plain array.

#![no_main]

#[path = "../../crates/serve/tests/fixtures/mod.rs"]
mod fixtures;
#[path = "../../crates/serve/tests/nbd_client/mod.rs"]
mod nbd_client;

libfuzzer_sys::fuzz_target!(|data: &[u8]| fixtures::nbd_requests::run(data));
