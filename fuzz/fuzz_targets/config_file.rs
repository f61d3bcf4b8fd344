//! Any text as a config file: settings, or an error with its line, never a panic.

#![no_main]

#[path = "../../crates/cli/tests/fixtures/mod.rs"]
mod fixtures;

libfuzzer_sys::fuzz_target!(|data: &[u8]| fixtures::config_file::run(data));
