//! Random steps against plain memory, with kills; what is refused; broken disks; garbage.

use std::path::Path;

use super::world::{BLOCK, Step, World, bytes_of, random_step, tiny_options};
use crate::autobahn::{AutoBahnOptions, WriteMode};

fn agrees(options: &AutoBahnOptions, seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut world = World::new(options);
    let mut truth = World::first_truth();
    for number in 0..400 {
        let step = random_step(&mut rng, &truth);
        world.act(&step, &mut truth);
        if rng.u8(..40) == 0 {
            world = world.killed();
            assert!(world.content() == truth, "after a kill at {number}");
        }
    }
    assert!(world.content() == truth, "in the end");
    let stages = world.buffer.stages();
    assert!(stages.flushed_blocks >= stages.flush_writes, "{stages:?}");
}

#[test]
fn random_steps_agree_with_plain_memory() {
    for seed in 0..8 {
        agrees(&tiny_options(), seed);
        agrees(
            &AutoBahnOptions {
                inode_bytes: 64,
                flushers: 1,
                flush_content: true,
                watermark: Some(0),
                ..tiny_options()
            },
            seed,
        );
        agrees(
            &AutoBahnOptions {
                as_printed: true,
                ..tiny_options()
            },
            seed,
        );
    }
}

#[test]
fn what_the_paper_refuses_is_refused_by_name() {
    let mut world = World::new(&tiny_options());
    let told = |error: std::io::Error| error.to_string();
    let again = world.buffer.open_file(Path::new("one"), WriteMode::Partial);
    assert!(told(again.expect_err("§5.5")).contains("one: it is open already"));
    let gap = world.files[1].write_at(10, b"beyond");
    assert!(told(gap.expect_err("a hole")).contains("two: a write begins beyond its end"));
    let mut third = world
        .buffer
        .open_file(Path::new("three"), WriteMode::Aligned)
        .expect("open");
    assert!(told(third.append(b"few").expect_err("§5.4")).contains("whole blocks"));
    third.append(&bytes_of(1, BLOCK)).expect("a block");
    let fourth = world
        .buffer
        .open_file(Path::new("four"), WriteMode::Aligned);
    assert!(told(fourth.expect_err("three volumes")).contains("all volumes are in use"));
    third.close().expect("closed");
    let long = "x".repeat(449);
    let long = world.buffer.open_file(Path::new(&long), WriteMode::Aligned);
    assert!(told(long.expect_err("a long path")).contains("room for 448"));
    world
        .buffer
        .open_file(Path::new("four"), WriteMode::Aligned)
        .expect("a volume");
}

#[test]
fn a_broken_disk_stops_the_buffer_and_loses_nothing() {
    let mut world = World::new(&tiny_options());
    let mut truth = World::first_truth();
    let write = Step::Write {
        file: 1,
        offset: 0,
        len: 4 * BLOCK,
        seed: 5,
    };
    world.act(&write, &mut truth);
    world.folder.set_broken(true);
    let error = world.buffer.run_stages().expect_err("broken").to_string();
    assert!(error.contains("the disk is broken"), "{error}");
    let error = world.files[0]
        .append(b"more")
        .expect_err("stopped")
        .to_string();
    assert!(error.contains("the buffer stopped"), "{error}");
    assert!(world.content() == truth, "reads go on");
    world.folder.set_broken(false);
    assert!(world.killed().content() == truth);
}

#[test]
fn garbage_is_refused_or_served() {
    let mut world = World::new(&tiny_options());
    let mut truth = World::first_truth();
    let mut rng = fastrand::Rng::with_seed(3);
    for _ in 0..30 {
        let step = random_step(&mut rng, &truth);
        world.act(&step, &mut truth);
    }
    let (image, files) = (
        world.shadow.crash_state().durable().to_vec(),
        world.folder.durable(),
    );
    for seed in 0..300 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut image = image.clone();
        for _ in 0..rng.usize(1..20) {
            // Where the words are.
            let at = rng.usize(..6200).min(image.len() - 1);
            image[at] = rng.u8(..);
        }
        drop(crate::autobahn::AutoBahn::open(
            forebay_pmem::Region::shadow_from(&image),
            super::files::MemoryFolder::holding(&files),
            &tiny_options(),
        ));
    }
    let zeroes = vec![0; image.len()];
    assert!(World::after_cut(&tiny_options(), &zeroes, &files).is_err());
}
