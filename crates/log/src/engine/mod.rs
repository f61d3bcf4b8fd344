//! The engine: transactions join groups, a group is one durable write, segments are reused oldest first.

mod commit;
mod core;
mod create;
mod flight;
mod group;
mod join;
mod load;
mod open;
mod pages;
mod publish;
mod read;
mod recycle;
mod replay;
mod scan;
mod waiter;
mod write_back;

pub use self::core::{Log, Options, Tallies};
pub use create::create;
pub use flight::Flight;
pub use open::open;
pub use read::{Found, Reading};
pub use recycle::Recycling;
pub use waiter::{Outcome, Ticket};
pub use write_back::Round;
