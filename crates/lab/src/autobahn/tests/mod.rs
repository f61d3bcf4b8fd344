//! The buffer against plain memory, after power cuts and kills, with threads, and what it costs.

mod as_printed;
mod counts;
mod crashes;
mod files;
mod model;
mod threads;
mod world;
