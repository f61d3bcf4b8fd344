//! What one member returns in the place of what it was asked for decides nothing of what is committed to both.

use std::sync::Arc;

use forebay::unstable::set_duplicate_bits;
use forebay_pmem::shadow::{Fault, Shadow};

use crate::halves::{BLOCK, Mirror, noise};

const BLOCKS: u64 = 8;

/// Where what is read first of a block is.
fn first_half(mirror: &Mirror, block: u64) -> (Arc<Shadow>, u64) {
    let (member, place) = mirror.half(block, 0, 0);
    (Arc::clone(member), place)
}

/// A mirror of blocks that have nothing in common, two of which are read from one member first; of the first of these
/// that member returns the second, once.
fn misread() -> (Mirror, u64, u64) {
    let mirror = Mirror::new();
    (0..BLOCKS).for_each(|block| mirror.put(block, block));
    mirror.pool.checkpoint().expect("checkpoint");
    let asked = 0;
    let (member, offset) = first_half(&mirror, asked);
    let is_beside = |block: &u64| Arc::ptr_eq(&first_half(&mirror, *block).0, &member);
    let given = (1..BLOCKS).find(is_beside).expect("one of them");
    member.inject(Fault::MisdirectedRead {
        offset,
        len: BLOCK as u64,
        source: first_half(&mirror, given).1,
        is_once: true,
    });
    (mirror, asked, given)
}

/// The member returns what it has, from now on.
fn end(mirror: &Mirror) {
    for member in &mirror.members {
        member.evict(0, member.len());
    }
}

#[test]
fn a_change_is_not_found_by_a_misdirected_read() {
    let (mirror, asked, given) = misread();
    let mut bytes = noise(given);
    bytes[100] ^= 1;
    mirror.volume.write(asked, &bytes).expect("write");
    end(&mirror);
    assert!(mirror.read(asked) == bytes);
    assert!(mirror.read(given) == noise(given));
}

#[test]
fn a_block_that_was_misread_is_not_what_it_seems() {
    let (mirror, asked, given) = misread();
    // As what the member returns, so that nothing seems to differ.
    mirror.volume.write(asked, &noise(given)).expect("write");
    end(&mirror);
    assert!(mirror.read(asked) == noise(given));
}

#[test]
fn a_duplicate_is_not_found_by_a_misdirected_read() {
    // Blocks that differ are taken for equal until their bytes are compared.
    set_duplicate_bits(1);
    for seed in 0..32 {
        let (mirror, asked, given) = misread();
        let mut bytes = noise(given);
        bytes[100] ^= seed;
        // So that the first one is the last that is known of its kind.
        mirror.put(asked, asked);
        mirror.volume.write(BLOCKS, &bytes).expect("write");
        end(&mirror);
        assert!(mirror.read(BLOCKS) == bytes, "seed {seed}");
        assert!(mirror.read(asked) == noise(asked), "seed {seed}");
    }
    set_duplicate_bits(u32::BITS);
}
