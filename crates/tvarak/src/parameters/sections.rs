//! What a file of parameters has, section by section.

use serde::Deserialize;

use crate::parameters::sourced::Sourced;

/// Why a file of parameters is refused.
#[derive(Debug, thiserror::Error)]
#[error("the parameters {0}")]
pub struct ParametersError(pub(in crate::parameters) String);

macro_rules! section {
    ($(#[$about:meta])* $name:ident { $($field:ident),+ $(,)? }) => {
        $(#[$about])*
        #[allow(missing_docs, reason = "the file says of each what it is; names end in units")]
        #[derive(Clone, Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name { $(pub $field: Sourced),+ }
    };
}

section! {
    /// The cores.
    Cores {
        count, frequency_mhz, instructions_per_cycle, reorder_instructions, store_buffer_stores, fill_buffers,
        bytes_per_instruction, instruction_pj, static_mw,
    }
}
section! {
    /// A cache of one core.
    CacheLevel { size_bytes, ways, latency_cycles, hit_pj, miss_pj }
}
section! {
    /// The shared cache.
    Llc { banks, bank_bytes, ways, latency_cycles, hit_pj, miss_pj }
}
section! {
    /// DIMMs of one kind.
    Memory { dimms, read_ns, write_ns, banks, transfer_ns, read_pj, write_pj }
}
section! {
    /// The redundancy controller of each bank of the shared cache.
    Controller {
        cache_bytes, cache_ways, latency_cycles, hit_pj, miss_pj, range_match_cycles, computation_cycles,
        redundancy_ways, diff_ways,
    }
}
section! {
    /// Ways divided at run time, in the design that adapts.
    Adaptive { shadowed_sets, round_accesses, trial_rounds, better_by }
}
section! {
    /// fio, as §4.5 has it.
    Fio {
        threads, region_bytes, work_bytes, access_bytes, code_bytes, sequential_read_instructions,
        sequential_write_instructions, random_read_instructions, random_write_instructions,
        sequential_read_own_accesses, sequential_write_own_accesses, random_read_own_accesses,
        random_write_own_accesses,
    }
}
section! {
    /// stream, as §4.6 has it.
    Stream {
        threads, array_bytes, copy_line_instructions, scale_line_instructions, add_line_instructions,
        triad_line_instructions,
    }
}

section! {
    /// The designs in software.
    Txb {
        transaction_instructions, transaction_own_accesses, object_instructions, object_own_accesses,
        lone_write_instructions, lone_write_own_accesses, sum_line_instructions, parity_line_instructions,
        copy_line_instructions,
    }
}

section! {
    /// The asynchronous design.
    Passes { period_us, first_store_ns, scan_page_ns }
}

section! {
    /// The designs of Forebay's own regions.
    Regions {
        pass_instructions, pass_own_accesses, sync_instructions, sync_own_accesses, page_instructions,
        page_own_accesses, line_instructions, line_own_accesses,
    }
}

section! {
    /// The programs, all of them.
    Programs { work_divisor, warm_up_divisor, code_bytes }
}
section! {
    /// A heap with transactions.
    HeapWork {
        transaction_instructions, transaction_own_accesses, first_snapshot_instructions,
        first_snapshot_own_accesses, snapshot_instructions, snapshot_own_accesses, snapshot_move_instructions,
        snapshot_move_own_accesses, allocate_instructions, allocate_own_accesses, free_instructions,
        free_own_accesses,
    }
}
section! {
    /// The trees, as §4.3 has them.
    Trees { instances, operations }
}
section! {
    /// One of the trees.
    TreeWork {
        get_instructions, get_own_accesses, get_level_instructions, get_level_own_accesses, insert_instructions,
        insert_own_accesses, insert_level_instructions, insert_level_own_accesses,
    }
}
section! {
    /// Redis, as §4.2 has it.
    Redis {
        instances, requests, keys, value_bytes, set_instructions, set_own_accesses, get_instructions,
        get_own_accesses,
    }
}
section! {
    /// N-Store, as §4.4 has it.
    NStore {
        threads, transactions, tuples, field_bytes, log_nodes, hot_tuples_percent, hot_transactions_percent,
        update_instructions, update_own_accesses, read_instructions, read_own_accesses,
    }
}

/// All of them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    /// The cores.
    pub cores: Cores,
    /// The cache of data next to a core.
    pub l1d: CacheLevel,
    /// That of instructions.
    pub l1i: CacheLevel,
    /// The second one of a core.
    pub l2: CacheLevel,
    /// The shared one.
    pub llc: Llc,
    /// DRAM.
    pub dram: Memory,
    /// NVM.
    pub nvm: Memory,
    /// The redundancy controllers.
    pub controller: Controller,
    /// How ways are divided in the design that adapts.
    pub adaptive: Adaptive,
    /// The workload fio.
    pub fio: Fio,
    /// The workload stream.
    pub stream: Stream,
    /// The designs in software.
    pub txb: Txb,
    /// The asynchronous design.
    pub passes: Passes,
    /// Forebay's own regions.
    pub regions: Regions,
    /// What all programs have in common.
    pub programs: Programs,
    /// Their heap.
    pub heap: HeapWork,
    /// The workloads of the trees.
    pub trees: Trees,
    /// C-Tree.
    pub ctree: TreeWork,
    /// B-Tree.
    pub btree: TreeWork,
    /// RB-Tree.
    pub rbtree: TreeWork,
    /// The workloads of Redis.
    pub redis: Redis,
    /// The workloads of N-Store.
    pub nstore: NStore,
}
