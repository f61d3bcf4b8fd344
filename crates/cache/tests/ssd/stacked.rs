//! A pool in memory in front of one on an SSD, which is in front of the disk.

use std::sync::Arc;

use forebay::{
    Behind, ErrorKind, FaultyStore, MemoryStore, Pool, PoolOptions, RuntimeOptions, Volume,
    WriteRun,
};

use crate::rig::*;

const DISK_BYTES: u64 = (4 << 20) + 100;

fn quiet() -> RuntimeOptions {
    runtime().background(false)
}

/// Two pools and the disk behind both.
struct Stack {
    place: Place,
    disk: Arc<MemoryStore>,
    faults: Arc<FaultyStore>,
}

/// Both opened, the disk attached to both.
struct Opened {
    front: Pool,
    behind: Arc<Pool>,
    lower: Volume,
    volume: Volume,
}

impl Opened {
    fn close(self) {
        drop(self.volume);
        self.front.close().expect("the front first");
        drop(self.lower);
        let behind = Arc::into_inner(self.behind).expect("nobody has it");
        behind.close().expect("then what is behind");
    }
}

impl Stack {
    fn find(test: &str) -> Option<(Stack, Opened)> {
        let place = Place::find(test)?;
        let disk = Arc::new(MemoryStore::new(DISK_BYTES).marked());
        let faults = Arc::new(FaultyStore::new(disk.clone()));
        let stack = Stack {
            place,
            disk,
            faults,
        };
        let front = PoolOptions::new(stack.place.file("front"), 8 << 20).runtime(quiet());
        let front = Pool::create(&front).expect("create");
        let behind = Pool::create(&stack.place.options().runtime(quiet())).expect("create");
        let opened = stack.stack(front, behind);
        Some((stack, opened))
    }

    fn pools(&self) -> (Pool, Pool) {
        let behind = Pool::open_with(&[self.place.path()], quiet()).expect("open");
        let front = Pool::open_with(&[self.place.file("front")], quiet()).expect("open");
        (front, behind)
    }

    fn stack(&self, front: Pool, behind: Pool) -> Opened {
        let behind = Arc::new(behind);
        let attached = behind.attach_behind(backing(&self.faults));
        let attached = attached.expect("behind");
        let volume = front.attach(attached.backing).expect("in front");
        Opened {
            front,
            behind,
            lower: attached.volume,
            volume,
        }
    }

    fn open(&self) -> Opened {
        let (front, behind) = self.pools();
        self.stack(front, behind)
    }
}

fn is_stale<T>(attached: forebay::Result<T>, says: &str) {
    let error = attached.err().expect("it is refused");
    assert!(matches!(error.kind(), ErrorKind::Stale { .. }), "{error}");
    assert!(error.to_string().contains(says), "{error}");
}

#[test]
fn what_leaves_the_pool_in_front_is_durable_in_the_one_behind() {
    let Some((stack, opened)) = Stack::find("what_leaves_the_pool_in_front") else {
        return;
    };
    for block in 0..600 {
        opened.volume.write(block, &bytes(block)).expect("write");
    }
    assert_eq!(opened.lower.usage().dirty_blocks, 0, "nothing left yet");
    opened.volume.flush().expect("to the pool behind");
    assert_eq!(opened.volume.usage().dirty_blocks, 0);
    assert_eq!(opened.lower.usage().dirty_blocks, 600);
    assert!(stack.disk.snapshot().iter().all(|byte| *byte == 0));
    // The volume's last block reaches beyond the disk's end.
    let last = opened.volume.blocks() - 1;
    opened.volume.write(last, &bytes(7)).expect("write");
    opened.volume.flush().expect("to the pool behind");
    for block in 600..610 {
        opened.volume.write(block, &bytes(block)).expect("write");
    }
    opened.volume.discard(3..5).expect("discard");
    // As a kill leaves both.
    drop(opened);

    let opened = stack.open();
    let holds = |block| match block {
        3 | 4 => vec![0; BLOCK],
        _ => bytes(block),
    };
    for block in 0..610 {
        assert_eq!(read(&opened.volume, block), holds(block), "block {block}");
    }
    assert_eq!(read(&opened.volume, last)[..100], bytes(7)[..100]);
    opened.volume.flush().expect("to the pool behind");
    opened.lower.flush().expect("to the disk");
    let snapshot = stack.disk.snapshot();
    for block in 0..610 {
        let found = &snapshot[block as usize * BLOCK..][..BLOCK];
        assert!(found == holds(block), "block {block}");
    }
    assert_eq!(snapshot[last as usize * BLOCK..], bytes(7)[..100]);
    opened.close();
}

