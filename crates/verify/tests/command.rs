//! The command by itself: it says what it can do, and proves nothing of a program that does not ship.

use std::process::{Command, Output};

fn verify(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay-verify"));
    command.args(arguments).output().expect("it runs")
}

#[test]
fn help_lists_what_there_is_with_examples() {
    let output = verify(&["--help"]);
    let said = String::from_utf8_lossy(&output.stdout);
    for word in [
        "soak",
        "torture",
        "crash",
        "power",
        "apps",
        "bench",
        "Examples:",
    ] {
        assert!(said.contains(word), "{word} in {said}");
    }
    assert!(output.status.success());
}

/// Built with the faults, as `cargo test --features mutants` does, everything is refused; without, what is
/// missing is named.
#[test]
fn a_build_with_mutants_is_refused() {
    let has_mutants = forebay::internals::mutants::IN_BUILD
        || forebay_files::mutants::IN_BUILD
        || forebay_pmem::mutants::IN_BUILD;
    for name in ["soak", "torture", "apps"] {
        let output = verify(&[name, "--forebay", "/no/such/forebay"]);
        let said = String::from_utf8_lossy(&output.stderr);
        let why = match has_mutants {
            true => "feature mutants",
            false => "/no/such/forebay is not there",
        };
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(why), "{said}");
    }
}
