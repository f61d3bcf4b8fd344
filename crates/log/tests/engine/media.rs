//! Media that nobody wrote so: an error, or the right bytes, and never a panic.

use crate::fixtures::*;
use forebay_log::shadow::{Image, ShadowDevice, ShadowPage, ShadowState};
use forebay_log::{LogError, PAGE_BYTES, Transaction, open};
use proptest::prelude::*;
use std::sync::Arc;

const BLOCKS: u64 = 40;

/// A pool that has lapped, with dirty, clean and zeroed blocks, as it lies on its device; and what its blocks are.
fn used(is_closed: bool) -> (Image, Vec<Vec<u8>>, Arc<MemoryBacking>) {
    let (device, backing, log) = small();
    for number in 0..150 {
        let mut transaction = one(number * 7 % BLOCKS, number);
        if number % 5 == 0 {
            transaction.zero(1, number % BLOCKS, 2).unwrap();
        }
        if number == 140 {
            log.write_back(1).unwrap();
        }
        let again = || {
            let mut again = Transaction::new();
            again.write(1, number * 7 % BLOCKS, &bytes(number)).unwrap();
            again
        };
        let mut next = Some(transaction);
        while log.commit(next.take().unwrap_or_else(again)).is_err() {
            assert!(log.recycle().unwrap());
        }
    }
    let contents = (0..BLOCKS).map(|block| read(&log, block)).collect();
    if is_closed {
        log.close().unwrap();
    }
    let image = device.state().cut(&mut fastrand::Rng::with_seed(1));
    (image, contents, backing)
}

fn open_image(image: Image) -> Result<forebay_log::Log, LogError> {
    let state = ShadowState::new(image, PAGE_BYTES);
    open(Arc::new(ShadowDevice::new(state)), options())
}

#[test]
fn an_empty_device_and_a_foreign_one_are_no_pools() {
    let error = open_image(Image::zeroed(200)).err().unwrap();
    assert!(matches!(error, LogError::NoPool { .. }), "{error}");
    let (image, ..) = used(true);
    let mut short = Image::zeroed(40);
    short.set(0, image.page(0).clone());
    let error = open_image(short).err().unwrap();
    assert!(
        error.to_string().contains("of which the device holds 40"),
        "{error}"
    );
}

#[test]
fn a_group_that_is_damaged_between_others_is_no_tear() {
    let (device, _, log) = small();
    for number in 0..4 {
        log.commit(one(number, number)).unwrap();
    }
    let mut image = device.state().cut(&mut fastrand::Rng::with_seed(1));
    // The record of the second group: header, record, block, record.
    let page = SEGMENT_PAGES as usize + 3;
    image.set(page, ShadowPage::new(&[1; PAGE_BYTES]));
    let error = open_image(image).err().unwrap();
    assert!(
        error
            .to_string()
            .contains("group 2 in segment 0 does not hold"),
        "{error}"
    );
}

#[test]
fn a_header_that_is_damaged_is_no_tear() {
    let (device, _, log) = small();
    for number in 0..4 {
        log.commit(one(number, number)).unwrap();
    }
    let mut image = device.state().cut(&mut fastrand::Rng::with_seed(1));
    image.set(SEGMENT_PAGES as usize, ShadowPage::new(&[1; PAGE_BYTES]));
    let error = open_image(image).err().unwrap();
    assert!(matches!(error, LogError::Damaged { .. }), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn changed_bytes_are_an_error_or_harmless(
        is_closed in any::<bool>(),
        changes in prop::collection::vec(
            (0usize..144, prop_oneof![0usize..200, 0usize..PAGE_BYTES], any::<u8>()), 1..4
        ),
    ) {
        let (mut image, contents, backing) = used(is_closed);
        for (page, at, value) in changes {
            let mut bytes = image.page(page).bytes().to_vec();
            bytes[at] = value;
            image.set(page, ShadowPage::new(&bytes));
        }
        let Ok(log) = open_image(image) else { return Ok(()) };
        log.attach(1, backing);
        let mut out = vec![0; PAGE_BYTES];
        let mut old = 0;
        for (block, expected) in (0..).zip(&contents) {
            // The last group of all may count as torn, for nothing behind it says that it was whole.
            if log.read(1, block, &mut out).is_ok() && out != *expected {
                old += 1;
            }
        }
        prop_assert!(old <= 3, "{} blocks are not what they were", old);
    }
}
