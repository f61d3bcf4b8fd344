//! What a round does with the mutex while it copies blocks out. A load from a shadow region lets others go on before it, and
//! a wait for a mutex says so: here both are calls on the thread of the round.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use forebay_pmem::{Pause, set_yield_hook};

use super::{DESIGNS, rig};
use crate::Engine;
use crate::engines::{EngineName, JournalMode};
use crate::testing::Rig;

/// Room for what the tests write, without a round of its own, and writes in place.
fn roomy(name: EngineName) -> Rig {
    let mut rig = rig(name, (0, 1000, 2));
    rig.region_bytes = 32 << 10;
    rig.options.set_blocks = 64;
    rig.options.journal_mode = JournalMode::None;
    rig.options.journal_blocks = Some(0);
    rig
}

/// Runs `change` before each block that `act` copies out, and returns how many that were. Nothing may wait.
fn at_each_copy(act: impl FnOnce(), change: impl Fn(u32) + 'static) -> u32 {
    let copies = Rc::new(Cell::new(0));
    let (counted, is_within) = (Rc::clone(&copies), Cell::new(false));
    set_yield_hook(Some(Box::new(move |pause| {
        assert_ne!(pause, Pause::Wait, "a client waits for a copy");
        if !is_within.replace(true) {
            change(counted.get());
            counted.set(counted.get() + 1);
            is_within.set(false);
        }
    })));
    act();
    set_yield_hook(None);
    copies.get()
}

#[test]
fn clients_write_while_blocks_are_copied_out() {
    for name in DESIGNS {
        let rig = roomy(name);
        let engine: Arc<dyn Engine> = rig.create(&rig.disk()).1.into();
        for block in 0..5 {
            engine.write(block, &rig.bytes_of(block)).expect("write");
        }
        let (writer, bytes) = (Arc::clone(&engine), rig.bytes_of(77));
        let turn = || engine.background_turn().expect("a turn");
        let copies = at_each_copy(turn, move |copy| {
            if copy < 5 {
                writer.write(20 + u64::from(copy), &bytes).expect("write");
            }
        });
        // The next round has what was written meanwhile.
        assert_eq!(copies, 10, "{name}");
    }
}

#[test]
fn a_block_that_is_written_under_its_copy_goes_to_the_disk_whole() {
    for name in DESIGNS {
        let rig = roomy(name);
        let (disk, mut truth) = (rig.disk(), rig.first_content());
        let engine: Arc<dyn Engine> = rig.create(&disk).1.into();
        engine.write(3, &rig.bytes_of(7)).expect("write");
        let slots = engine.stats().slots;
        let writer = Arc::clone(&engine);
        let (newer, other) = (rig.bytes_of(77), rig.bytes_of(8));
        let flush = || engine.flush().expect("flush");
        let copies = at_each_copy(flush, move |copy| {
            if copy > 0 {
                return;
            }
            writer.write(3, &newer).expect("write");
            // The room of the older version is another block's. A UBJ keeps it until the round ends.
            for _ in 0..if name == EngineName::Ubj { 1 } else { slots } {
                writer.write(5, &other).expect("write");
            }
        });
        assert!(copies > 0, "{name}");
        // What was committed before the flush is there, or what came after it.
        let on_disk = &disk.bytes()[3 * truth[3].len()..][..truth[3].len()];
        let legal = [rig.bytes_of(7), rig.bytes_of(77)];
        assert!(legal.iter().any(|bytes| bytes == on_disk), "{name}");
        (truth[3], truth[5]) = (rig.bytes_of(77), rig.bytes_of(8));
        assert!(rig.content(&*engine) == truth, "{name}");
        engine.flush().expect("flush");
        assert!(rig.disk_holds(&disk.bytes(), &truth), "{name}");
    }
}
