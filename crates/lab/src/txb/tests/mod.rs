//! The designs over models of memory, which know what a crash may leave.

mod counts;
mod crashes;
mod damage;
mod model;
mod world;
