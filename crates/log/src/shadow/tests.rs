//! The rules of the shadow device, each by itself.

use super::*;
use std::collections::BTreeSet;

const PAGES: usize = 8;

fn device(unit: usize) -> ShadowDevice {
    ShadowDevice::new(ShadowState::new(Image::zeroed(PAGES), unit))
}

fn page(value: u8) -> Vec<u8> {
    vec![value; PAGE_BYTES]
}

/// The values that a page can have after a power cut, unit by unit.
fn after_cuts(device: &ShadowDevice, number: usize) -> BTreeSet<u8> {
    let mut rng = fastrand::Rng::with_seed(5);
    let state = device.state();
    let bytes = |_| state.cut(&mut rng).page(number).bytes().to_vec();
    (0..200).flat_map(bytes).collect()
}

fn read(device: &ShadowDevice, number: u64) -> u8 {
    let mut out = page(0);
    device.read(number, &mut out).unwrap();
    out[0]
}

#[test]
fn a_plain_write_is_durable_after_a_flush_and_any_of_it_may_be_before() {
    let device = device(512);
    device.write(2, &[&page(1)]).unwrap();
    device.write(2, &[&page(2)]).unwrap();
    assert_eq!(read(&device, 2), 2);
    assert_eq!(after_cuts(&device, 2), BTreeSet::from([0, 1, 2]));
    assert_eq!(device.state().pending_units(), 8);
    device.flush().unwrap();
    assert_eq!(after_cuts(&device, 2), BTreeSet::from([2]));
    assert_eq!(device.state().pending_units(), 0);
}

#[test]
fn a_durable_write_makes_itself_durable_and_nothing_else() {
    let device = device(4096);
    device.write(1, &[&page(1)]).unwrap();
    device.write(2, &[&page(2)]).unwrap();
    device.write_durable(2, &[&page(3)]).unwrap();
    assert_eq!(after_cuts(&device, 1), BTreeSet::from([0, 1]));
    assert_eq!(after_cuts(&device, 2), BTreeSet::from([3]));
}

#[test]
fn a_write_under_way_may_be_there_and_a_flush_does_not_wait_for_it() {
    let device = device(4096);
    let first = device.submit(3, &[&page(1)], true);
    let second = device.submit(3, &[&page(2)], true);
    device.flush().unwrap();
    assert_eq!(read(&device, 3), 0);
    assert_eq!(after_cuts(&device, 3), BTreeSet::from([0, 1, 2]));
    device.complete(second);
    assert_eq!(after_cuts(&device, 3), BTreeSet::from([1, 2]));
    device.complete(first);
    assert_eq!(after_cuts(&device, 3), BTreeSet::from([1]));
}

#[test]
fn faults_leave_what_they_say() {
    let two = [page(1), page(1)].concat();
    for (fault, first, second) in [
        (Fault::Error, &[0, 1][..], &[0, 1][..]),
        (Fault::ErrorButDurable, &[1], &[1]),
        (Fault::Short, &[0, 1], &[0]),
        (Fault::NoSpace, &[0], &[0]),
    ] {
        let device = device(4096);
        device.fail(1, fault);
        device.write_durable(0, &[&page(9)]).unwrap();
        assert!(device.write_durable(4, &[&two]).is_err());
        assert_eq!(
            after_cuts(&device, 4),
            first.iter().copied().collect(),
            "{fault:?}"
        );
        assert_eq!(
            after_cuts(&device, 5),
            second.iter().copied().collect(),
            "{fault:?}"
        );
        device.write_durable(6, &[&page(9)]).unwrap();
    }
}

#[test]
fn a_kill_keeps_what_was_completed_and_what_lands_is_not_durable() {
    let device = device(4096);
    device.write(1, &[&page(1)]).unwrap();
    device.submit(2, &[&page(2)], true);
    let mut rng = fastrand::Rng::with_seed(3);
    let mut seen = BTreeSet::new();
    for _ in 0..50 {
        let killed = ShadowDevice::new(device.state().killed(&mut rng));
        assert_eq!(read(&killed, 1), 1);
        assert_eq!(after_cuts(&killed, 1), BTreeSet::from([0, 1]));
        let landed = read(&killed, 2);
        let expected = if landed == 2 { vec![0, 2] } else { vec![0] };
        assert_eq!(after_cuts(&killed, 2), expected.into_iter().collect());
        seen.insert(landed);
    }
    assert_eq!(seen, BTreeSet::from([0, 2]));
}
