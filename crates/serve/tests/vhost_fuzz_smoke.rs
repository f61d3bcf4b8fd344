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
