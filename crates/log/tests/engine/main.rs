//! The engine on the shadow device and on a file.

mod counts;
mod fixtures;
mod life;
mod media;
mod reads;
mod threads;
