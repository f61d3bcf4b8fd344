//! Members of a mirrored pool that do one thing wrong below good fences: a bit turned over, a write that is lost,
//! torn or arrives elsewhere, a read from elsewhere, a lost page, a failed fence, a member that dies or comes back as it was.
//!
//! Random loads with kills and power cuts between; then everything is read, by the same process and by others, and
//! recovered from what power cuts leave. With one thing wrong all that was acknowledged reads right, and never
//! anything else.

mod campaign;
mod draw;
mod look;
mod regions;
mod told;
mod trial;

pub use campaign::{Arguments, run};
