//! The command as scripts use it: what it prints, its exit codes, the daemon from start to end.

mod changes;
mod config;
mod daemon;
mod dax;
mod drills;
mod ending;
#[path = "../../../serve/tests/common/held.rs"]
mod held;
mod hung;
mod idle;
mod limits;
mod load;
mod log;
mod marks;
mod marks_of_files;
mod mirror;
mod mirror_of_three;
mod mount;
mod names;
#[path = "../../../serve/tests/common/offer.rs"]
mod offer;
mod one_copy;
mod ownership;
mod pages;
mod pools;
mod run;
mod sandbox;
mod service;
mod shared;
mod ssd;
mod ssd_mirror;
mod ssd_vhost;
mod stacked;
mod test_env;
mod top;
mod transports;
mod ublk;
mod vhost;
#[path = "../../../serve/tests/vhost_guest/mod.rs"]
mod vhost_guest;
mod witness;

/// The program that is tested; test_env is another program's too.
const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay");
