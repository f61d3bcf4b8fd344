//! Help, man pages and completions.

use crate::test_env::TestEnv;

#[test]
fn every_command_has_help_with_an_example_and_a_man_page_with_the_exit_codes() {
    let env = TestEnv::new();
    let help = env.run(&["--help"]);
    assert_eq!(help.code, 0);
    let man = env.run(&["man", "./man"]);
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
        "member",
        "scrub",
        "dax",
        "check",
        "recover",
        "bench",
        "demo",
        "completions",
    ] {
        assert!(help.stdout.contains(command), "{command}");
        let own = env.run(&[command, "--help"]);
        assert!(own.stdout.contains("Example:"), "{command}");
        let page = std::fs::read_to_string(env.path(&format!("man/forebay-{command}.1"))).unwrap();
        assert!(page.starts_with(".ie"), "{command}: {}", &page[..40]);
        for part in [".TH", "EXIT STATUS", "no daemon serves the pool"] {
            assert!(page.contains(part), "{command}: {part}");
        }
    }
    for code in 0..=9 {
        assert!(
            help.stdout.contains(&format!("\n  {code}  ")),
            "exit code {code}"
        );
    }
    assert!(env.path("man/forebay.1").exists());
    assert!(!env.path("man/forebay-man.1").exists());
}

#[test]
fn completions_are_printed_for_each_shell() {
    let env = TestEnv::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = env.run(&["completions", shell]);
        assert_eq!(script.code, 0, "{shell}");
        assert!(script.stdout.contains("detach"), "{shell}");
    }
    assert_eq!(env.run(&["completions", "abacus"]).code, 2);
}
