//! Traces of real programs, as `valgrind --tool=lackey --trace-mem=yes` prints them, run on the designs.
//!
//! A trace tells every instruction's address and every load and store of it, of all threads one after the other; so it is run on one core.
//! It tells no values, no dependencies and no transactions.

pub mod line;
pub mod replay;
