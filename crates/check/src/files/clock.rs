//! When inodes were changed, by a clock that counts such moments: it is the same in every run, goes on from one incarnation of a
//! story to the next, and a crash gives an inode the time back that it had then.

use forebay_harness::files::{Changed, Inode, Tree};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// The clock.
#[derive(Clone, Debug, Default)]
pub struct Clock(Arc<AtomicI64>);

impl Clock {
    /// A story begins.
    pub fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// What is changed from now on, is changed at this moment at the earliest.
    pub fn next(&self) -> i128 {
        i128::from(self.0.load(Ordering::Relaxed)) + 1
    }

    fn tick(&self) -> i128 {
        i128::from(self.0.fetch_add(1, Ordering::Relaxed)) + 1
    }
}

/// Times of change: what the file system says, and what the clock said when that was new.
pub struct Times {
    clock: Clock,
    known: HashMap<Inode, (i128, i128)>,
    booted: i128,
}

impl Times {
    /// Of inodes that the file system says it has just made, and that had these times before.
    pub fn new(clock: &Clock, made: &Tree, before: &Tree) -> Times {
        let known = made.nodes.iter().filter_map(|(inode, node)| {
            let before = before.nodes.get(inode)?;
            Some((*inode, (node.changed.0, before.changed.0)))
        });
        Times {
            clock: clock.clone(),
            known: known.collect(),
            booted: clock.next(),
        }
    }

    /// When the machine started.
    pub fn booted(&self) -> i128 {
        self.booted
    }

    /// What the clock says.
    pub fn now(&self) -> i128 {
        self.clock.next()
    }

    /// When an inode was changed of which the file system says this.
    pub fn of(&mut self, inode: Inode, real_ns: i128) -> i128 {
        match self.known.get(&inode) {
            Some((known_ns, at)) if *known_ns == real_ns => *at,
            _ => {
                let at = self.clock.tick();
                self.known.insert(inode, (real_ns, at));
                at
            }
        }
    }

    /// Gives all inodes of a tree that was just read their times.
    pub fn note(&mut self, tree: &mut Tree) {
        for (inode, node) in &mut tree.nodes {
            node.changed = Changed(self.of(*inode, node.changed.0));
        }
    }
}
