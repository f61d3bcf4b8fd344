//! How a workload runs: its instances, what each does, and what that takes as counted.

use crate::parameters::{HeapWork, Parameters, Sourced, TreeWork};
use crate::programs::application::{Application, NStoreLoad, TreeLoad};
use crate::programs::heap::HeapCosts;
use crate::programs::instance::Plan;
use crate::programs::memory::Work;
use crate::programs::nstore::NStoreCosts;
use crate::programs::redis::RedisCosts;
use crate::programs::store::StoreKind;
use crate::programs::trees::{TreeCosts, TreeKind};

fn work(instructions: &Sourced, own_accesses: &Sourced) -> Work {
    Work {
        instructions: instructions.value,
        own_accesses: own_accesses.value,
    }
}

fn heap_costs(heap: &HeapWork) -> HeapCosts {
    HeapCosts {
        transaction: work(
            &heap.transaction_instructions,
            &heap.transaction_own_accesses,
        ),
        first_snapshot: work(
            &heap.first_snapshot_instructions,
            &heap.first_snapshot_own_accesses,
        ),
        snapshot: work(&heap.snapshot_instructions, &heap.snapshot_own_accesses),
        snapshot_move: work(
            &heap.snapshot_move_instructions,
            &heap.snapshot_move_own_accesses,
        ),
        allocate: work(&heap.allocate_instructions, &heap.allocate_own_accesses),
        free: work(&heap.free_instructions, &heap.free_own_accesses),
    }
}

fn tree_costs(tree: &TreeWork) -> TreeCosts {
    TreeCosts {
        get: work(&tree.get_instructions, &tree.get_own_accesses),
        get_level: work(&tree.get_level_instructions, &tree.get_level_own_accesses),
        insert: work(&tree.insert_instructions, &tree.insert_own_accesses),
        insert_level: work(
            &tree.insert_level_instructions,
            &tree.insert_level_own_accesses,
        ),
    }
}

/// How a workload runs.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    /// Instances, each on a core of its own.
    pub instances: u64,
    /// What each does.
    pub plan: Plan,
    /// Operations of each that warm the caches up.
    pub warm_up_operations: u64,
}

/// The schedule of a workload.
pub fn schedule(parameters: &Parameters, application: Application, seed: u64) -> Schedule {
    let (instances, all, keys) = match application {
        Application::RedisSet | Application::RedisGet => {
            let redis = &parameters.redis;
            (
                redis.instances.value,
                redis.requests.value,
                redis.keys.value,
            )
        }
        Application::Tree(..) => {
            let trees = &parameters.trees;
            (
                trees.instances.value,
                trees.operations.value,
                trees.operations.value,
            )
        }
        Application::NStore(_) => {
            let store = &parameters.nstore;
            let threads = store.threads.value;
            (
                threads,
                store.transactions.value / threads,
                store.tuples.value / threads,
            )
        }
    };
    let programs = &parameters.programs;
    let operations = (all / programs.work_divisor.value).max(1);
    let warm_up_operations = (all / programs.warm_up_divisor.value).max(1);
    let kind = kind(parameters, application);
    let is_insert = matches!(application, Application::Tree(_, TreeLoad::Insert));
    // What is inserted makes it as large as the others are all the time.
    let inserted = if is_insert {
        operations + warm_up_operations
    } else {
        0
    };
    // N-Store frees nothing until its log is full, and later what lies anywhere: the part that is measured is in the middle.
    let aged_operations = match application {
        Application::NStore(_) => all.saturating_sub(operations + warm_up_operations) / 2,
        Application::RedisSet | Application::RedisGet | Application::Tree(..) => 0,
    };
    let store = &parameters.nstore;
    let hot = (
        store.hot_transactions_percent.value,
        store.hot_tuples_percent.value,
    );
    let plan = Plan {
        kind,
        heap: match kind {
            // It has an allocator of its own, which what a transaction takes includes.
            StoreKind::NStore(_) => HeapCosts::default(),
            StoreKind::Redis(_) | StoreKind::Tree(..) => heap_costs(&parameters.heap),
        },
        keys: keys.saturating_sub(inserted).max(1),
        is_insert,
        writes_percent: application.writes_percent(),
        hot: matches!(application, Application::NStore(_)).then_some(hot),
        aged_operations,
        operations,
        value_bytes: match kind {
            StoreKind::Redis(costs) => costs.value_bytes,
            StoreKind::Tree(..) | StoreKind::NStore(_) => 8,
        },
        region_bytes: kind.region_bytes(keys.max(inserted + 1)),
        seed,
    };
    Schedule {
        instances,
        plan,
        warm_up_operations,
    }
}

fn kind(parameters: &Parameters, application: Application) -> StoreKind {
    let tree = |kind| match kind {
        TreeKind::CTree => tree_costs(&parameters.ctree),
        TreeKind::BTree => tree_costs(&parameters.btree),
        TreeKind::RbTree => tree_costs(&parameters.rbtree),
    };
    match application {
        Application::RedisSet | Application::RedisGet => {
            let redis = &parameters.redis;
            StoreKind::Redis(RedisCosts {
                set: work(&redis.set_instructions, &redis.set_own_accesses),
                get: work(&redis.get_instructions, &redis.get_own_accesses),
                value_bytes: redis.value_bytes.value,
            })
        }
        Application::Tree(kind, _) => StoreKind::Tree(kind, tree(kind)),
        Application::NStore(
            NStoreLoad::UpdateHeavy | NStoreLoad::Balanced | NStoreLoad::ReadHeavy,
        ) => {
            let store = &parameters.nstore;
            StoreKind::NStore(NStoreCosts {
                update: work(&store.update_instructions, &store.update_own_accesses),
                read: work(&store.read_instructions, &store.read_own_accesses),
                index: tree(TreeKind::BTree),
                field_bytes: store.field_bytes.value,
                log_nodes: (store.log_nodes.value / store.threads.value).max(1),
            })
        }
    }
}
