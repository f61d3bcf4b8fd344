//! What the model says of each file is what the blocks hold that it gave to an engine.

use super::*;

const OPTIONS: FileSystemOptions = FileSystemOptions {
    disk_bytes: 8 << 20,
    inodes: 256,
    transaction_blocks_max: 32,
    page_cache_blocks: 0,
};

/// A disk in memory that takes transactions.
fn apply(image: &mut [u8], actions: &[Action]) {
    let mut pending: Vec<(u64, &[u8])> = Vec::new();
    for action in actions {
        match action {
            Action::Read { .. } => {}
            Action::Write { block, bytes } => pending.push((*block, bytes)),
            Action::Update {
                block,
                bytes,
                changed,
            } => {
                let start = *block as usize * BLOCK_BYTES;
                let mut patched = image[start..start + BLOCK_BYTES].to_vec();
                for range in changed {
                    patched[range.clone()].copy_from_slice(&bytes[range.clone()]);
                }
                assert_eq!(patched, **bytes, "nothing else of block {block} changed");
                pending.push((*block, bytes));
            }
            Action::Commit => {
                assert!(pending.len() <= OPTIONS.transaction_blocks_max as usize);
                for (block, bytes) in pending.drain(..) {
                    let start = block as usize * BLOCK_BYTES;
                    image[start..start + BLOCK_BYTES].copy_from_slice(bytes);
                }
            }
        }
    }
    assert!(pending.is_empty(), "a commit follows the writes");
}

fn check(file_system: &FileSystem, image: &[u8]) {
    for block in file_system.live_blocks() {
        let start = block as usize * BLOCK_BYTES;
        let bytes = &image[start..start + BLOCK_BYTES];
        assert!(file_system.is_right(block, bytes), "block {block}");
    }
}

#[test]
fn the_disk_holds_what_the_model_says_whatever_is_done() {
    let mut random = fastrand::Rng::with_seed(5);
    let mut file_system = FileSystem::new(&OPTIONS);
    let directory = file_system.create_directory(200);
    let mut none = Vec::new();
    let mut content = fastrand::Rng::with_seed(6);
    let fill: Fill<'_> = &mut |_, bytes| content.fill(bytes);
    let mut files = Vec::new();
    for name in 0..40 {
        let file = file_system.create(directory, name, &mut none);
        file_system.append(file, 12, fill, &mut none);
        files.push(file);
    }
    assert!(none.is_empty(), "preparation makes no actions");
    let mut image = file_system.take_image();
    check(&file_system, &image);
    for step in 0..4000 {
        file_system.advance_clock(1_000_000);
        let mut actions = Vec::new();
        let at = random.usize(..files.len());
        let file = files[at];
        match random.u32(..10) {
            0 if files.len() < 60 => {
                files.push(file_system.create(directory, random.u64(..), &mut actions));
            }
            1 if files.len() > 20 => {
                file_system.delete(files.swap_remove(at), &mut actions);
            }
            2 if file_system.free_blocks() > 200 => {
                file_system.append(file, random.u64(1..20), fill, &mut actions);
            }
            3..=5 if file_system.file_blocks(file) > 0 => {
                let first = random.u64(..file_system.file_blocks(file));
                file_system.write(file, first, 1, fill, &mut actions);
            }
            6 => file_system.commit(&mut actions),
            _ => file_system.read(file, 0, 4, &mut actions),
        }
        apply(&mut image, &actions);
        if step % 500 == 0 {
            let mut actions = Vec::new();
            file_system.commit(&mut actions);
            apply(&mut image, &actions);
            check(&file_system, &image);
        }
    }
}

#[test]
fn an_access_changes_two_ranges_of_an_inode() {
    let mut file_system = FileSystem::new(&OPTIONS);
    let directory = file_system.create_directory(10);
    let mut actions = Vec::new();
    let file = file_system.create(directory, 1, &mut actions);
    file_system.append(file, 4, &mut |_, bytes| bytes.fill(3), &mut actions);
    let _ = file_system.take_image();
    file_system.advance_clock(1_500_000_000);
    file_system.read(file, 1, 2, &mut actions);
    file_system.commit(&mut actions);
    let [Action::Read { blocks: 2, .. }, update, Action::Commit] = &actions[..] else {
        panic!("{actions:?}");
    };
    let Action::Update { changed, .. } = update else {
        panic!("{update:?}");
    };
    let start = changed[0].start / 256 * 256;
    assert_eq!(*changed, [start + 8..start + 12, start + 124..start + 144]);
}

#[test]
fn what_dram_holds_is_not_read_below() {
    let mut file_system = FileSystem::new(&FileSystemOptions {
        page_cache_blocks: 3,
        ..OPTIONS
    });
    let directory = file_system.create_directory(10);
    let mut actions = Vec::new();
    let file = file_system.create(directory, 1, &mut actions);
    file_system.append(file, 4, &mut |_, bytes| bytes.fill(3), &mut actions);
    let _ = file_system.take_image();
    let mut blocks_read = |first, count| {
        let mut actions = Vec::new();
        file_system.read_quietly(file, first, count, &mut actions);
        let blocks = actions.iter().map(|action| match action {
            Action::Read { blocks, .. } => *blocks,
            other => panic!("{other:?}"),
        });
        blocks.sum::<u32>()
    };
    // The last three of four blocks are there since they were written.
    assert_eq!(blocks_read(1, 3), 0);
    assert_eq!(blocks_read(0, 1), 1);
    assert_eq!(blocks_read(2, 2), 0);
    assert_eq!(blocks_read(1, 1), 1);
}

#[test]
fn a_file_in_pieces_gets_a_leaf_of_extents() {
    let mut file_system = FileSystem::new(&OPTIONS);
    let directory = file_system.create_directory(10);
    let mut actions = Vec::new();
    let first = file_system.create(directory, 1, &mut actions);
    let second = file_system.create(directory, 2, &mut actions);
    let mut image = file_system.take_image();
    for _ in 0..10 {
        file_system.append(first, 1, &mut |_, bytes| bytes.fill(1), &mut actions);
        file_system.append(second, 1, &mut |_, bytes| bytes.fill(2), &mut actions);
    }
    file_system.commit(&mut actions);
    file_system.delete(first, &mut actions);
    file_system.commit(&mut actions);
    apply(&mut image, &actions);
    check(&file_system, &image);
}
