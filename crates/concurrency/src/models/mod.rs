//! The models. Each is a function that loom runs in every interleaving, and that panics where something is wrong.

mod commit;
mod lookup;
mod pipeline;
mod queue;

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The order of two threads, and two chances to yield.
const VARIANTS: u32 = 8;

/// A model and how many forced thread switches of an interleaving are explored.
#[derive(Clone, Copy)]
pub(crate) struct Model {
    /// Its name.
    pub(crate) name: &'static str,
    /// Runs it once.
    pub(crate) run: fn(),
    /// More switches than this are not needed for any mutant, and cost a lot.
    pub(crate) preemptions_max: Option<usize>,
}

/// All of them.
pub(crate) const ALL: &[Model] = &[
    Model {
        name: "groups_lose_nothing",
        run: pipeline::groups_lose_nothing,
        preemptions_max: None,
    },
    Model {
        name: "slots_go_to_one",
        run: pipeline::slots_go_to_one,
        preemptions_max: Some(2),
    },
    Model {
        name: "free_entries_go_to_one",
        run: pipeline::free_entries_go_to_one,
        preemptions_max: Some(3),
    },
    Model {
        name: "lookup_finds_its_key",
        run: lookup::lookup_finds_its_key,
        preemptions_max: Some(2),
    },
    Model {
        name: "copy_notices_reuse",
        run: lookup::copy_notices_reuse,
        preemptions_max: Some(3),
    },
    Model {
        name: "copy_is_never_torn",
        run: lookup::copy_is_never_torn,
        preemptions_max: Some(2),
    },
    Model {
        name: "read_atomic_is_whole",
        run: commit::read_atomic_is_whole,
        preemptions_max: Some(2),
    },
    Model {
        name: "clean_mark_sees_writer",
        run: commit::clean_mark_sees_writer,
        preemptions_max: Some(3),
    },
    Model {
        name: "checkpoint_waits",
        run: commit::checkpoint_waits,
        preemptions_max: Some(2),
    },
    Model {
        name: "lane_goes_round",
        run: commit::lane_goes_round,
        preemptions_max: Some(3),
    },
    Model {
        name: "watermark_waits",
        run: commit::watermark_waits,
        preemptions_max: Some(3),
    },
    Model {
        name: "queue_waits",
        run: queue::queue_waits,
        preemptions_max: Some(3),
    },
    Model {
        name: "queue_goes_round",
        run: queue::queue_goes_round,
        preemptions_max: Some(3),
    },
];

thread_local! {
    static VARIANT: Cell<u32> = const { Cell::new(0) };
}

/// Runs both threads beside each other, started in either order.
///
/// Loom leaves out interleavings in which a thread that is started late runs ahead of an earlier one. So every model is
/// explored with both orders, and with and without each [`turn`].
pub(crate) fn beside<A: 'static, B: 'static>(
    one: impl FnOnce() -> A + 'static,
    other: impl FnOnce() -> B + 'static,
) -> (A, B) {
    if !variant(0) {
        let one = loom::thread::spawn(one);
        let other = loom::thread::spawn(other);
        return (one.join().unwrap(), other.join().unwrap());
    }
    let other = loom::thread::spawn(other);
    let one = loom::thread::spawn(one);
    (one.join().unwrap(), other.join().unwrap())
}

/// Whether this bit of the variant is set.
pub(crate) fn variant(bit: u32) -> bool {
    VARIANT.get() & 1 << bit != 0
}

/// A thread's n-th chance, from 1, to let the others go first. After it loom no longer shows the thread what it saw before.
pub(crate) fn turn(number: u32) {
    if variant(number) {
        loom::thread::yield_now();
    }
}

/// Explores a model; the panic's message if some interleaving fails.
pub(crate) fn explore(model: Model) -> Result<(), String> {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = model.preemptions_max;
    builder.max_branches = 20_000;
    let check = |variant| {
        VARIANT.set(variant);
        builder.check(model.run);
    };
    catch_unwind(AssertUnwindSafe(|| (0..VARIANTS).for_each(check))).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string()))
            .unwrap_or_default()
    })
}

#[test]
fn all_models_hold() {
    for model in ALL {
        let started = std::time::Instant::now();
        explore(*model).unwrap_or_else(|message| panic!("{}: {message}", model.name));
        println!(
            "loom model {}: holds ({} ms)",
            model.name,
            started.elapsed().as_millis()
        );
    }
    assert!(
        commit::PLAIN_READ_SAW_HALF.load(std::sync::atomic::Ordering::Relaxed),
        "a plain read may see half a transaction"
    );
}
