//! Whatever a client sends to the control socket: one whole answer a line, never a panic.

#![no_main]

#[path = "../../crates/cli/tests/fixtures/mod.rs"]
mod fixtures;

libfuzzer_sys::fuzz_target!(|data: &[u8]| fixtures::control_socket::run(data));
