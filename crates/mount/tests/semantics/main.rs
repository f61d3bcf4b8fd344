//! A real mount behaves as the file system behind it: each test mounts a directory of its own.

mod attributes;
mod bytes;
mod ending;
mod fixture;
mod names;
mod restrictions;
mod users;