#[test]
fn a_pool_behind_is_not_attached_alone_while_the_one_in_front_has_newer_data() {
    let Some((stack, opened)) = Stack::find("a_pool_behind_is_not_attached_alone") else {
        return;
    };
    opened.volume.write(1, &bytes(1)).expect("write");
    opened.close();
    let (front, behind) = stack.pools();
    is_stale(behind.attach(backing(&stack.disk)), "in front of this one");
    is_stale(front.attach(backing(&stack.disk)), "left out");
    drop((front, behind));

    // Written back, the pool behind has everything, and may go on alone.
    let opened = stack.open();
    assert_eq!(read(&opened.volume, 1), bytes(1));
    opened.volume.flush().expect("flush");
    opened.close();
    let (front, behind) = stack.pools();
    let volume = behind.attach(backing(&stack.disk)).expect("whole");
    assert_eq!(read(&volume, 1), bytes(1));
    volume.write(1, &bytes(2)).expect("write");
    drop(volume);
    behind.close().expect("close");
    drop(front);

    // What the pool in front kept is older now.
    let (front, behind) = stack.pools();
    let behind = Arc::new(behind);
    let Behind { backing, .. } = behind.attach_behind(backing(&stack.disk)).expect("behind");
    is_stale(front.attach(backing.clone()), "another pool");
    let volume = front.attach_stale(backing).expect("without what it kept");
    assert_eq!(read(&volume, 1), bytes(2));
}

#[test]
fn a_pool_in_front_that_is_lost_is_noticed_and_given_up_on_the_callers_word() {
    let Some((stack, opened)) = Stack::find("a_pool_in_front_that_is_lost") else {
        return;
    };
    opened.volume.write(1, &bytes(1)).expect("write");
    opened.volume.flush().expect("flush");
    opened.volume.write(1, &bytes(2)).expect("write");
    drop(opened);
    let path = stack.place.file("front");
    let options = PoolOptions::new(&path, 8 << 20).runtime(quiet());
    let anew = Pool::create(&options.force(true)).expect("made anew");
    let behind = Pool::open_with(&[stack.place.path()], quiet()).expect("open");
    let behind = Arc::new(behind);
    let attached = behind.attach_behind(backing(&stack.disk)).expect("behind");
    is_stale(anew.attach(attached.backing.clone()), "newest data");
    drop(attached);
    drop((anew, behind));
    let behind = Pool::open_with(&[stack.place.path()], quiet()).expect("open");
    let volume = behind.attach_stale(backing(&stack.disk));
    let volume = volume.expect("without the pool in front");
    assert_eq!(read(&volume, 1), bytes(1), "what had left it");
}

/// The pool behind is gone with what it had: what the one in front keeps clean of it would vanish one day.
#[test]
fn what_the_pool_behind_lost_the_one_in_front_kept() {
    let Some((stack, opened)) = Stack::find("what_the_pool_behind_lost") else {
        return;
    };
    opened.volume.write(1, &bytes(1)).expect("write");
    opened.volume.flush().expect("to the pool behind");
    // That it is clean is durable.
    opened.front.checkpoint().expect("checkpoint");
    opened.volume.write(2, &bytes(2)).expect("write");
    drop(opened);
    let anew = stack.place.options().runtime(quiet()).force(true);
    let behind = Arc::new(Pool::create(&anew).expect("made anew"));
    let front = Pool::open_with(&[stack.place.file("front")], quiet()).expect("open");
    is_stale(behind.attach_behind(backing(&stack.disk)), "newest data");
    let attached = behind.attach_behind_stale(backing(&stack.disk));
    let attached = attached.expect("without what it had");
    is_stale(front.attach(attached.backing.clone()), "another pool");
    let volume = front.attach_stale(attached.backing).expect("as well");
    assert!(read(&volume, 1) == [0; BLOCK], "its only copy is gone");
    assert!(read(&volume, 2) == bytes(2), "dirty blocks stay");
}

