//! The same tests with their requests by io_uring, where the kernel has it.

#[path = "../semantics/attributes.rs"]
mod attributes;
#[path = "../semantics/bytes.rs"]
mod bytes;
#[path = "../semantics/ending.rs"]
mod ending;
#[path = "../semantics/fixture.rs"]
mod fixture;
#[path = "../../../serve/tests/common/held.rs"]
mod held;
#[path = "../semantics/names.rs"]
mod names;
#[path = "../../../serve/tests/common/offer.rs"]
mod offer;
#[path = "../semantics/restrictions.rs"]
mod restrictions;
mod rings;
#[path = "../semantics/users.rs"]
mod users;

/// What brings the requests of this program's mounts.
const TRANSPORT: forebay_mount::Transport = forebay_mount::Transport::IoUring;
