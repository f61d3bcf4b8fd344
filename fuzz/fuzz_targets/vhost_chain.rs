//! Random descriptors in a queue over vhost-user.

#![no_main]

#[path = "../../crates/serve/tests/fixtures/vhost_chain.rs"]
mod vhost_chain;

libfuzzer_sys::fuzz_target!(|data: &[u8]| vhost_chain::run(data));
