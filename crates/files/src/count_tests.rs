//! What writes cost the pool, exactly.

use std::sync::Arc;

use forebay::Counters;

use crate::buffer::FileBuffer;
use crate::facts::SyncKind;
use crate::file::BufferedFile;
use crate::testing::{Rig, open_file};

fn spent(buffer: &FileBuffer, act: impl FnOnce()) -> (u64, u64) {
    let before = buffer.counters();
    act();
    let Counters {
        lines_flushed,
        lines_streamed,
        fences,
        ..
    } = buffer.counters() - before;
    (lines_flushed + lines_streamed, fences)
}

fn hot_file(rig: &Rig, buffer: &Arc<FileBuffer>) -> Arc<BufferedFile> {
    let file = buffer.adopt(open_file(&rig.path("hot"))).expect("adopt");
    file.sync(SyncKind::Data).expect("sync");
    // The row, its block and the segment are made.
    file.append(&[1; 256], true).expect("append");
    file
}

#[test]
fn an_append_and_its_sync_cost_the_bytes_two_lines_of_log_and_a_fence() {
    let rig = Rig::new(4 << 20);
    let buffer = rig.open().expect("open");
    let file = hot_file(&rig, &buffer);
    for number in 1..64 {
        let cost = spent(&buffer, || {
            file.append(&[7; 256], false).expect("append");
            file.sync(SyncKind::Data).expect("sync");
        });
        // The first one of a block brings the line with the block's valid length.
        let begins = u64::from(number % 16 == 0);
        assert_eq!(cost, (4 + 2 + begins, 1), "append {number}");
    }
}

#[test]
fn whole_blocks_cost_themselves_a_record_and_a_fence() {
    let rig = Rig::new(4 << 20);
    let buffer = rig.open().expect("open");
    let file = hot_file(&rig, &buffer);
    let blocks: Vec<u8> = (0..3 * 4096u32)
        .map(|at| ((at * 7919) >> 5) as u8)
        .collect();
    file.write_at(4096, &blocks, true).expect("write");
    let other: Vec<u8> = blocks.iter().map(|byte| byte ^ 0x55).collect();
    let cost = spent(&buffer, || {
        file.write_at(4096, &other, true).expect("write")
    });
    // 32 bytes of header and 24 for each block are two lines; the size does not change.
    assert_eq!(cost, (3 * 64 + 2, 1));
}

#[test]
fn cold_files_cost_the_pool_nothing() {
    let rig = Rig::new(4 << 20);
    let buffer = rig.open().expect("open");
    let file = buffer.adopt(open_file(&rig.path("cold"))).expect("adopt");
    let cost = spent(&buffer, || {
        for number in 0..100 {
            file.write_at(number * 5000, &[3; 5000], false)
                .expect("write");
        }
        let mut out = vec![0; 500_000];
        assert_eq!(file.read_at(0, &mut out).expect("read"), out.len());
    });
    assert_eq!(cost, (0, 0));
}
