//! Block devices of the host: what a person is told where there are none. Where there are,
//! `tests/rig/ublk` has the rest.

use crate::test_env::{TestEnv, skip};

fn refused(env: &TestEnv, arguments: &[&str], code: i32) -> String {
    let command = ["serve", "--pool", "POOL", "--backing", "BACKING"];
    let outcome = env.run(&[&command, arguments].concat());
    assert_eq!(outcome.code, code, "{}", outcome.stderr);
    outcome.stderr
}

#[test]
fn a_host_or_a_build_without_ublk_says_what_to_do() {
    let env = TestEnv::with_pool();
    if std::path::Path::new("/dev/ublk-control").exists() {
        let test = "a_host_or_a_build_without_ublk_says_what_to_do";
        skip(test, "this host has ublk");
        return;
    }
    for number in [&["--ublk"][..], &["--ublk", "3"]] {
        let said = refused(&env, number, 1);
        let has_advice = said.contains("--features ublk") || said.contains("modprobe ublk_drv");
        assert!(has_advice, "{said}");
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let env = TestEnv::with_pool();
    let said = refused(&env, &["--ublk", "--user", "nobody"], 2);
    assert!(said.contains("root only"), "{said}");
    let said = refused(&env, &["--ublk", "many"], 2);
    assert!(said.contains("neither auto nor a number"), "{said}");
    let said = refused(&env, &[], 2);
    assert!(said.contains("--ublk"), "{said}");
}
