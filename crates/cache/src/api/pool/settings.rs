//! What can be set while a pool is open: when reads verify, and which blocks are evicted.

use crate::api::pool::MemoryPool;
use crate::options::{ReplacementPolicy, VerifyPolicy};

impl MemoryPool {
    /// When reads compare data with checks; can be changed at any time.
    pub fn set_verify(&self, policy: VerifyPolicy) {
        self.pipeline.engine().set_verify(policy);
    }

    /// When reads compare data with checks.
    pub fn verify(&self) -> VerifyPolicy {
        self.pipeline.engine().verify_policy()
    }

    /// Which blocks are evicted; can be changed at any time. What the policy before had learnt of the blocks
    /// is forgotten: the new one knows them in the order of the entry table. Takes a look at every
    /// entry; reads and writes go on meanwhile.
    pub fn set_replacement(&self, policy: ReplacementPolicy) {
        let _one_at_a_time = self.lock_table();
        let pipeline = &self.pipeline;
        let replacement = &pipeline.engine().replacement();
        let before = replacement.policy();
        if before == policy {
            return;
        }
        replacement.begin_telling(policy);
        pipeline.table().index().wait_for_holders();
        for index in 0..pipeline.media().geometry.entries {
            let entry = pipeline.table().entries().load(index);
            if entry.is_free() || !entry.parity_holds() {
                continue;
            }
            let stripe = pipeline.table().bucket(entry.key()).stripe;
            pipeline.table().index().lock(stripe);
            let now = pipeline.table().entries().load(index);
            if !now.is_free() && now.key() == entry.key() {
                replacement.tell(policy, index);
            }
            pipeline.table().index().unlock(stripe);
        }
        replacement.switch(before, policy);
        pipeline.table().index().wait_for_holders();
        replacement.empty(before);
    }

    /// Which blocks are evicted.
    pub fn replacement(&self) -> ReplacementPolicy {
        self.pipeline.engine().replacement().policy()
    }
}
