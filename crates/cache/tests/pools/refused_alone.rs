//! A member of a mirror that opens without the other one, and turns out to be damaged, leaves that one in: it may have what is
//! damaged here.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use forebay::{Backing, ErrorKind, MemoryStore, Pool, Region};
use forebay_pmem::shadow::{Shadow, ShadowModel};

use crate::small_mirror::{BLOCK, MEMBER_BYTES, options, runtime};

const BLOCKS: u64 = 6;

fn durable(members: &[Arc<Shadow>; 2]) -> [Vec<u8>; 2] {
    members
        .each_ref()
        .map(|member| member.crash_state().durable().to_vec())
}

fn put_witness(path: &Path, bytes: &[u8]) {
    std::fs::write(path, bytes).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

#[test]
fn a_damaged_member_had_the_other_one_left_out_before_it_was_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("witness");
    let store = Arc::new(MemoryStore::new(BLOCKS * BLOCK as u64));
    let shadow = || Arc::new(Shadow::new(MEMBER_BYTES, ShadowModel::Lines));
    let members = [shadow(), shadow()];
    let on = members.iter().cloned().map(Region::on_shadow).collect();
    let pool = Pool::create_on(on, &options()).expect("create");
    pool.set_witness(Some(&path)).expect("a witness");
    let volume = pool
        .attach(Backing::from_store(store.clone()))
        .expect("attach");
    for block in 0..BLOCKS {
        volume.write(block, &[1; BLOCK]).expect("write");
    }
    drop((volume, pool));
    let (images, witness) = (durable(&members), std::fs::read(&path).unwrap());
    let mut damaged = 0;
    for at in (0..MEMBER_BYTES as usize).step_by(61) {
        put_witness(&path, &witness);
        let mut bad = images.clone();
        bad[0][at] ^= 1;
        let shadows = bad.map(|image| Arc::new(Shadow::from_image(&image, ShadowModel::Lines)));
        let alone = vec![Region::on_shadow(shadows[0].clone())];
        let Err(refused) = Pool::open_on(alone, runtime()) else {
            continue;
        };
        if !matches!(refused.kind(), ErrorKind::Damaged { .. }) {
            continue;
        }
        damaged += 1;
        let both = shadows.iter().cloned().map(Region::on_shadow).collect();
        let pool = Pool::open_on(both, runtime()).expect("the other one has it");
        let volume = pool
            .attach(Backing::from_store(store.clone()))
            .expect("attach");
        let mut out = [0; BLOCK];
        for block in 0..BLOCKS {
            volume.read(block, &mut out).expect("read");
            assert_eq!(out, [1; BLOCK], "block {block}, byte {at}");
        }
    }
    assert!(damaged > 3, "{damaged}");
}
