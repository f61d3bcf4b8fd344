//! The mirror of small blocks that tests of its members' comings and goings share.

use std::ops::ControlFlow;
use std::sync::Arc;

use forebay::{MemberState, Pool, PoolOptions, RebuildProgress, Redundancy, RuntimeOptions};
use forebay_pmem::shadow::{Shadow, ShadowModel};

pub const BLOCK: usize = 128;
/// Of each member, unless a test says otherwise.
pub const MEMBER_BYTES: u64 = 16 << 10;

pub fn options() -> PoolOptions {
    PoolOptions::default()
        .block_bytes(BLOCK as u32)
        .unit_bytes(256)
        .volumes(2)
        .lanes(2)
        .lane_bytes(2048)
        .background(false)
        .accept_stale(true)
        .redundancy(Redundancy::Mirror)
}

pub fn runtime() -> RuntimeOptions {
    options().runtime_options().clone()
}

pub fn shadow() -> Arc<Shadow> {
    shadow_of(MEMBER_BYTES)
}

pub fn shadow_of(bytes: u64) -> Arc<Shadow> {
    Arc::new(Shadow::new(bytes, ShadowModel::Lines))
}

/// What a power cut leaves at least.
pub fn durable(shadow: &Shadow) -> Vec<u8> {
    shadow.crash_state().durable().to_vec()
}

/// The members that are in.
pub fn members_in(pool: &Pool) -> Vec<u32> {
    let members = pool.members().into_iter();
    let in_use = members.filter(|member| member.state == MemberState::In);
    in_use.map(|member| member.number).collect()
}

pub fn go_on(_: RebuildProgress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}
