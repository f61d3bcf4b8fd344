//! A trace as a workload.

use std::collections::BTreeSet;
use std::sync::Arc;

use forebay_pmem::crc32c;

use super::super::content::Fresh;
use super::super::{Action, BLOCK_BYTES, Operation, Workload};
use super::{Request, Trace};

/// Replays a trace, one request an operation, from its beginning again after its end.
pub(in super::super) struct Replay {
    trace: Arc<Trace>,
    next: usize,
    transaction_blocks_max: u64,
    content: Fresh,
    /// The CRC32C of each block that was written.
    digests: Vec<Option<u32>>,
}

impl Replay {
    pub(in super::super) fn new(
        trace: &Arc<Trace>,
        transaction_blocks_max: u64,
        seed: u64,
    ) -> Replay {
        Replay {
            trace: trace.clone(),
            next: 0,
            transaction_blocks_max: transaction_blocks_max.max(1),
            content: Fresh::new(seed),
            digests: vec![None; trace.disk_blocks as usize],
        }
    }

    /// Whole new blocks, in as many transactions as it takes.
    fn write(&mut self, request: Request, actions: &mut Vec<Action>) {
        for written in 0..u64::from(request.blocks) {
            if written > 0 && written.is_multiple_of(self.transaction_blocks_max) {
                actions.push(Action::Commit);
            }
            let block = request.block + written;
            let mut bytes = vec![0; BLOCK_BYTES].into_boxed_slice();
            self.content.fill(&mut bytes);
            self.digests[block as usize] = Some(crc32c(&bytes));
            actions.push(Action::Write { block, bytes });
        }
        actions.push(Action::Commit);
    }
}

impl Workload for Replay {
    fn name(&self) -> &str {
        self.trace.name()
    }

    /// A write counts as many times as it has blocks: traces have requests of all sizes.
    fn next(&mut self, actions: &mut Vec<Action>) -> Operation {
        let request = self.trace.requests[self.next];
        self.next = (self.next + 1) % self.trace.requests.len();
        let blocks = u64::from(request.blocks);
        if request.is_write {
            self.write(request, actions);
            return Operation {
                writes: blocks,
                reads: 0,
                payload_bytes: request.length_bytes,
            };
        }
        actions.push(Action::Read {
            block: request.block,
            blocks: request.blocks,
        });
        Operation {
            writes: 0,
            reads: blocks,
            payload_bytes: 0,
        }
    }

    /// Until the requests have touched as many blocks as the cache holds; at most half the trace.
    fn warm_up_operations(&self, cache_blocks: u64) -> u64 {
        let mut touched = BTreeSet::new();
        let half = self.trace.requests.len() / 2;
        let fills = |request: &Request| {
            touched.extend(request.block..request.block + u64::from(request.blocks));
            touched.len() as u64 > cache_blocks
        };
        let requests = &self.trace.requests[..half];
        requests.iter().position(fills).unwrap_or(half) as u64
    }

    fn disk_bytes(&self) -> u64 {
        self.trace.disk_bytes()
    }

    fn take_image(&mut self) -> Vec<u8> {
        vec![0; self.disk_bytes() as usize]
    }

    fn settle(&mut self, _actions: &mut Vec<Action>) {}

    fn live_blocks(&self) -> Vec<u64> {
        let written = (0..).zip(&self.digests);
        let written = written.filter_map(|(block, digest)| digest.map(|_| block));
        written.collect()
    }

    fn is_right(&self, block: u64, bytes: &[u8]) -> bool {
        let digest = self.digests.get(block as usize).copied().flatten();
        digest.is_none_or(|digest| digest == crc32c(bytes))
    }
}
