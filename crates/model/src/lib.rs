//! An executable model of the protocol in `docs/inside/protocol.md`.
//!
//! A [`world::World`] is one small pool with every store pending until fenced; [`action`] says what may happen next, power
//! cuts and kills included; [`explore`] goes through every state or walks at random; [`rules`] names the rules that can be
//! broken, each a mutant that must be caught. [`mirror`] is a second model, of a pool on two members, [`extent`] a third, of a mapped region, [`ring`] a fourth, of a pool on an SSD. The model shares no code with the product: it is what the product is held against.

pub mod action;
pub mod background;
pub mod commit;
pub mod config;
pub mod explore;
pub mod extent;
pub mod invariants;
pub mod media;
pub mod memory;
pub mod mirror;
pub mod recovery;
pub mod reopen;
pub mod ring;
pub mod rules;
pub mod world;
pub mod worlds;
