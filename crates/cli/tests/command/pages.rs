//! Help, man pages and completions.

use crate::place::Place;

#[test]
fn every_command_has_help_with_an_example_and_a_man_page_with_the_exit_codes() {
    let place = Place::new();
    let help = place.run(&["--help"]);
    assert_eq!(help.code, 0);
    let man = place.run(&["man", "./man"]);
    assert_eq!(man.code, 0, "{}", man.stderr);
    for command in [
        "create",
        "info",
        "serve",
        "mount",
        "attach",
        "detach",
        "stat",
        "top",
        "flush",
        "set",
        "resize",
        "fault",
        "check",
        "recover",
        "bench",
        "demo",
        "completions",
    ] {
        assert!(help.stdout.contains(command), "{command}");
        let own = place.run(&[command, "--help"]);
        assert!(own.stdout.contains("Example:"), "{command}");
        let page =
            std::fs::read_to_string(place.path(&format!("man/forebay-{command}.1"))).unwrap();
        assert!(page.starts_with(".ie"), "{command}: {}", &page[..40]);
        for part in [".TH", "EXIT STATUS", "no daemon serves the pool"] {
            assert!(page.contains(part), "{command}: {part}");
        }
    }
    for code in 0..=7 {
        assert!(
            help.stdout.contains(&format!("\n  {code}  ")),
            "exit code {code}"
        );
    }
    assert!(place.path("man/forebay.1").exists());
    assert!(!place.path("man/forebay-man.1").exists());
}

#[test]
fn completions_are_printed_for_each_shell() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = place.run(&["completions", shell]);
        assert_eq!(script.code, 0, "{shell}");
        assert!(script.stdout.contains("detach"), "{shell}");
    }
    assert_eq!(place.run(&["completions", "abacus"]).code, 2);
}
