//! A load of writes that are counted as they are acknowledged, and what must be found of them afterwards.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::test_env::TestEnv;
use forebay_harness::nbd::Client;

/// Writes blocks one after the other, each with its number, until the daemon goes away; says in
/// `acknowledged` how many were.
pub fn load(env: &TestEnv, acknowledged: &Arc<AtomicU64>) -> std::thread::JoinHandle<()> {
    let mut client = Client::open(&env.path("nbd.sock"), "disk.img").unwrap();
    let acknowledged = Arc::clone(acknowledged);
    std::thread::spawn(move || {
        for number in 1.. {
            let block = number % 1024;
            if client.write(block * 4096, &content(number)).is_err() {
                return;
            }
            acknowledged.store(number, Ordering::SeqCst);
        }
    })
}

pub fn content(number: u64) -> Vec<u8> {
    number.to_le_bytes().repeat(512)
}

pub fn wait_for(acknowledged: &AtomicU64, count: u64) {
    while acknowledged.load(Ordering::SeqCst) < count {
        std::thread::yield_now();
    }
}

/// Everything up to the last acknowledged write is there; the one after it may be.
pub fn verify(env: &TestEnv, acknowledged: u64) {
    let mut client = Client::open(&env.path("nbd.sock"), "disk.img").unwrap();
    for number in acknowledged.saturating_sub(1022).max(1)..=acknowledged {
        let found = client.read(number % 1024 * 4096, 4096).unwrap();
        let found = u64::from_le_bytes(found[..8].try_into().unwrap());
        let is_next = found == number + 1024 && found == acknowledged + 1;
        assert!(found == number || is_next, "write {number} is {found}");
    }
}
