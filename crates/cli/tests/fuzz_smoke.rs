//! The fuzz targets of `fuzz/` for a short while, without a nightly compiler: texts near to what is
//! meant, so that parsers are left late.

mod fixtures;

use proptest::prelude::*;

const CONFIG_PARTS: &[&str] = &[
    "pool = ",
    "nbd = ",
    "threads = ",
    "dirty-high = ",
    "flush-rate = ",
    "shutdown-deadline = ",
    "verify = ",
    "[[volume]]",
    "backing = ",
    "unknown = ",
    "[",
    "]",
    "\"",
    "\n",
    "0",
    "300",
    "-1",
    "1e9",
    "\"a\"",
    "[\"a\", \"b\"]",
    "\"unix:x\"",
    "\"100M\"",
    "\"always\"",
    "{",
    "}",
    "#",
    "\u{e9}",
    "=",
    ",",
    "true",
];

const CONTROL_PARTS: &[&str] = &[
    "{",
    "}",
    "\"command\": ",
    "\"stat\"",
    "\"detach\"",
    ", ",
    "\"volume\": ",
    "\"replace-member\"",
    "\"member\": ",
    "\"path\": ",
    "\"force\": ",
    "\"scrub-start\"",
    "\"rate\": ",
    "\"version\": ",
    "1",
    "2",
    "null",
    "[",
    "]",
    "\"dirty_low\": ",
    "50",
    "101",
    "\"verify\": ",
    "\"never\"",
    "true",
    "\n",
    "{\"command\": \"set\", \"dirty_low\": 7}\n",
    "{\"ok\": false}\n",
    "{\"progress\": 1}\n",
    "\u{0}",
    "\\u0000",
    "1e400",
    "-0.5",
];

fn text_of(parts: &'static [&'static str]) -> impl Strategy<Value = String> {
    let part = (0..parts.len()).prop_map(move |index| parts[index]);
    proptest::collection::vec(part, 0..30).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(3000) })]

    #[test]
    fn config_files_are_settings_or_errors_with_a_line(text in text_of(CONFIG_PARTS)) {
        fixtures::config_file::run(text.as_bytes());
    }

    #[test]
    fn any_bytes_are_no_config_file(data in proptest::collection::vec(any::<u8>(), 0..200)) {
        fixtures::config_file::run(&data);
    }

    #[test]
    fn each_line_on_the_control_socket_has_one_answer(text in text_of(CONTROL_PARTS)) {
        fixtures::control_socket::run(text.as_bytes());
    }

    #[test]
    fn any_bytes_on_the_control_socket_are_answered(
        data in proptest::collection::vec(any::<u8>(), 0..200)
    ) {
        fixtures::control_socket::run(&data);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn forged_pools_with_right_checksums_are_shown_in_plain_lines_or_refused(
        data in proptest::collection::vec(any::<u8>(), 1..42)
    ) {
        fixtures::forged_pool::run(&data);
    }
}

#[test]
fn the_seeds_of_forged_pools_have_right_checksums() {
    fixtures::forged_pool::check_seeds();
}
