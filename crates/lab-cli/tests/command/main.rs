//! The command as scripts use it: what it measures and prints, its exit codes, the designs that it serves.

mod dax;
mod designs;
mod figures;
mod files;
#[path = "../../../cli/tests/command/load.rs"]
mod load;
mod marks;
mod pages;
#[path = "../../../cli/tests/command/test_env.rs"]
#[allow(dead_code, reason = "what only the tests of forebay need")]
mod test_env;
mod tvarak;

/// The program that is tested.
const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay-lab");
