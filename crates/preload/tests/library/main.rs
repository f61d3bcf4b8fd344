//! The library in programs that know nothing of it.

mod killed;
mod programs;
mod rig;
mod tally;
mod ways;