/// A ring that stays full is waited for once a round, not for each run.
#[test]
fn each_run_of_a_round_waited_for_room() {
    let Some((stack, opened)) = Stack::find("each_run_of_a_round") else {
        return;
    };
    drop(opened);
    let short = quiet().throttle_deadline(std::time::Duration::from_millis(100));
    let behind = Pool::open_with(&[stack.place.path()], short).expect("open");
    let behind = Arc::new(behind);
    let large = Arc::new(MemoryStore::new(32 << 20).marked());
    let faults = Arc::new(FaultyStore::new(large));
    let attached = behind.attach_behind(backing(&faults)).expect("behind");
    faults.fail_writes(u64::MAX);
    let mut full = 0;
    while attached.volume.write(full, &bytes(full)).is_ok() {
        full += 1;
    }
    let block = bytes(1);
    let runs: Vec<_> = (0..200)
        .map(|run| WriteRun {
            offset: run * 2 * BLOCK as u64,
            bytes: &block,
        })
        .collect();
    let before = behind.stats().totals.throttled;
    let written = attached.backing.write_runs(&runs);
    assert!(written.iter().all(Result::is_err));
    let waits = behind.stats().totals.throttled - before;
    assert_eq!(waits, 1);
    faults.fail_writes(0);
    let written = attached.backing.write_runs(&runs);
    assert!(written.iter().all(Result::is_ok), "{written:?}");
}

#[test]
fn a_disk_that_fails_costs_nothing_and_the_stack_grows_and_is_taken_apart() {
    let Some((stack, opened)) = Stack::find("a_disk_that_fails") else {
        return;
    };
    stack.faults.fail_writes(u64::MAX);
    for block in 0..100 {
        opened.volume.write(block, &bytes(block)).expect("write");
    }
    opened.volume.flush().expect("the pool behind takes it");
    opened.lower.flush().expect_err("the disk does not");
    stack.faults.fail_writes(0);

    let size_bytes = DISK_BYTES + (1 << 20);
    stack.disk.resize(size_bytes);
    let grown = opened.front.grow_volume(&opened.volume).expect("grow");
    assert_eq!((grown, opened.lower.size_bytes()), (size_bytes, size_bytes));
    let last = opened.volume.blocks() - 2;
    opened.volume.write(last, &bytes(9)).expect("write");

    opened.front.detach(opened.volume.clone()).expect("first");
    assert_eq!(read(&opened.lower, last), bytes(9));
    opened.behind.detach(opened.lower.clone()).expect("then");
    let snapshot = stack.disk.snapshot();
    assert_eq!(snapshot[last as usize * BLOCK..][..BLOCK], bytes(9));
    for block in 0..100 {
        let found = &snapshot[block as usize * BLOCK..][..BLOCK];
        assert!(found == bytes(block), "block {block}");
    }
    assert!(opened.front.volumes().is_empty() && opened.behind.volumes().is_empty());
    // Nothing is in front any more.
    let attached = opened.behind.attach(backing(&stack.disk));
    attached.expect("a disk as any other");
}

#[test]
fn zeroes_of_any_range_are_written_through() {
    let Some((stack, opened)) = Stack::find("zeroes_of_any_range") else {
        return;
    };
    let ones = vec![1; BLOCK];
    for block in 0..16 {
        opened.lower.write(block, &ones).expect("write");
    }
    let last = opened.lower.blocks() - 1;
    opened.lower.write(last, &ones).expect("write");
    let (front, behind) = (opened.front, opened.behind);
    drop((opened.volume, opened.lower, front, behind));
    let behind = Pool::open_with(&[stack.place.path()], quiet()).expect("open");
    let behind = Arc::new(behind);
    let attached = behind.attach_behind(backing(&stack.disk)).expect("behind");
    let store = attached.backing;
    let mut model = vec![0; DISK_BYTES as usize];
    store.read_at(0, &mut model).expect("read");
    for (offset, len) in [
        (10, 20),
        (4000, 200),
        (2 * 4096, 4096),
        (3 * 4096 + 1, 2 * 4096),
        (DISK_BYTES - 50, 50),
        (DISK_BYTES - 5000, 9000),
        (DISK_BYTES + 5, 10),
    ] {
        store.zero_range(offset, len).expect("zero");
        let end = (offset + len).min(DISK_BYTES) as usize;
        if let Some(range) = model.get_mut(offset as usize..end) {
            range.fill(0);
        }
        let mut found = vec![9; DISK_BYTES as usize + 10];
        store.read_at(0, &mut found).expect("read");
        assert!(found[..DISK_BYTES as usize] == model, "{offset}, {len}");
        assert!(found[DISK_BYTES as usize..].iter().all(|byte| *byte == 0));
    }
}
