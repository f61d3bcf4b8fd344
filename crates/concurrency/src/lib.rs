//! The cache's lock-free files themselves, and the queue of the laboratory's AutoBahn, run under loom: `make loom`.
//!
//! Each file is included by its path, so what is explored is what ships; only `sync` differs, which hands
//! out loom's atomics and can weaken them. `models` holds the models and `mutants` the weakenings that must be caught.
//! Without `--cfg loom` this crate holds nothing but the stress test that `make tsan` runs.

#[cfg(loom)]
#[cfg_attr(not(test), allow(dead_code, reason = "the models use it"))]
mod sync;

#[cfg(loom)]
mod media {
    pub(crate) mod layout {
        //! The one constant that the lanes need of the media format.
        pub(crate) const LINE_BYTES: u64 = 64;
    }
    pub(crate) mod geometry {
        //! What the free slots ask of a pool with rows, of which there is none here.
        pub(crate) struct Geometry {
            pub(crate) lanes: u32,
            pub(crate) never: std::convert::Infallible,
        }

        impl Geometry {
            pub(crate) fn slots(&self) -> u32 {
                match self.never {}
            }
            pub(crate) fn pairs(&self) -> u32 {
                match self.never {}
            }
        }
    }
}

#[cfg(loom)]
#[allow(dead_code, reason = "the models use a part of it")]
#[path = "../../cache/src/log/lanes.rs"]
mod lanes;

#[cfg(loom)]
#[allow(dead_code, reason = "the models use a part of it")]
#[path = "../../lab/src/autobahn/queue.rs"]
mod queue;

#[cfg(loom)]
#[allow(dead_code, reason = "the models use a part of it")]
#[path = "../../cache/src/table"]
mod table {
    mod groups {
        //! Of a pool with rows, of which there is none here: they are behind a lock.

        use crate::media::geometry::Geometry;

        pub(super) enum Groups {}

        impl Groups {
            pub(super) fn new(geometry: &Geometry, _: impl Fn(u32) -> bool) -> Groups {
                match geometry.never {}
            }
            pub(super) fn take_pairs(&self, _: u32, _: impl FnMut(u32)) {
                match *self {}
            }
            pub(super) fn give_pair(&self, _: u32) {
                match *self {}
            }
            pub(super) fn take_row(&self) -> Option<u32> {
                match *self {}
            }
            pub(super) fn give_column(&self, _: u32) {
                match *self {}
            }
            pub(super) fn first_held_of(&self, _: u32) -> Option<u32> {
                match *self {}
            }
            pub(super) fn free_pairs(&self) -> u64 {
                match *self {}
            }
            pub(super) fn dram_bytes(&self) -> u64 {
                match *self {}
            }
        }
    }
    pub(crate) mod index;
    mod retired;
    pub(crate) mod slots;
    pub(crate) mod word_set_queue;
}
#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, loom))]
mod mutants;
