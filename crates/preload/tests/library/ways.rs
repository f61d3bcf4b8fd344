//! Ways to a file past read and write, and names made past the log.

use crate::rig::{self, Rig};

#[test]
fn ways_past_the_library_find_what_was_written() {
    let Some(program) = rig::compile("ways") else {
        return;
    };
    let (plain, buffered) = (Rig::new(), Rig::new());
    let expected = plain.run_plain(&program, &[]);
    let found = buffered.run(&program, &[]);
    rig::assert_same_text(&found.stdout, &expected.stdout, "ways");
    assert!(found.status.success());
    assert!(
        buffered.log().contains("has the pool"),
        "{}",
        buffered.log()
    );
    rig::assert_same_content(&buffered, &plain, "ways");
    assert!(!buffered.owner_mark().exists());
}

#[test]
fn a_quick_end_brings_everything_back() {
    let Some(program) = rig::compile("ways") else {
        return;
    };
    let rig = Rig::new();
    assert_eq!(rig.run(&program, &["quick"]).status.code(), Some(3));
    assert!(!rig.owner_mark().exists());
    assert_eq!(rig.content()["quick"], b"0123456789abcdef");
}

#[test]
fn folders_are_synced_by_the_kernel_where_the_log_missed_a_name() {
    let (Some(program), Some(counter)) = (rig::compile("ways"), rig::compile("count_syncs")) else {
        return;
    };
    let program = program.to_str().unwrap();
    let plain = Rig::new().run_plain(&counter, &[program, "folders"]);
    if rig::text(&plain.stdout) != "12 0\n" {
        println!("skipped folders: no program can be traced here");
        return;
    }
    let rig = Rig::new();
    let found = rig.run(&counter, &[program, "folders"]);
    // Seven of the program's, one as a name that is older than the log is changed, one for the mark
    // beside the pool, one for the mark that names the pool.
    assert_eq!(rig::text(&found.stdout), "10 0\n", "{}", rig.log());
}

#[test]
fn a_sync_of_the_file_system_is_one_of_the_pool() {
    let (Some(program), Some(counter)) = (rig::compile("ways"), rig::compile("count_syncs")) else {
        return;
    };
    let program = program.to_str().unwrap();
    let syncs = |times: &str| {
        let rig = Rig::on_ssd()?;
        let mut command = rig.preloaded(&counter, &[program, "systems", times]);
        let output = command.env("COUNTED_FILE", rig.pool()).output().unwrap();
        let said = rig::text(&output.stdout);
        match said.trim().split_once(' ') {
            Some((syncs, "0")) => Some(syncs.parse::<u64>().unwrap()),
            _ => {
                println!("skipped systems: no program can be traced here: {said}");
                None
            }
        }
    };
    let (Some(few), Some(many)) = (syncs("3"), syncs("12")) else {
        return;
    };
    assert_eq!(many - few, 9, "one for each of the program's");
}
