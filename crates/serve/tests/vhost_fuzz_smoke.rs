//! The vhost-user fuzz target of `fuzz/` for a short while, without a nightly compiler.

#[path = "fixtures/vhost_chain.rs"]
mod vhost_chain;

use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn no_chain_does_harm(data in proptest::collection::vec(any::<u8>(), 9..300)) {
        vhost_chain::run(&data);
    }
}

/// Found by the test above: a disk's serial number read into the used ring, by the guest's own wish.
#[test]
fn a_buffer_over_the_used_ring_does_no_harm() {
    let data = [
        0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 114, 0, 0, 0, 0, 0, 0, 0, 0,
        180, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    vhost_chain::run(&data);
}
