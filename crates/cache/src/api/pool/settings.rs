//! What can be set while a pool is open: when reads verify, and which blocks are evicted.

use crate::api::pool::Pool;
use crate::options::{ReplacementPolicy, VerifyPolicy};
use crate::sync::Ordering;

impl Pool {
    /// When reads compare data with checks; can be changed at any time.
    pub fn set_verify(&self, policy: VerifyPolicy) {
        self.core.set_verify(policy);
    }

    /// When reads compare data with checks.
    pub fn verify(&self) -> VerifyPolicy {
        match self.core.verify.load(Ordering::Relaxed) {
            true => VerifyPolicy::Always,
            false => VerifyPolicy::Never,
        }
    }

    /// Which blocks are evicted; can be changed at any time. What the policy before had learnt of the blocks
    /// is forgotten: the new one knows them in the order of the entry table. Takes a look at every
    /// entry; reads and writes go on meanwhile.
    pub fn set_replacement(&self, policy: ReplacementPolicy) {
        let _one_at_a_time = self.lock_table();
        let core = &self.core;
        let replacement = &core.replacement;
        let before = replacement.policy();
        if before == policy {
            return;
        }
        replacement.begin_telling(policy);
        core.index.wait_for_holders();
        for index in 0..core.media.geometry.entries {
            let entry = core.media.load_entry(index);
            if entry.is_free() || !entry.parity_holds() {
                continue;
            }
            let stripe = core.bucket(entry.key()).stripe;
            core.index.lock(stripe);
            let now = core.media.load_entry(index);
            if !now.is_free() && now.key() == entry.key() {
                replacement.tell(policy, index);
            }
            core.index.unlock(stripe);
        }
        replacement.switch(before, policy);
        core.index.wait_for_holders();
        replacement.empty(before);
    }

    /// Which blocks are evicted.
    pub fn replacement(&self) -> ReplacementPolicy {
        self.core.replacement.policy()
    }
}
