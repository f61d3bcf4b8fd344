//! Many threads at once: groups form, every thread gets its own answer, and nothing of it is lost.

use crate::fixtures::*;
use forebay_log::{LogError, PAGE_BYTES, Transaction, open};

const THREADS: u64 = 8;
const BLOCKS: u64 = 4;
const ROUNDS: u64 = 200;

fn commit(log: &forebay_log::Log, make: impl Fn() -> Transaction) {
    loop {
        match log.commit(make()) {
            Ok(()) => return,
            Err(LogError::NoRoom { .. }) => drop(log.recycle().unwrap()),
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn threads_share_groups_and_lose_nothing() {
    let (device, backing, log) = small();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let log = &log;
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let block = thread * BLOCKS + round % BLOCKS;
                    commit(log, || one(block, thread << 32 | round));
                    assert_eq!(read(log, block), bytes(thread << 32 | round));
                    // A part of a block that all of them write.
                    commit(log, || {
                        let mut transaction = Transaction::new();
                        let at = thread as usize * 8;
                        let word = round.to_le_bytes();
                        transaction.write_part(1, 1000, at, &word).unwrap();
                        transaction
                    });
                }
            });
        }
    });
    let tallies = log.tallies();
    assert!(tallies.groups <= tallies.commits);
    log.close().unwrap();
    let log = open(device, options()).unwrap();
    log.attach(1, backing);
    for thread in 0..THREADS {
        for block in 0..BLOCKS {
            let round = ROUNDS - BLOCKS + block;
            assert_eq!(
                read(&log, thread * BLOCKS + block),
                bytes(thread << 32 | round)
            );
        }
    }
    let shared = read(&log, 1000);
    for word in shared[..THREADS as usize * 8].chunks(8) {
        assert_eq!(word, (ROUNDS - 1).to_le_bytes());
    }
    assert!(
        shared[THREADS as usize * 8..PAGE_BYTES]
            .iter()
            .all(|byte| *byte == 0)
    );
}
