//! Waits are skipped where no thread of the process has anything to compute: a test with a process of its own.

use std::sync::Mutex;
use std::time::Duration;

use forebay_lab::virtual_time::VirtualClock;

const SECOND: Duration = Duration::from_secs(1);

/// Eight threads wait for a second each, holding `lock` if there is one; what time it is afterwards.
fn eight_waits(lock: Option<&Mutex<()>>) -> Duration {
    let (clock, _keeper) = VirtualClock::start();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let _held = lock.map(|lock| lock.lock().expect("unpoisoned"));
                clock.wait_until(clock.now() + SECOND);
            });
        }
    });
    clock.now()
}

#[test]
fn waits_beside_each_other_are_skipped_once_and_behind_a_lock_one_by_one() {
    let beside = eight_waits(None);
    assert!(beside >= SECOND && beside < 2 * SECOND, "{beside:?}");
    let behind = eight_waits(Some(&Mutex::new(())));
    assert!(behind >= 8 * SECOND && behind < 9 * SECOND, "{behind:?}");
}
