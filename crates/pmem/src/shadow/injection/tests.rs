//! Each fault, in both models.

use super::*;
use crate::Region;
use crate::shadow::{FenceFailure, ShadowModel};
use std::sync::Arc;

const LEN: u64 = 4 * PAGE_BYTES as u64;

const MODELS: [ShadowModel; 2] = [ShadowModel::Lines, ShadowModel::Pages];

fn new(model: ShadowModel) -> (Arc<Shadow>, Region, u64) {
    let shadow = Arc::new(Shadow::new(LEN, model));
    let region = Region::on_shadow(Arc::clone(&shadow));
    (shadow, region, model.unit_bytes() as u64)
}

/// Stores whole units of one byte, half of them streamed, and makes them durable.
fn put(region: &Region, offset: u64, len: u64, byte: u8) {
    let bytes = vec![byte; len as usize];
    if byte.is_multiple_of(2) {
        region.stream(offset, &bytes);
    } else {
        region.store(offset, &bytes);
        region.flush(offset, bytes.len());
    }
    region.fence().unwrap();
}

/// The first bytes of the units at these offsets, as loads see them and as the medium has them.
fn bytes_at<const N: usize>(region: &Region, offsets: [u64; N]) -> [(u8, u8); N] {
    let state = region.shadow_state().unwrap().crash_state();
    offsets.map(|offset| {
        let mut byte = [0];
        region.read(offset, &mut byte);
        (byte[0], state.durable()[offset as usize])
    })
}

fn have_struck(shadow: &Shadow) -> Vec<bool> {
    let injected = shadow.injected();
    let struck: Vec<bool> = injected.iter().map(|one| one.has_struck).collect();
    assert_eq!(shadow.struck(), struck.iter().filter(|one| **one).count());
    struck
}

#[test]
fn a_bit_is_flipped_on_the_medium_and_in_the_view() {
    for model in MODELS {
        let (shadow, region, unit) = new(model);
        put(&region, 0, 2 * unit, 3);
        shadow.inject(Fault::BitFlip { offset: 9, bit: 7 });
        assert_eq!(bytes_at(&region, [8, 9, 10]), [(3, 3), (131, 131), (3, 3)]);
        assert_eq!(region.load_u64(8), 0x0303_0303_0303_8303);
        assert_eq!(have_struck(&shadow), [true]);
        // Stores to the unit are in front of the medium until they are durable and evicted.
        region.store(unit, &[5]);
        let (word, next) = (unit + 1, unit + 8);
        shadow.inject(Fault::BitFlip {
            offset: word,
            bit: 0,
        });
        shadow.inject(Fault::BitFlip {
            offset: next,
            bit: 0,
        });
        assert_eq!(bytes_at(&region, [word, next]), [(3, 2), (3, 2)]);
        shadow.evict(unit, 1);
        assert_eq!(bytes_at(&region, [word, next]), [(3, 2), (3, 2)]);
        region.flush(unit, 1);
        region.fence().unwrap();
        shadow.evict(unit, 1);
        assert_eq!(bytes_at(&region, [word, next]), [(3, 3), (2, 2)]);
    }
}

#[test]
fn a_lost_write_is_seen_only_when_its_unit_is_evicted() {
    for model in MODELS {
        let (shadow, region, unit) = new(model);
        put(&region, 0, 4 * unit, 1);
        shadow.inject(Fault::LostWrite {
            offset: unit + 5,
            len: unit,
        });
        put(&region, 0, unit, 2);
        assert_eq!(have_struck(&shadow), [false], "another unit");
        put(&region, unit, unit, 1);
        assert_eq!(have_struck(&shadow), [false], "nothing is changed");
        put(&region, 0, 4 * unit, 3);
        assert_eq!(have_struck(&shadow), [true]);
        let places = [0, unit, 2 * unit, 3 * unit];
        assert_eq!(bytes_at(&region, places), [(3, 3), (3, 1), (3, 1), (3, 3)]);
        shadow.evict(unit + 1, 1);
        assert_eq!(bytes_at(&region, places), [(3, 3), (1, 1), (3, 1), (3, 3)]);
        shadow.evict(0, LEN);
        assert_eq!(bytes_at(&region, places), [(3, 3), (1, 1), (1, 1), (3, 3)]);
        put(&region, 0, 4 * unit, 4);
        assert_eq!(bytes_at(&region, places), [(4, 4); 4], "once");
    }
}

