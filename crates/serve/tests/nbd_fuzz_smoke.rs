//! The NBD fuzz targets of `fuzz/` for a short while, without a nightly compiler.

mod fixtures;
mod nbd_client;

use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(3000) })]

    #[test]
    fn no_handshake_does_harm(data in proptest::collection::vec(any::<u8>(), 1..300)) {
        fixtures::nbd_handshake::run(&data);
    }

    #[test]
    fn requests_do_what_an_array_does(data in proptest::collection::vec(any::<u8>(), 2..200)) {
        fixtures::nbd_requests::run(&data);
    }
}
