//! The engine: transactions join groups, a group is one durable write, segments are reused oldest first.

mod carry;
mod clean_ahead;
mod commit;
mod core;
mod create;
mod equalise;
mod fits;
mod flight;
mod fold;
#[cfg(test)]
mod fold_tests;
mod give_up;
mod group;
mod inline;
mod join;
mod load;
mod looks;
mod maintained;
mod open;
mod pages;
mod patches;
mod publish;
mod read;
mod read_many;
mod recycle;
mod repair;
mod replay;
mod rescue;
mod rest;
#[cfg(test)]
mod rest_tests;
mod round;
#[cfg(test)]
mod round_tests;
mod scan;
mod sync;
mod turns;
mod volume_table;
mod volumes;
mod waiter;
mod write_back;

pub use self::core::{Log, Options, Tallies};
pub use create::{begins_as_pool, clear, create, has_room_for_a_pool};
pub use flight::Flight;
pub use fold::Fold;
pub use looks::{Known, Room};
pub use open::{draw_id, look, open};
pub use read::{Found, Reading};
pub use recycle::Recycling;
pub use round::Round;
pub use waiter::{Outcome, Ticket};
