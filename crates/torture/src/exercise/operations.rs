//! Which operations there are, and how often each comes.

use super::exercised::Exercise;
use forebay_harness::Result;

#[derive(Debug)]
pub struct Operation {
    pub name: &'static str,
    pub weight: u32,
    pub is_mapping: bool,
    /// Does it; false if the file system does not know how.
    pub run: fn(&mut Exercise) -> Result<bool>,
}

const fn operation(
    name: &'static str,
    weight: u32,
    run: fn(&mut Exercise) -> Result<bool>,
) -> Operation {
    Operation {
        name,
        weight,
        is_mapping: false,
        run,
    }
}

const fn mapping(
    name: &'static str,
    weight: u32,
    run: fn(&mut Exercise) -> Result<bool>,
) -> Operation {
    Operation {
        is_mapping: true,
        ..operation(name, weight, run)
    }
}

pub const OPERATIONS: &[Operation] = &[
    operation("pread", 150, Exercise::read_at),
    operation("lseek, read", 40, Exercise::read_from),
    operation("preadv", 20, Exercise::read_vectored),
    operation("read past the end", 10, Exercise::read_past_end),
    operation("pwrite", 150, Exercise::write_at),
    operation("lseek, write", 40, Exercise::write_from),
    operation("pwritev", 20, Exercise::write_vectored),
    operation("append", 60, Exercise::append),
    operation("direct read", 10, Exercise::read_direct),
    operation("direct write", 10, Exercise::write_direct),
    operation("fsync", 40, Exercise::sync_all),
    operation("fdatasync", 60, Exercise::sync_data),
    operation("ftruncate", 40, Exercise::truncate),
    operation("truncate", 10, Exercise::truncate_path),
    operation("fallocate", 10, Exercise::allocate),
    operation("fallocate beyond the end", 5, Exercise::allocate_beyond),
    operation("punch hole", 15, Exercise::punch_hole),
    operation("zero range", 10, Exercise::zero_range),
    operation("collapse range", 5, Exercise::collapse_range),
    operation("insert range", 5, Exercise::insert_range),
    operation("copy_file_range", 15, Exercise::copy_range),
    operation("seek hole and data", 10, Exercise::seek_holes),
    operation("forget cached pages", 10, Exercise::forget_pages),
    operation("open again", 40, Exercise::open_again),
    operation("rename", 8, Exercise::rename),
    operation("link and unlink", 5, Exercise::link_and_unlink),
    operation("replace by rename", 4, Exercise::replace),
    operation("unlink while open", 3, Exercise::unlink_while_open),
    operation("another program reads", 1, Exercise::read_by_other),
    operation("a child reads", 1, Exercise::read_by_child),
    operation("a child appends", 1, Exercise::append_by_child),
    mapping("map, read", 20, Exercise::read_mapped),
    mapping("map, write", 20, Exercise::write_mapped),
];
