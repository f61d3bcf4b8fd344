//! What the paper's letter loses, and the default does not.

use super::crashes::{Crash, crash_after_kills, crash_within, verify};
use super::world::{BLOCK, Content, Step, World, bytes_of, states, tiny_options};
use crate::autobahn::AutoBahnOptions;

fn printed() -> AutoBahnOptions {
    AutoBahnOptions {
        as_printed: true,
        ..tiny_options()
    }
}

fn write(file: usize, offset: usize, len: usize, seed: u64) -> Step {
    Step::Write {
        file,
        offset,
        len,
        seed,
    }
}

/// Runs steps and then crashes all over the last ones, as printed and not.
fn both(before: &[Step], script: &[Step]) -> [Result<usize, String>; 2] {
    [printed(), tiny_options()].map(|options| {
        let mut world = World::new(&options);
        let mut truth = World::first_truth();
        for step in before {
            world.act(step, &mut truth);
        }
        crash_within(world, &truth, script, (60, 1))
    })
}

/// Finding 1 (§5.2.1, §4.5).
#[test]
fn two_inodes_have_one_block_after_a_switch() {
    let before = [write(0, 0, BLOCK, 1)];
    let [as_printed, ours] = both(&before, &[write(0, 0, BLOCK, 2)]);
    let lost = as_printed.expect_err("the free inode's block is the other one's, too");
    assert!(
        lost.contains("after further writes something else"),
        "{lost}"
    );
    ours.expect("free inodes get blocks that are nobody's");
}

/// Finding 2 (§4.3.3, §4.5).
#[test]
fn a_reclaimed_block_is_still_anothers_clean_one() {
    // A block is clean, reclaimed, and another one's content is under way into it.
    let before = [
        write(0, 0, BLOCK, 1),
        Step::Stages,
        write(0, BLOCK, BLOCK, 3),
    ];
    let script = [
        write(1, 0, 3 * BLOCK, 4),
        write(1, 3 * BLOCK, 3 * BLOCK, 5),
        write(1, 6 * BLOCK, 3 * BLOCK, 6),
    ];
    let [as_printed, ours] = both(&before, &script);
    let lost = as_printed.expect_err("another file's bytes are served");
    assert!(
        lost.contains("neither what they did before nor after"),
        "{lost}"
    );
    ours.expect("nothing clean is believed");
}

/// Finding 3 (§5.2.2, Figure 9).
#[test]
fn a_block_that_is_overwritten_and_grows_is_neither_old_nor_new() {
    let before = [write(0, 3 * BLOCK, 20, 9)];
    let [as_printed, ours] = both(&before, &[write(0, 3 * BLOCK + 8, 100, 4)]);
    let lost = as_printed.expect_err("two commit points");
    assert!(
        lost.contains("neither what they did before nor after"),
        "{lost}"
    );
    ours.expect("one word");
}

/// Finding 4 (§4.5 tests nothing).
#[test]
fn a_power_cut_after_a_kill_takes_back_what_recovery_believed() {
    let before = [write(1, 0, 100, 3)];
    let killed = write(1, 100, 60, 5);
    let lost = crash_after_kills(&printed(), &before, &killed, 8).expect_err("believed too soon");
    assert!(
        lost.contains("a file itself is longer than what was written"),
        "{lost}"
    );
    crash_after_kills(&tiny_options(), &before, &killed, 8).expect("made durable before");
}

/// Finding 5 (Table 2): the full path alone says which file it is.
#[test]
fn a_file_of_the_same_name_gets_anothers_blocks() {
    let outcome = |options: &AutoBahnOptions| {
        let mut world = World::new(options);
        let mut truth = World::first_truth();
        world.act(&write(0, 0, BLOCK, 1), &mut truth);
        world.folder.rename("one", "elsewhere");
        let mut files = world.folder.durable();
        files.insert("one".into(), (99, bytes_of(8, 30)));
        let medium = world.shadow.crash_state().durable().to_vec();
        World::after_cut(options, &medium, &files).map(|world| world.folder.durable())
    };
    let files = outcome(&printed()).expect("nothing is noticed");
    let theirs = &files[std::path::Path::new("one")].1;
    assert!(
        theirs[..30] != bytes_of(8, 30),
        "another file's bytes are overwritten"
    );
    outcome(&tiny_options()).expect_err("refused");
}

/// The claim of §4.5 holds: a recovery that is cut off anywhere may be begun again.
#[test]
fn recovery_is_idempotent_as_printed() {
    let mut world = World::new(&printed());
    let mut truth: Vec<Content> = World::first_truth();
    for step in [write(1, 0, 3 * BLOCK, 3), write(0, 0, 50, 4)] {
        world.act(&step, &mut truth);
    }
    let (medium, files) = (
        world.shadow.crash_state().durable().to_vec(),
        world.folder.durable(),
    );
    let legal = states(&Step::Read(0), &truth);
    let crash = Crash {
        step: 0,
        event: "rest".into(),
        medium,
        files,
    };
    verify(&printed(), &crash, &legal).expect("recovered");
}
