//! What the rest of the checker asks of a cache, be it a pool or an engine of the lab.

use crate::scenario::{Shape, Step};
use crate::world::World;
use forebay_volatile::VolatileDisk;
use std::sync::Arc;

/// How a cache is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begins {
    /// It is opened.
    Opened,
    /// It is opened without members that are missing.
    OpenedWithout,
    /// It grows to all of its medium.
    Grown,
    /// It is made anew over what was there.
    Created,
}

/// A cache that runs.
pub type OpenCache = Box<dyn Cache>;

/// What the checker asks of any cache that runs.
pub trait Cache: Sync {
    /// An actor that works on it.
    fn actor<'a>(&'a self, world: &'a World, shape: &'a Shape) -> Box<dyn Actor + 'a>;

    /// Reads a block; none if the volume ends before it.
    fn read_block(
        &self,
        shape: &Shape,
        volume: usize,
        block: usize,
    ) -> forebay::Result<Option<Vec<u8>>>;

    /// Whether what it knows of itself is consistent.
    fn check(&self) -> Result<(), String>;

    /// Whether it finds nothing wrong with what recovery left, where nothing is.
    fn check_undamaged(&self) -> Result<(), String> {
        Ok(())
    }

    /// Whether it has nothing that its backings lack, which their marks said.
    fn check_nothing_dirty(&self) -> Result<(), String> {
        Ok(())
    }

    /// Evicts clean blocks, if it can be asked to; at most `_blocks`.
    fn evict_clean(&self, _blocks: usize) -> Result<(), String> {
        Ok(())
    }

    /// Empties it into its backings and compares them, unless scripts do so.
    fn empty(&self, _stores: &[Arc<VolatileDisk>]) -> Result<(), String> {
        Ok(())
    }

    /// Closes it in order.
    fn close(self: Box<Self>, world: &World) -> Result<(), String>;
}

/// A thread that works on a cache.
pub trait Actor {
    /// Does one step; the error is a violation in words.
    fn act(&mut self, step: &Step) -> Result<(), String>;
}
