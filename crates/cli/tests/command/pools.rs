//! Pools without a daemon: what is printed, and the exit codes.

use crate::test_env::{Outcome, SERVE_NBD, TestEnv};

#[test]
fn create_says_what_the_medium_survives_and_overwrites_nothing() {
    let env = TestEnv::with_mapped_pool();
    let again = env.run(&["create", "POOL", "--size", "8M"]);
    assert_ne!(again.code, 0);
    assert!(again.stderr.contains("pool"), "{}", again.stderr);
    let forced = [
        "create", "POOL", "--size", "8M", "--force", "--medium", "page",
    ];
    let forced = env.run(&forced);
    assert_eq!(forced.code, 0, "{}", forced.stderr);
    assert!(
        forced.stdout.contains("survives a killed process"),
        "{}",
        forced.stdout
    );
    let json = env
        .run(&["create", "POOL", "--size", "8M", "--force", "--json"])
        .json();
    assert!(json["slots"].as_u64().unwrap() > 1000, "{json}");
}

#[test]
fn an_idle_pool_is_looked_at_without_being_changed() {
    let env = TestEnv::with_pool();
    let before = std::fs::read(env.path("pool")).unwrap();
    for arguments in [
        &["info", "POOL", "--json"][..],
        &["check", "POOL", "--json"],
        &["recover", "--dry-run", "POOL", "--json"],
    ] {
        let outcome = env.run(arguments);
        assert_eq!(outcome.code, 0, "{arguments:?}: {}", outcome.stderr);
        assert!(outcome.json().is_object(), "{arguments:?}");
    }
    assert!(std::fs::read(env.path("pool")).unwrap() == before);
    assert_eq!(env.run(&["recover", "POOL"]).code, 0);
    assert_eq!(env.run(&["flush", "POOL", "--backing", "BACKING"]).code, 0);
}

#[test]
fn a_foreign_file_is_refused_with_its_name_and_code_3() {
    let env = TestEnv::new();
    std::fs::write(env.path("pool"), vec![0x5A; 8 << 20]).unwrap();
    for arguments in [&["info", "POOL"][..], &["recover", "POOL"]] {
        let refused = env.run(arguments);
        assert_eq!(refused.code, 3, "{}", refused.stderr);
        assert!(refused.stderr.contains("/pool"), "{}", refused.stderr);
        assert!(
            !refused.stderr.contains('\x1b'),
            "colours only on a terminal"
        );
    }
    assert!(std::fs::read(env.path("pool")).unwrap() == vec![0x5A; 8 << 20]);
}

#[test]
fn without_a_daemon_stat_and_flush_say_so() {
    let env = TestEnv::with_pool();
    for arguments in [&["stat", "POOL"][..], &["flush", "POOL"]] {
        env.refuses(arguments, 5, "no daemon serves");
    }
    assert_eq!(env.run(&["dance"]).code, 2);
}

#[test]
fn the_demonstration_over_the_library_verifies() {
    let env = TestEnv::new();
    let outcome = env
        .command(&["demo", "--pool", "POOL", "--directory"])
        .arg(env.directory.path())
        .output()
        .map(Outcome::from)
        .unwrap();
    assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
    assert!(
        outcome.stdout.contains("verify on the bare image"),
        "{}",
        outcome.stdout
    );
    assert!(env.path("report.json").exists());
    assert!(!env.path("pool").exists());
}

/// The backing before the power cut.
struct EarlierMounting;

impl forebay_files::observe::Observer for EarlierMounting {
    fn identity(
        &self,
        _: forebay_files::FileIdentity,
    ) -> Option<forebay_files::observe::SeenIdentity> {
        None
    }

    fn mounting(&self) -> u64 {
        1
    }

    fn before_sync(&self) {}

    fn synced(&self, _: forebay_files::observe::Synced) {}
}

