//! File buffers side by side: AutoBahn as its paper has it, our own, and ext4 as the kernel has it, under the paper's
//! micro-benchmark (§6.2): threads that write small pieces to private files.
//!
//! Both buffers have a region of the same size in the same folder, and the same folder of files behind them; all run in
//! this process and are called as libraries. Counts are exact; times are this machine's, in rounds in which all take
//! turns.

mod cells;
mod content;
mod counts;
mod files_on_disk;
mod inodes;
mod report;
mod reported;
mod row;
mod scope;
mod stand;
#[cfg(test)]
mod tests;
mod text;
mod writers;

pub use cells::measure_cell;
pub use counts::{CountsRow, count_writes};
pub use files_on_disk::FilesOnDisk;
pub use inodes::{InodesRow, measure_inodes};
pub use report::FilesReport;
pub use reported::{Compared, REPORTED, Reported};
pub use row::FilesRow;
pub use scope::{Cell, FilesScope, Pattern, Unit};
pub use stand::Contender;
