//! The cache's lock-free files themselves, run under loom: `make loom`.
//!
//! Each file is included by its path, so what is explored is what ships; only [`sync`] differs, which hands
//! out loom's atomics and can weaken them. `models` holds the models and `mutants` the weakenings that must be caught.
//! Without `--cfg loom` this crate holds nothing but the stress test that `make tsan` runs.

#[cfg(loom)]
#[cfg_attr(not(test), allow(dead_code, reason = "the models use it"))]
mod sync;

#[cfg(loom)]
mod layout {
    //! The one constant that the lanes need of the media format.
    pub(crate) const LINE_BYTES: u64 = 64;
}

#[cfg(loom)]
#[allow(dead_code, reason = "the models use a part of it")]
#[path = "../../cache/src/index.rs"]
mod index;
#[cfg(loom)]
#[allow(dead_code, reason = "the models use a part of it")]
#[path = "../../cache/src/lanes.rs"]
mod lanes;
#[cfg(loom)]
#[allow(dead_code, reason = "the models use a part of it")]
#[path = "../../cache/src/queue.rs"]
mod queue;
#[cfg(loom)]
#[allow(dead_code, reason = "the models use a part of it")]
#[path = "../../cache/src/slots.rs"]
mod slots;
#[cfg(loom)]
#[allow(dead_code, reason = "the models use a part of it")]
#[path = "../../cache/src/word_set_queue.rs"]
mod word_set_queue;

#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, loom))]
mod mutants;
