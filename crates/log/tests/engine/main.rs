//! The engine on the shadow device and on a file.

mod counts;
mod fixtures;
mod full;
mod life;
mod media;
mod mirror;
mod patches;
mod reads;
mod threads;
mod unsynced;
