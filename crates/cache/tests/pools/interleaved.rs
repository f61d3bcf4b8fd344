//! Two threads at one precise moment: what one does in the middle of the other's commit.

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::fixtures::{BLOCK, Plan, Rig, block, get, open, put, quiet, tiny};
use forebay::Backing;
use forebay_pmem::shadow::{ShadowEventKind, ShadowHook};

/// Where the two threads wait for the same lock, the one in the middle of its commit goes on.
const PATIENCE: Duration = Duration::from_millis(100);

/// Calls `meanwhile` on this thread when the other one, which runs `work`, streams its first block.
fn while_streaming(
    rig: &Rig,
    slot_area: u64,
    work: impl FnOnce() + Send,
    meanwhile: impl FnOnce(),
) {
    let (started, has_started) = channel();
    let (finish, may_finish) = channel::<()>();
    let gate = Mutex::new(Some((started, may_finish)));
    let hook: ShadowHook = Arc::new(move |event| {
        if event.kind == ShadowEventKind::Stream && event.offset >= slot_area {
            let gate = gate.lock().expect("no panic before").take();
            if let Some((started, may_finish)) = gate {
                started.send(()).expect("awaited");
                let _ = may_finish.recv_timeout(PATIENCE);
            }
        }
    });
    rig.shadows[0].set_hook(Some(hook));
    std::thread::scope(|scope| {
        scope.spawn(work);
        has_started.recv().expect("it streams");
        meanwhile();
        drop(finish);
    });
    rig.shadows[0].set_hook(None);
}

/// A commit that drew its sequence before it took an entry could take one that an eviction with a
/// later sequence freed meanwhile: replayed in order, the tombstone would undo the commit.
#[test]
fn an_entry_freed_by_a_later_record_is_not_taken_by_an_earlier_one() {
    for number in 1000..1008 {
        let rig = Rig::with_backing(&tiny(), 1, 2000 * BLOCK as u64);
        let volume = rig.attach();
        let plan = Plan::of(&rig.images()[0]);
        for old in 0..plan.entries as u64 {
            if old == 0 {
                put(&volume, old, &block(old, 1));
                continue;
            }
            let mut transaction = volume.begin();
            transaction.discard(old..old + 1).expect("discard");
            transaction.commit().expect("commit");
        }
        volume.flush().expect("flush");
        rig.pool.checkpoint().expect("checkpoint");
        while_streaming(
            &rig,
            plan.slot_area as u64,
            || put(&volume, number, &block(number, 2)),
            || assert!(rig.pool.reclaim_once(1).expect("reclaim") <= 1),
        );
        let pool = open(&rig.images(), quiet()).expect("open");
        let again = pool.attach(Backing::from_store(rig.store.clone()));
        let found = get(&again.expect("attach"), number).expect("read");
        assert!(found == block(number, 2), "block {number} was acknowledged");
    }
}
