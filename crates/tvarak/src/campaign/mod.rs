//! Trials at random: bugs of the firmware, a DIMM that dies, power that is cut, while programs run.
//!
//! What programs read is compared with what they wrote, and in the end every byte, every checksum and all parity.

pub mod bugs;
pub mod dimm;
pub mod power;
mod stand;
