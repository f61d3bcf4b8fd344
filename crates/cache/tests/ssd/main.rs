//! Pools on an SSD through the library: what programs see of them.

mod hung;
mod life;
mod marks;
mod mirror;
mod model;
mod ranges;
mod reads;
mod refusals;
mod rig;
mod stacked;
mod trouble;
mod unsynced;
mod volumes;