#[test]
fn recover_brings_a_directory_to_what_was_acknowledged() {
    use forebay_files::observe::set_observer;
    use forebay_files::{FileBuffer, FileBufferOptions};
    use rustix::fs::{Mode, OFlags};

    let env = TestEnv::with_pool();
    let data = env.path("data");
    std::fs::create_dir(&data).unwrap();
    let options = FileBufferOptions::new(env.path("pool")).root(&data);
    // What this process sees is not the mounting that recovery finds: a power cut came between.
    set_observer(Some(std::rc::Rc::new(EarlierMounting)));
    let buffer = FileBuffer::open(&options).unwrap();
    let directory = std::fs::File::open(&data).unwrap();
    let directory = buffer.directory(directory.into()).unwrap();
    let (flags, mode) = (OFlags::RDWR | OFlags::CREATE, Mode::from_raw_mode(0o640));
    let opened = directory.open("draft".as_ref(), flags, mode).unwrap();
    let file = buffer.adopt(opened.descriptor).unwrap();
    file.write_at(0, b"acknowledged", true).unwrap();
    let empty = rustix::fs::RenameFlags::empty();
    let (from, to) = ("draft".as_ref(), "letter".as_ref());
    directory.rename(from, &directory, to, empty).unwrap();
    // The process ends without a word, and the power cut takes the new name.
    drop((file, directory, buffer));
    set_observer(None);
    std::fs::remove_file(data.join("letter")).unwrap();

    let told = env.run(&["recover", "--dry-run", "POOL", "--json"]).json();
    let root = data.canonicalize().unwrap();
    assert_eq!(told["directory"].as_str(), root.to_str());
    assert!(told["files"].is_null(), "{told}");
    let report = env.run(&["recover", "POOL", "--json"]).json();
    assert_eq!(report["files"]["files"], 1, "{report}");
    assert_eq!(report["files"]["names_made"][0], "letter", "{report}");
    assert_eq!(std::fs::read(data.join("letter")).unwrap(), b"acknowledged");
    // There is nothing left to do, whatever happens to the file now.
    std::fs::remove_file(data.join("letter")).unwrap();
    let report = env.run(&["recover", "POOL", "--json"]).json();
    assert_eq!(report["files"]["files"], 0, "{report}");
    assert_eq!(report["files"]["names_changed"], 0, "{report}");
}

#[test]
fn a_pipe_in_the_place_of_a_pool_is_refused_and_not_waited_for() {
    let env = TestEnv::new();
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, env.path("pool"), kind, mode, 0).unwrap();
    for command in [
        &["info", "POOL"][..],
        &["check", "POOL"],
        &["recover", "POOL", "--dry-run"],
        &["recover", "POOL"],
        &["create", "POOL", "--size", "8M", "--force"],
        SERVE_NBD,
    ] {
        let outcome = env.run(command);
        assert!(
            [1, 2, 3].contains(&outcome.code),
            "{command:?}: {}",
            outcome.stderr
        );
        assert!(outcome.stderr.contains("pool"), "{}", outcome.stderr);
    }
    let attach = [
        "serve",
        "--pool",
        "./other",
        "--backing",
        "POOL",
        "--nbd",
        "NBD",
    ];
    env.ask(&["create", "./other", "--size", "8M"]);
    let outcome = env.run(&attach);
    assert_eq!(outcome.code, 1, "{}", outcome.stderr);
}

#[test]
fn a_kernel_that_does_not_exist_is_refused_with_code_2_and_touches_nothing() {
    let env = TestEnv::new();
    let forced = |kernel: &str, arguments: &[&str]| -> Outcome {
        let mut command = env.command(arguments);
        let output = command.env("FOREBAY_KERNEL", kernel).output();
        output.unwrap().into()
    };
    let create = ["create", "POOL", "--size", "8M"];
    let refused = forced("nonsense", &create);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    let said = &refused.stderr;
    assert!(said.contains("FOREBAY_KERNEL") && said.contains("nonsense"));
    assert!(said.contains("portable"), "names those there are: {said}");
    assert!(!env.path("pool").exists());
    let created = forced("portable", &create);
    assert_eq!(created.code, 0, "{}", created.stderr);
}
