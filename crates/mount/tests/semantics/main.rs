//! A real mount behaves as the file system behind it: each test mounts a directory of its own.

mod attributes;
mod bytes;
mod ending;
mod fixture;
mod names;
#[path = "../../../serve/tests/common/offer.rs"]
mod offer;
mod restrictions;
mod users;

/// What brings the requests of this program's mounts.
const TRANSPORT: forebay_mount::Transport = forebay_mount::Transport::DevFuse;
