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
        "list",
        "run",
        "verdicts",
        "trace",
        "dax",
        "files",
        "tvarak",
        "create",
        "serve",
        "stat",
        "flush",
        "delays",
        "completions",
    ] {
        assert!(help.stdout.contains(command), "{command}");
        let own = env.run(&[command, "--help"]);
        assert!(own.stdout.contains("Example"), "{command}");
        let name = format!("man/forebay-lab-{command}.1");
        let page = std::fs::read_to_string(env.path(&name)).unwrap();
        assert!(page.contains("EXIT STATUS"), "{command}");
    }
    assert!(env.path("man/forebay-lab.1").exists());
    assert!(!env.path("man/forebay-lab-man.1").exists());
    let script = env.run(&["completions", "bash"]);
    assert!(script.stdout.contains("forebay-lab"), "{}", script.stderr);
}