#[test]
fn a_misdirected_write_arrives_elsewhere() {
    for model in MODELS {
        let (shadow, region, unit) = new(model);
        put(&region, 0, 8 * unit, 1);
        shadow.inject(Fault::MisdirectedWrite {
            offset: 0,
            len: 2 * unit,
            target: 4 * unit,
        });
        put(&region, unit, 2 * unit, 2);
        assert_eq!(have_struck(&shadow), [true]);
        let places = [0, unit, 2 * unit, 4 * unit, 5 * unit];
        let expected = [(1, 1), (2, 1), (2, 2), (1, 1), (1, 2)];
        assert_eq!(bytes_at(&region, places), expected);
        shadow.evict(0, LEN);
        let expected = [(1, 1), (1, 1), (2, 2), (1, 1), (2, 2)];
        assert_eq!(bytes_at(&region, places), expected);
        // What its place has already is wrong in the other one all the same.
        shadow.inject(Fault::MisdirectedWrite {
            offset: 0,
            len: unit,
            target: 5 * unit,
        });
        put(&region, 0, unit, 1);
        assert_eq!(have_struck(&shadow), [true, true]);
        put(&region, 0, unit, 7);
        assert_eq!(bytes_at(&region, [0, 5 * unit]), [(7, 7), (2, 1)]);
    }
}

#[test]
fn of_a_torn_write_some_words_arrive() {
    for model in MODELS {
        let (shadow, region, unit) = new(model);
        put(&region, 0, 2 * unit, 1);
        shadow.inject(Fault::TornWrite {
            offset: unit + 3,
            words: 0b101,
        });
        put(&region, unit, unit, 2);
        let words = [0, 1, 2, 3].map(|word| unit + 8 * word);
        assert_eq!(bytes_at(&region, words), [(2, 2), (2, 1), (2, 2), (2, 1)]);
        shadow.evict(0, LEN);
        assert_eq!(bytes_at(&region, words), [(2, 2), (1, 1), (2, 2), (1, 1)]);
        shadow.inject(Fault::TornWrite {
            offset: unit,
            words: 0b10,
        });
        // The one word that it changes arrives: it is not torn.
        put_word(&region, unit + 8, 9);
        assert_eq!(have_struck(&shadow), [true, false]);
        put_word(&region, unit + 16, 9);
        assert_eq!(have_struck(&shadow), [true, true]);
        assert_eq!(bytes_at(&region, words), [(2, 2), (9, 9), (9, 2), (1, 1)]);
    }
}

fn put_word(region: &Region, offset: u64, value: u64) {
    region.store_u64(offset, value);
    region.flush(offset, 8);
    region.fence().unwrap();
}

#[test]
fn a_misdirected_read_shows_other_bytes_once_or_for_good() {
    for (model, is_once) in [(0, true), (0, false), (1, true), (1, false)] {
        let (shadow, region, unit) = new(MODELS[model]);
        put(&region, 0, 2 * unit, 1);
        put(&region, 4 * unit, 2 * unit, 2);
        region.store(unit, &[3]);
        let source = 4 * unit;
        shadow.inject(Fault::MisdirectedRead {
            offset: 0,
            len: 2 * unit,
            source,
            is_once,
        });
        assert_eq!(have_struck(&shadow), [true]);
        let places = [0, unit, 4 * unit];
        let expected = [(2, 1), (3, 1), (2, 2)];
        assert_eq!(bytes_at(&region, places), expected, "not what is pending");
        shadow.evict(4 * unit, unit);
        assert_eq!(bytes_at(&region, places), expected, "other units");
        region.flush(unit, 1);
        region.fence().unwrap();
        shadow.evict(0, 2 * unit);
        let expected = match is_once {
            true => [(1, 1), (3, 3), (2, 2)],
            false => [(2, 1), (2, 3), (2, 2)],
        };
        assert_eq!(bytes_at(&region, places), expected);
        // Stores reach their place and are seen until the next eviction.
        put(&region, 0, unit, 5);
        assert_eq!(bytes_at(&region, [0]), [(5, 5)]);
        shadow.evict(0, 1);
        assert_eq!(bytes_at(&region, [0]), [(if is_once { 5 } else { 2 }, 5)]);
    }
}

