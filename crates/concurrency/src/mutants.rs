//! Each weakening is caught by a model, or the models would prove nothing.

use crate::models::{ALL, Model, explore};
use crate::sync::{Mutant, set_mutant};

/// The mutant, and the models of which at least the first must fail.
const TABLE: &[(Mutant, &str)] = &[
    (Mutant::ReleaseStoresRelaxed, "checkpoint_waits"),
    (Mutant::ReleaseStoresRelaxed, "clean_mark_sees_writer"),
    (Mutant::ReleaseStoresRelaxed, "copy_is_never_torn"),
    (Mutant::AcquireLoadsRelaxed, "checkpoint_waits"),
    (Mutant::AcquireLoadsRelaxed, "copy_is_never_torn"),
    (Mutant::ReadModifyWritesRelaxed, "groups_lose_nothing"),
    (Mutant::ReadModifyWritesRelaxed, "slots_go_to_one"),
    (Mutant::ReadModifyWritesRelaxed, "clean_mark_sees_writer"),
    (Mutant::ReadModifyWritesRelaxed, "checkpoint_waits"),
    (Mutant::ReleaseFencesDropped, "copy_notices_reuse"),
    (Mutant::ReleaseFencesDropped, "copy_is_never_torn"),
    (Mutant::AcquireFencesDropped, "copy_notices_reuse"),
    (Mutant::AcquireFencesDropped, "copy_is_never_torn"),
    (Mutant::ReadModifyWritesRelaxed, "free_entries_go_to_one"),
    (Mutant::ChangingMarkMissing, "copy_is_never_torn"),
    (Mutant::ChangingMarkMissing, "copy_notices_reuse"),
    (Mutant::VersionNotBumped, "copy_notices_reuse"),
    (Mutant::VersionNotBumped, "lookup_finds_its_key"),
    (Mutant::SlotReusedBeforeUnlink, "copy_notices_reuse"),
    (Mutant::StripesPublishedOneByOne, "read_atomic_is_whole"),
    (Mutant::AtomicReadNotRechecked, "read_atomic_is_whole"),
    (Mutant::ReleaseStoresRelaxed, "lane_goes_round"),
    (Mutant::AcquireLoadsRelaxed, "lane_goes_round"),
    (Mutant::ReadModifyWritesRelaxed, "lane_goes_round"),
    (Mutant::AcquireLoadsRelaxed, "watermark_waits"),
    (Mutant::ReadModifyWritesRelaxed, "watermark_waits"),
    (Mutant::RedirtyIgnored, "clean_mark_sees_writer"),
    (Mutant::ReleaseStoresRelaxed, "queue_waits"),
    (Mutant::AcquireLoadsRelaxed, "queue_waits"),
];

#[test]
fn every_mutant_is_caught() {
    // Caught panics are the point here.
    std::panic::set_hook(Box::new(|_| {}));
    let mut missed = Vec::new();
    for (mutant, name) in TABLE {
        let model: &Model = ALL
            .iter()
            .find(|model| model.name == *name)
            .expect("the table names models");
        set_mutant(Some(*mutant));
        let outcome = explore(*model);
        set_mutant(None);
        match outcome {
            // A model that never ends shows nothing: that is how loom treats a spin on an old value.
            Err(message) if !message.contains("maximum number of branches") => println!(
                "loom mutant {mutant:?} in {name}: caught ({})",
                message.lines().next().unwrap_or("")
            ),
            other => missed.push(format!("{mutant:?} in {name} ({other:?})")),
        }
    }
    assert!(missed.is_empty(), "not caught: {missed:?}");
}
