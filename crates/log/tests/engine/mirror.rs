//! A log on two members: what it costs each, who is served, and what a wrong page does.

use crate::fixtures::*;
use forebay_log::shadow::{Fault, Image, ShadowDevice, ShadowState};
use forebay_log::{
    Device, Log, LogError, MirrorDevice, Options, PAGE_BYTES, Pages, Transaction, Way, create,
    open, readd,
};
use std::ops::ControlFlow;
use std::sync::Arc;

type Pair = [Arc<ShadowDevice>; 2];

fn pair() -> Pair {
    [0, 1].map(|_: u32| {
        let pages = SEGMENT_PAGES as usize * (SEGMENTS + 1);
        Arc::new(ShadowDevice::new(ShadowState::new(
            Image::zeroed(pages),
            PAGE_BYTES,
        )))
    })
}

fn attached(log: Log) -> Log {
    log.attach(1, Arc::new(MemoryBacking::default()));
    log
}

fn made(devices: &Pair, way: Way) -> Log {
    let members = devices.clone().map(|device| device as Arc<dyn Device>);
    let device = MirrorDevice::blank(members, way).unwrap();
    let options = Options {
        segment_pages: Some(SEGMENT_PAGES),
        ..options()
    };
    attached(create(Arc::new(device), options).unwrap())
}

fn opened(devices: &[&Arc<ShadowDevice>], is_gone: bool) -> forebay_log::Result<Log> {
    let named = devices
        .iter()
        .map(|device| Ok((*device).clone() as Arc<dyn Device>));
    let device = MirrorDevice::open(named.collect(), is_gone, Way::InTurn)?;
    Ok(attached(open(Arc::new(device), options())?))
}

fn write(log: &Log, block: u64, number: u64) {
    let mut transaction = Transaction::new();
    transaction.write(1, block, &bytes(number)).unwrap();
    log.commit(transaction).unwrap();
}

fn read(log: &Log, block: u64) -> Vec<u8> {
    let mut out = vec![0; PAGE_BYTES];
    log.read(1, block, &mut out).unwrap();
    out
}

fn served(log: &Log) -> Vec<usize> {
    let members = log.device().members().unwrap();
    members.served().iter().map(|one| one.0).collect()
}