#[test]
fn a_misdirected_read_of_pending_stores_waits_for_an_eviction() {
    let (shadow, region, unit) = new(ShadowModel::Lines);
    region.store(0, &[1]);
    shadow.inject(Fault::MisdirectedRead {
        offset: 0,
        len: unit,
        source: unit,
        is_once: true,
    });
    assert_eq!(have_struck(&shadow), [false]);
    region.flush(0, 1);
    region.fence().unwrap();
    for (seen, has_struck) in [(0, true), (1, true)] {
        shadow.evict(0, unit);
        assert_eq!(bytes_at(&region, [0]), [(seen, 1)]);
        assert_eq!(have_struck(&shadow), [has_struck]);
    }
}

#[test]
fn a_fence_that_fails_meets_no_fault() {
    for model in MODELS {
        let (shadow, _, unit) = new(model);
        shadow.inject(Fault::LostWrite {
            offset: 0,
            len: LEN,
        });
        shadow.stream(0, &vec![1; unit as usize]);
        shadow.set_fence_failure(FenceFailure::After(0));
        shadow.fence().unwrap_err();
        assert_eq!(have_struck(&shadow), [false]);
    }
}

/// As when a whole flush of a member is lost: nothing of what one fence promised is there.
#[test]
fn all_writes_of_one_fence_can_be_lost() {
    for model in MODELS {
        let (shadow, region, unit) = new(model);
        shadow.inject(Fault::LostWrite {
            offset: 0,
            len: LEN,
        });
        region.stream(0, &vec![1; unit as usize]);
        put(&region, 2 * unit, unit, 1);
        put(&region, 4 * unit, unit, 1);
        let places = [0, 2 * unit, 4 * unit];
        assert_eq!(bytes_at(&region, places), [(1, 0), (1, 0), (1, 1)]);
    }
}

#[test]
fn an_eviction_brings_no_lost_page_back_and_ends_with_the_region() {
    let shadow = Arc::new(Shadow::from_image(
        &[7; PAGE_BYTES + 76],
        ShadowModel::Lines,
    ));
    let region = Region::on_shadow(Arc::clone(&shadow));
    shadow.lose_page(0);
    assert_eq!(region.load_u64(0), 0);
    shadow.inject(Fault::BitFlip { offset: 8, bit: 0 });
    shadow.inject(Fault::BitFlip {
        offset: PAGE_BYTES as u64 + 75,
        bit: 0,
    });
    shadow.evict(0, shadow.len());
    let mut end = [0; 78];
    region.read(PAGE_BYTES as u64 - 2, &mut end);
    assert_eq!((end[1], end[2], end[77]), (0, 7, 6));
    assert_eq!(region.load_u64(8), 0);
}

#[test]
fn a_dead_medium_has_neither_bytes_nor_fences() {
    for model in MODELS {
        let (shadow, region, unit) = new(model);
        put(&region, 0, LEN, 1);
        shadow.kill();
        assert_eq!(shadow.lost_pages().len() as u64, LEN / PAGE_BYTES as u64);
        assert_eq!(region.load_u64(unit), 0);
        assert!(region.has_media_error(unit, 8));
        region.fence().unwrap_err();
        let again = Region::on_shadow(shadow);
        again.fence().unwrap_err();
        assert_eq!(again.crc32c(0, 64), crate::crc32c(&[0; 64]));
        assert!(again.has_media_error(0, 64));
    }
}

#[test]
#[should_panic(expected = "whole units")]
fn parts_of_units_cannot_be_moved() {
    let fault = Fault::MisdirectedWrite {
        offset: 0,
        len: 64,
        target: 512,
    };
    Shadow::new(LEN, ShadowModel::Pages).inject(fault);
}

#[test]
#[should_panic(expected = "beyond")]
fn a_fault_is_inside_the_region() {
    let fault = Fault::MisdirectedRead {
        offset: 0,
        len: 128,
        source: LEN - 64,
        is_once: false,
    };
    Shadow::new(LEN, ShadowModel::Lines).inject(fault);
}
