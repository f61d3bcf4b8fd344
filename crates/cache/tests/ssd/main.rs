//! Pools on an SSD through the library: what programs see of them.

mod hung;
mod life;
mod marks;
mod model;
mod ranges;
mod reads;
mod refusals;
mod rig;
mod trouble;
mod volumes;
