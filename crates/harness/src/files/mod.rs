//! A tree of files: as it is found on a file system, and as it must be after what was acknowledged.

mod attributes;
mod model;
mod tree;

pub use model::{DIRECTORY_MODE, FILE_MODE, File, Id, Model, Thing};
pub use tree::{
    CAPABILITY, CAPABILITY_VALUE, Changed, EXTENDED, Inode, Kind, Node, Numbers, ROOT, Tree,
};
