//! The command as scripts use it: what it prints, its exit codes, the daemon from start to end.

mod changes;
mod config;
mod daemon;
mod designs;
mod ending;
mod idle;
mod lab;
mod limits;
mod log;
mod marks;
mod marks_of_files;
mod mount;
mod names;
mod nbd;
mod ownership;
mod pages;
mod pools;
mod run;
mod sandbox;
mod service;
mod test_env;
mod top;
mod ublk;
mod vhost;
