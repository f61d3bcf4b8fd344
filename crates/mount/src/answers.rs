//! Answers to the kernel.

use std::io;
use std::time::Duration;

use fuser::{Errno, FileAttr, Generation, ReplyAttr, ReplyEmpty, ReplyEntry, ReplyXattr};

use crate::xattrs::Answer;

/// How long the kernel may cache names and attributes. Everything that changes them through the mount
/// corrects them at once; this is how late a change behind it is seen.
pub const BELIEF: Duration = Duration::from_secs(1);

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
pub fn answer_entry(result: io::Result<FileAttr>, reply: ReplyEntry) {
    match result {
        Ok(found) => reply.entry(&BELIEF, &found, GENERATION),
        Err(error) => reply.error(errno(&error)),
    }
}

/// An inode's attributes, or the error.
pub fn answer_attributes(result: io::Result<FileAttr>, reply: ReplyAttr) {
    match result {
        Ok(attributes) => reply.attr(&BELIEF, &attributes),
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