fn refusal(opened: forebay_log::Result<Log>) -> String {
    match opened.map(drop) {
        Err(LogError::Unsuitable { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

/// Each member gets what a device alone would: two pages and one flush a commit, by a thread of its own or not.
#[test]
fn a_commit_costs_each_member_what_it_costs_one_device() {
    for way in [Way::InTurn, Way::AtOnce] {
        let devices = pair();
        let log = made(&devices, way);
        let before = devices.each_ref().map(|device| device.counters());
        // A record and a block each; the first begins a segment, whose header is a page more.
        for number in 0..4 {
            write(&log, number, number);
        }
        for (device, before) in devices.iter().zip(before) {
            let counted = device.counters().since(&before);
            assert_eq!(
                (counted.writes, counted.flushes, counted.pages_written),
                (4, 4, 9)
            );
        }
    }
}

#[test]
fn a_member_that_fails_is_gone_on_without_and_stale_from_then_on() {
    let devices = pair();
    let log = made(&devices, Way::InTurn);
    write(&log, 0, 1);
    devices[1].fail(0, Fault::NoSpace);
    write(&log, 0, 2);
    assert_eq!(served(&log), [0]);
    write(&log, 0, 3);
    drop(log);
    let log = opened(&[&devices[1], &devices[0]], false).unwrap();
    assert_eq!((served(&log), read(&log, 0)), (vec![0], bytes(3)));
    drop(log);
    // The one that has everything says that the other one is out, so it needs nobody's word.
    let log = opened(&[&devices[0]], false).unwrap();
    assert_eq!(read(&log, 0), bytes(3));
    drop(log);
    assert!(refusal(opened(&[&devices[1]], false)).contains("is missing"));
    let copied = readd((&*devices[0], &*devices[1]), false, 77, &mut |_, _| {
        ControlFlow::Continue(())
    });
    copied.unwrap();
    let log = opened(&[&devices[0], &devices[1]], false).unwrap();
    assert_eq!(served(&log), [0, 1]);
    write(&log, 0, 4);
    drop(log);
    let log = opened(&[&devices[1]], true).unwrap();
    assert_eq!((served(&log), read(&log, 0)), (vec![1], bytes(4)));
}

#[test]
fn two_that_were_each_used_alone_are_refused() {
    let devices = pair();
    drop(made(&devices, Way::InTurn));
    for device in &devices {
        write(&opened(&[device], true).unwrap(), 0, 5);
    }
    for is_gone in [false, true] {
        let both = opened(&[&devices[0], &devices[1]], is_gone);
        assert!(refusal(both).contains("two histories"));
    }
}

/// A pool that needs the other member, and is damaged, stays as it was: the other member still counts.
#[test]
fn one_member_is_no_pool_by_itself() {
    let devices = pair();
    drop(made(&devices, Way::InTurn));
    let alone = open(devices[0].clone(), options());
    assert!(refusal(alone).contains("member of a mirror"));
    assert!(refusal(opened(&[&devices[0]], false)).contains("is missing"));
    assert!(opened(&[&devices[0], &devices[1]], false).is_ok());
    let twice = opened(&[&devices[0], &devices[0].clone()], false);
    assert!(refusal(twice).contains("both member 0"));
}

#[test]
fn a_wrong_page_is_read_from_the_other_member_and_written_again() {
    let devices = pair();
    let log = made(&devices, Way::InTurn);
    write(&log, 0, 1);
    let page = log.begin_read(1, 0).page().unwrap();
    devices[1].rot(page, &bytes(9));
    for _ in 0..2 {
        assert_eq!(read(&log, 0), bytes(1));
    }
    assert!(log.has_repairs());
    assert_eq!(log.repair().unwrap(), 1);
    assert_eq!((log.has_repairs(), log.repair().unwrap()), (false, 0));
    let members = log.device().members().unwrap();
    assert_eq!(members.health().repaired_pages, 1);
    drop(log);
    let log = opened(&[&devices[1]], true).unwrap();
    assert_eq!(read(&log, 0), bytes(1));
}

fn copied(from: &ShadowDevice, onto: &ShadowDevice, id: u64) {
    let copied = readd((from, onto), false, id, &mut |_, _| {
        ControlFlow::Continue(())
    });
    copied.unwrap();
}

/// The file that was replaced came back, and the one in its place is not named: that one counts.
#[test]
fn a_file_that_was_replaced_does_not_stand_in_for_the_one_in_its_place() {
    let (devices, [third, _]) = (pair(), pair());
    let log = made(&devices, Way::InTurn);
    write(&log, 0, 1);
    devices[1].fail(0, Fault::NoSpace);
    write(&log, 0, 2);
    drop(log);
    copied(&devices[0], &third, 77);
    let told = refusal(opened(&[&devices[0], &devices[1]], false));
    assert!(
        told.contains("member 1 of this mirror is missing"),
        "{told}"
    );
    assert!(told.contains("came in its place"), "{told}");
    let log = opened(&[&devices[0], &devices[1]], true).unwrap();
    assert_eq!(served(&log), [0]);
    write(&log, 0, 3);
    drop(log);
    let log = opened(&[&devices[0], &third], false).unwrap();
    assert_eq!((served(&log), read(&log, 0)), (vec![0], bytes(3)));
}

#[test]
fn only_what_was_its_other_member_and_never_went_on_alone_is_known_as_that() {
    let devices = pair();
    drop(made(&devices, Way::InTurn));
    let [from, other] = devices.each_ref();
    assert!(forebay_log::was_other_member(&**from, &**other));
    assert!(!forebay_log::was_other_member(&**from, &**from));
    write(&opened(&[other], true).unwrap(), 0, 5);
    assert!(!forebay_log::was_other_member(&**from, &**other));
}

/// A member that takes no page when two are made equal still gives what it has alone.
#[test]
fn a_member_that_takes_no_page_is_out_when_the_other_one_has_all() {
    let devices = pair();
    let log = made(&devices, Way::InTurn);
    let pages = [0, 1].map(|block| {
        write(&log, block, block + 1);
        log.begin_read(1, block).page().unwrap()
    });
    drop(log);
    // The first has the second group alone, and lacks the first one.
    for (device, page) in devices.iter().zip(pages) {
        device.rot(page, &bytes(9));
    }
    devices[0].fail(0, Fault::NoSpace);
    let log = opened(&[&devices[0], &devices[1]], false).unwrap();
    assert_eq!(served(&log), [1]);
    assert_eq!((read(&log, 0), read(&log, 1)), (bytes(1), bytes(2)));
}

/// Of the roster that was written last nothing is left: the one before it would call a member in that is out.
#[test]
fn a_roster_that_does_not_hold_is_damage() {
    let devices = pair();
    let log = made(&devices, Way::InTurn);
    devices[1].fail(0, Fault::NoSpace);
    write(&log, 0, 2);
    drop(log);
    // The second roster lies in the line of even numbers.
    devices[0].rot(3, &bytes(9));
    let damaged = opened(&[&devices[0], &devices[1]], false).map(drop);
    assert!(
        matches!(damaged, Err(LogError::Damaged { .. })),
        "{damaged:?}"
    );
}

#[test]
fn a_page_that_a_batch_finds_wrong_is_noted() {
    let devices = pair();
    let log = made(&devices, Way::InTurn);
    write(&log, 0, 1);
    let reading = log.begin_read(1, 0);
    let page = reading.page().unwrap();
    for device in &devices {
        device.rot(page, &bytes(9));
        let mut out = Pages::zeroed(1);
        let readings = [log.begin_read(1, 0)];
        // Whichever member's turn it is.
        for _ in 0..2 {
            let found = log.finish_reads(&readings, &mut out);
            assert!(found.iter().all(Result::is_ok));
            assert_eq!(out[..], bytes(1));
        }
        assert_eq!(log.repair().unwrap(), 1);
    }
}

/// A new member whose roster cannot be written is out, and the pool opens on the other one.
#[test]
fn a_member_that_does_not_take_its_roster_is_out() {
    let devices = pair();
    let log = made(&devices, Way::InTurn);
    devices[1].fail(0, Fault::NoSpace);
    write(&log, 0, 2);
    drop(log);
    // The last write of a copy is its own roster; one flush comes before.
    let mut last = 0;
    for _ in 0..2 {
        let before = devices[1].counters().writes;
        if last > 0 {
            devices[1].fail(last, Fault::NoSpace);
        }
        let onto = &*devices[1];
        let copied = readd((&*devices[0], onto), true, 77 + last, &mut |_, _| {
            ControlFlow::Continue(())
        });
        assert_eq!(copied.is_err(), last > 0);
        last = devices[1].counters().writes - before;
    }
    devices[1].heal();
    let log = MirrorDevice::open(
        devices
            .iter()
            .map(|one| Ok(one.clone() as Arc<dyn Device>))
            .collect(),
        false,
        Way::InTurn,
    );
    devices[1].fail(0, Fault::NoSpace);
    let log = attached(open(Arc::new(log.unwrap()), options()).unwrap());
    assert_eq!((served(&log), read(&log, 0)), (vec![0], bytes(2)));
}
