//! Appends with a word elsewhere: what they cost, what they leave, and that a power cut takes nothing
//! that was acknowledged.

use std::sync::Arc;

use forebay::{Backing, Counters, MemoryStore, Pool, PoolOptions, Region, RuntimeOptions, Volume};
use forebay_pmem::shadow::{Shadow, ShadowModel};

const BLOCK: usize = 4096;
const WORD_BLOCK: u64 = 9;

fn options() -> PoolOptions {
    PoolOptions::default().runtime(
        RuntimeOptions::default()
            .background(false)
            .fill_on_read(false),
    )
}

struct World {
    shadow: Arc<Shadow>,
    store: Arc<MemoryStore>,
    pool: Pool,
    volume: Volume,
}

impl World {
    fn new() -> World {
        let shadow = Arc::new(Shadow::new(2 << 20, ShadowModel::Lines));
        let region = Region::on_shadow(shadow.clone());
        let pool = Pool::create_on(vec![region], &options()).expect("create");
        let store = Arc::new(MemoryStore::new(64 * BLOCK as u64));
        let volume = pool
            .attach(Backing::from_store(store.clone()))
            .expect("attach");
        let mut transaction = volume.begin();
        transaction
            .write_at(WORD_BLOCK * BLOCK as u64, &[0; 8])
            .expect("a block");
        transaction.commit().expect("commit");
        World {
            shadow,
            store,
            pool,
            volume,
        }
    }

    /// Appends as a file does: the short way where it can be, with the new size as the word.
    fn append(&self, size: u64, data: &[u8]) -> bool {
        let (block, at) = (size / BLOCK as u64, size as usize % BLOCK);
        let word = (size + data.len() as u64).to_le_bytes();
        let place = WORD_BLOCK * BLOCK as u64 + 16;
        let done = self
            .volume
            .append_with_word(block, at, data, Some((place, word)));
        if done.expect("append") {
            return true;
        }
        let mut transaction = self.volume.begin();
        transaction.append(block, at, data).expect("append");
        transaction.write_at(place, &word).expect("the word");
        transaction.commit().expect("commit");
        false
    }
}

fn look(volume: &Volume, expected: &[u8]) {
    let mut out = vec![0; expected.len().next_multiple_of(BLOCK)];
    volume.read(0, &mut out).expect("read");
    assert_eq!(&out[..expected.len()], expected);
    assert!(out[expected.len()..].iter().all(|byte| *byte == 0));
    let mut words = [0; BLOCK];
    volume.read(WORD_BLOCK, &mut words).expect("read");
    assert_eq!(words[16..24], (expected.len() as u64).to_le_bytes());
}

fn spent(pool: &Pool, before: Counters) -> (u64, u64, u64) {
    let spent = pool.counters() - before;
    (spent.lines_streamed, spent.lines_flushed, spent.fences)
}

#[test]
fn a_quarter_of_a_kilobyte_costs_its_lines_two_of_log_and_a_fence() {
    let world = World::new();
    for number in 0..64u64 {
        let before = world.pool.counters();
        let is_short = world.append(number * 256, &[number as u8 + 1; 256]);
        // The first one of a block brings the line with the valid length; none rewrites the block.
        assert_eq!(is_short, !number.is_multiple_of(16), "append {number}");
        let lines = if is_short { 4 + 2 } else { 4 + 1 + 2 };
        assert_eq!(spent(&world.pool, before), (lines, 0, 1), "append {number}");
    }
    let expected: Vec<u8> = (0..64).flat_map(|number| [number + 1; 256]).collect();
    look(&world.volume, &expected);
    world.volume.flush().expect("flush");
    assert_eq!(world.store.snapshot()[..expected.len()], expected);
}

#[test]
fn power_cuts_take_no_acknowledged_append_however_it_lies_in_the_block() {
    let mut rng = fastrand::Rng::with_seed(11);
    for round in 0..40 {
        let world = World::new();
        let mut expected: Vec<u8> = Vec::new();
        while expected.len() < 2 * BLOCK {
            let room = BLOCK - expected.len() % BLOCK;
            // Often up to the very end, or close to it.
            let len = match rng.u32(..4) {
                0 => room,
                1 => room.saturating_sub(rng.usize(1..16)).max(1),
                _ => rng.usize(1..900).min(room),
            };
            let data: Vec<u8> = (0..len).map(|_| rng.u8(..)).collect();
            world.append(expected.len() as u64, &data);
            expected.extend_from_slice(&data);
            match rng.u32(..8) {
                0 => world.pool.checkpoint().expect("checkpoint"),
                1 => drop(world.pool.write_back_once().expect("write back")),
                2 => drop(world.pool.reclaim_once(4).expect("reclaim")),
                _ => {}
            }
            let image = world.shadow.crash_state().sample(&mut rng);
            let region = Region::shadow_from(&image);
            let pool =
                Pool::open_on(vec![region], options().runtime_options().clone()).expect("open");
            let backing = Backing::from_store(world.store.clone());
            let volume = pool.attach(backing).expect("attach");
            look(&volume, &expected);
            let (_, bad) = pool.check(|_, _| {});
            assert_eq!(bad, [], "round {round}");
        }
    }
}

#[test]
fn what_is_not_simple_is_left_to_the_long_way() {
    let world = World::new();
    let place = WORD_BLOCK * BLOCK as u64 + 16;
    let append = |block, at, data: &[u8], word| {
        let done = world.volume.append_with_word(block, at, data, word);
        done.expect("no error")
    };
    // Not cached; then not at the end; without room; a word across its own size; its own block.
    assert!(!append(0, 0, b"new", None));
    assert!(!world.append(0, b"new"));
    assert!(!append(0, 2, b"x", None) && !append(0, 4, b"x", None));
    assert!(!append(0, 3, &[1; BLOCK], None) && !append(0, 3, &[1; BLOCK - 5], None));
    assert!(!append(0, 3, b"x", Some((place + 1, [0; 8]))));
    assert!(!append(0, 3, b"x", Some((8, [0; 8]))));
    assert!(!append(0, 3, b"x", Some((5 * BLOCK as u64, [0; 8]))));
    assert!(append(0, 3, b"x", None));
    let beyond = world.volume.append_with_word(64, 0, b"x", None);
    assert!(beyond.is_err());
    let mut out = [0; BLOCK];
    world.volume.read(0, &mut out).expect("read");
    assert_eq!(&out[..5], b"newx\0");
}
