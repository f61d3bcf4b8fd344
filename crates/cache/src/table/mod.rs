//! The table of what is cached, and the slots that the blocks lie in: DRAM that finds the medium's entries.

pub(crate) mod index;
pub(crate) mod live;
pub(crate) mod pins;
pub(crate) mod queue;
pub(crate) mod references;
pub(crate) mod slots;
pub(crate) mod word_set_queue;
