//! Random work on a ring that laps, compared with a model: through ends with and without a close, and with backings that fail
//! now and then.

use std::sync::Arc;

use forebay::{FaultyStore, MemoryStore, Pool, Volume};

use crate::rig::*;

/// More than the pool holds.
const BLOCKS: u64 = 4000;
const STEPS: usize = 6000;

struct Model {
    blocks: Vec<Vec<u8>>,
}

impl Model {
    fn check(&self, volume: &Volume, first: u64, count: u64) {
        let mut out = vec![0; count as usize * BLOCK];
        volume.read(first, &mut out).expect("read");
        for (block, bytes) in (first..).zip(out.chunks_exact(BLOCK)) {
            assert!(bytes == self.blocks[block as usize], "block {block}");
        }
    }
}

fn act(rng: &mut fastrand::Rng, volume: &Volume, model: &mut Model) {
    let block = rng.u64(..BLOCKS - 20);
    match rng.u8(..10) {
        0 => {
            let count = rng.u64(1..20);
            volume.discard(block..block + count).expect("discard");
            for number in block..block + count {
                model.blocks[number as usize].fill(0);
            }
        }
        1..=3 => {
            let (offset, len) = (rng.usize(..5000), rng.usize(1..6000));
            let byte = rng.u8(..);
            let mut transaction = volume.begin();
            let at = block * 4096 + offset as u64;
            transaction.write_at(at, &vec![byte; len]).expect("a part");
            transaction.commit().expect("commit");
            for at in at..at + len as u64 {
                model.blocks[(at / 4096) as usize][(at % 4096) as usize] = byte;
            }
        }
        4 => model.check(volume, block, rng.u64(1..20)),
        _ => {
            let count = rng.u64(1..16);
            let data: Vec<u8> = (0..count).flat_map(|_| bytes(rng.u64(..))).collect();
            volume.write(block, &data).expect("write");
            for (number, bytes) in (block..).zip(data.chunks_exact(BLOCK)) {
                model.blocks[number as usize] = bytes.to_vec();
            }
        }
    }
}

fn reopened(
    rng: &mut fastrand::Rng,
    place: &Place,
    store: &Arc<FaultyStore>,
    (pool, volume): (Pool, Volume),
) -> (Pool, Volume) {
    match rng.bool() {
        true => {
            pool.close().expect("close");
            drop(volume);
        }
        false => drop((volume, pool)),
    }
    let pool = place.open();
    let volume = pool.attach(backing(store)).expect("attach");
    (pool, volume)
}

#[test]
fn random_work_is_what_a_model_says() {
    let Some(place) = Place::find("random_work_is_what_a_model_says") else {
        return;
    };
    let mut rng = fastrand::Rng::with_seed(21);
    let memory = Arc::new(MemoryStore::new(BLOCKS * 4096).marked());
    let store = Arc::new(FaultyStore::new(memory.clone()));
    let mut model = Model {
        blocks: vec![vec![0; BLOCK]; BLOCKS as usize],
    };
    let pool = place.create();
    let volume = pool.attach(backing(&store)).expect("attach");
    let mut open = (pool, volume);
    for step in 0..STEPS {
        act(&mut rng, &open.1, &mut model);
        match rng.u32(..1500) {
            0 => open = reopened(&mut rng, &place, &store, open),
            1 => store.fail_writes(rng.u64(1..4)),
            2 => store.fail_syncs(1),
            3..=5 => drop(open.1.flush()),
            _ => {}
        }
        if step % 1000 == 0 {
            for first in (0..BLOCKS).step_by(100) {
                model.check(&open.1, first, 100);
            }
        }
    }
    let ssd = open.0.stats().ssd.expect("it is on an SSD");
    eprintln!("{ssd:?}");
    open.1
        .flush()
        .or_else(|_| open.1.flush())
        .expect("the backing takes it");
    let snapshot = memory.snapshot();
    for (block, bytes) in model.blocks.iter().enumerate() {
        assert!(
            &snapshot[block * BLOCK..][..BLOCK] == bytes,
            "block {block} of the backing"
        );
    }
    let (good, bad) = open.0.check(|_, _| {});
    assert!(good > 0 && bad.is_empty(), "{bad:?}");
    let (pool, volume) = open;
    pool.detach(volume).expect("detach");
    pool.close().expect("close");
}
