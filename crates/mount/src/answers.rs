//! Answers to the kernel.

use std::io;
use std::time::Duration;

use fuser::{Errno, FileAttr, Generation, ReplyAttr, ReplyEmpty, ReplyEntry, ReplyXattr};

use crate::xattrs::Answer;

/// Inode numbers are not used again while the kernel knows them.
pub const GENERATION: Generation = Generation(0);

/// The number that the caller sees.
pub fn errno(error: &io::Error) -> Errno {
    Errno::from_i32(error.raw_os_error().unwrap_or(libc::EIO))
}

/// Done, or the error.
pub fn answer_empty(result: io::Result<()>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno(&error)),
    }
}

/// What a name leads to, or the error.
pub fn answer_entry(belief: Duration, result: io::Result<FileAttr>, reply: ReplyEntry) {
    match result {
        Ok(found) => reply.entry(&belief, &found, GENERATION),
        Err(error) => reply.error(errno(&error)),
    }
}

/// An inode's attributes, or the error.
pub fn answer_attributes(belief: Duration, result: io::Result<FileAttr>, reply: ReplyAttr) {
    match result {
        Ok(attributes) => reply.attr(&belief, &attributes),
        Err(error) => reply.error(errno(&error)),
    }
}

/// An extended attribute, its length, or the error.
pub fn answer_xattr(result: io::Result<Answer>, reply: ReplyXattr) {
    match result {
        Ok(Answer::Length(length)) => reply.size(length),
        Ok(Answer::Bytes(bytes)) => reply.data(&bytes),
        Err(error) => reply.error(errno(&error)),
    }
}
