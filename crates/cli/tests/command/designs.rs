//! The published designs behind the daemon: what they are refused.

use crate::place::{DISK_BYTES, Place};

#[test]
fn arguments_that_make_no_sense_for_a_design_are_refused() {
    let place = Place::new();
    let image = std::fs::File::create(place.path("odd.img")).unwrap();
    image.set_len(DISK_BYTES + 512).unwrap();
    let create = ["create", "POOL", "--size", "8M"];
    let serve = ["serve", "--pool", "POOL", "--nbd", "NBD"];
    let tinca = ["--engine", "tinca", "--backing", "BACKING"];
    let odd = ["--engine", "tinca", "--backing", "./odd.img"];
    for (command, code, part) in [
        (
            [&create[..], &["--engine", "tinca"]].concat(),
            2,
            "--backing",
        ),
        (
            [&create[..], &["--backing", "BACKING"]].concat(),
            2,
            "--backing",
        ),
        (
            [&create[..], &["--engine", "abacus"]].concat(),
            2,
            "spindle",
        ),
        ([&create[..], &tinca, &["--strict"]].concat(), 2, "--strict"),
        ([&create[..], &tinca, &["--test"]].concat(), 2, "--test"),
        ([&create[..], &odd].concat(), 1, "whole blocks"),
        (
            [&serve[..], &["--engine", "tinca"]].concat(),
            2,
            "--backing",
        ),
        (
            [&serve[..], &tinca, &["--dirty-low", "9"]].concat(),
            2,
            "--dirty-low",
        ),
        (
            [&serve[..], &tinca, &["--pool", "./two"]].concat(),
            2,
            "--pool",
        ),
        ([&serve[..], &odd].concat(), 1, "whole blocks"),
    ] {
        let refused = place.run(&command);
        assert_eq!(refused.code, code, "{command:?}: {}", refused.stderr);
        assert!(
            refused.stderr.contains(part),
            "{command:?}: {}",
            refused.stderr
        );
    }
    assert!(!place.path("pool").exists());
    std::fs::write(place.path("pool"), "somebody's letters").unwrap();
    let refused = place.run(&[&create[..], &tinca].concat());
    assert_eq!(refused.code, 3, "{}", refused.stderr);
    assert!(refused.stderr.contains("--force"), "{}", refused.stderr);
    let letters = std::fs::read(place.path("pool")).unwrap();
    assert_eq!(letters, b"somebody's letters");
}
