//! A pool of one copy with checksums, as an operator has it on a bad day.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::drills::{BLOCK, BLOCKS, client, content, inject, scrub, write};
use crate::test_env::TestEnv;

const LINE_BYTES: u64 = 64;

/// Turns a word of the pool over, which no flipped bit does.
fn spoil(env: &TestEnv, offset: u64) {
    let mut options = File::options();
    let file = options.read(true).write(true).open(env.path("pool"));
    let (file, mut word) = (file.unwrap(), [0; 8]);
    file.read_exact_at(&mut word, offset).unwrap();
    file.write_all_at(&word.map(|byte| !byte), offset).unwrap();
}

#[test]
fn a_lost_line_of_the_table_is_refused_until_the_loss_is_accepted() {
    let env = TestEnv::new();
    let create = ["create", "POOL", "--size", "8M", "--test"];
    env.ask(&[&create[..], &["--redundancy", "checksum"]].concat());
    let water = ["--dirty-low", "90", "--dirty-high", "95"];
    let daemon = env.serve_nbd(&water);
    let mut disk = client(&env);
    write(&mut disk, 1);
    // It begins with a checkpoint. What the drill says is where a line stands.
    scrub(&env);
    let struck = inject(&env, &["bit-flip", "--area", "table"]);
    let line = struck["offset"].as_u64().unwrap() / LINE_BYTES * LINE_BYTES;
    drop(disk);
    daemon.end();
    spoil(&env, line);

    let way_out = "forebay recover --accept-loss";
    env.refuses_nbd(&water, 3, way_out);
    env.refuses(&["recover", "POOL"], 3, way_out);
    let recover = ["recover", "POOL", "--accept-loss"];
    let dry = env.ask(&[&recover[..], &["--dry-run"]].concat());
    assert_eq!(dry["damage"].as_array().map(Vec::len), Some(1), "{dry}");
    env.refuses(&["info", "POOL"], 3, way_out);
    let recovered = env.ask(&recover);
    assert_eq!(recovered["damage"], dry["damage"]);

    let daemon = env.serve_nbd(&water);
    let mut disk = client(&env);
    let mut read = |block| disk.read(block * BLOCK, BLOCK as usize).unwrap();
    let lost = (0..BLOCKS).filter(|block| read(*block) != content(*block, 1));
    let lost: Vec<u64> = lost.collect();
    assert!((1..=4).contains(&lost.len()), "{lost:?} of a line of four");
    let image_has = |block: &u64| read(*block).iter().all(|byte| *byte == 0);
    assert!(lost.iter().all(image_has), "{lost:?}");
    drop(disk);
    daemon.end();
}
