//! The fuzz targets of `fuzz/` for a short while, without a nightly compiler.

mod fixtures;

use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, max_shrink_iters: 2000, ..ProptestConfig::with_cases(1000) })]

    #[test]
    fn mutated_images_open_or_are_refused(data in proptest::collection::vec(any::<u8>(), 2..50)) {
        fixtures::media_open::run(&data);
    }

    #[test]
    fn journals_are_found_within_the_disk_or_not_at_all(
        data in proptest::collection::vec(any::<u8>(), 2..60)
    ) {
        fixtures::journal_locate::run(&data);
    }

    #[test]
    fn random_operations_leave_what_a_plain_array_holds(
        data in proptest::collection::vec(any::<u8>(), 1..400)
    ) {
        fixtures::operations::run(&data);
    }
}

/// Found by the fuzzer: an xfs log of no length.
#[test]
fn a_log_without_blocks_is_none() {
    fixtures::journal_locate::run(&[59, 171, 65, 92, 94, 94, 47, 20, 4, 0, 0, 207]);
}

#[test]
fn the_seeds_of_the_search_for_journals_have_journals() {
    fixtures::journal_locate::check_seeds();
}
