//! The names of the programs' workloads, and what each is made of.

use crate::programs::trees::TreeKind;

/// What a tree's workload does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeLoad {
    /// New keys.
    Insert,
    /// Other values.
    Update,
    /// Of two operations one update, one read.
    Balanced,
    /// Reads.
    Read,
}

impl TreeLoad {
    /// All of them.
    pub const ALL: [TreeLoad; 4] = [
        TreeLoad::Insert,
        TreeLoad::Update,
        TreeLoad::Balanced,
        TreeLoad::Read,
    ];
}

/// What a transaction of N-Store's does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NStoreLoad {
    /// Of ten nine update.
    UpdateHeavy,
    /// Of two one updates.
    Balanced,
    /// Of ten nine read.
    ReadHeavy,
}

impl NStoreLoad {
    /// All of them.
    pub const ALL: [NStoreLoad; 3] = [
        NStoreLoad::UpdateHeavy,
        NStoreLoad::Balanced,
        NStoreLoad::ReadHeavy,
    ];
}

/// A program with its workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Application {
    /// Redis, set-only, §4.2.
    RedisSet,
    /// Redis, get-only.
    RedisGet,
    /// A tree, §4.3.
    Tree(TreeKind, TreeLoad),
    /// N-Store, §4.4.
    NStore(NStoreLoad),
}

impl Application {
    /// All of them, in the paper's order.
    pub fn all() -> Vec<Application> {
        let trees = TreeKind::ALL
            .into_iter()
            .flat_map(|kind| TreeLoad::ALL.map(|load| Application::Tree(kind, load)));
        [Application::RedisSet, Application::RedisGet]
            .into_iter()
            .chain(trees)
            .chain(NStoreLoad::ALL.map(Application::NStore))
            .collect()
    }

    /// The name.
    pub fn as_str(self) -> &'static str {
        use TreeKind::{BTree, CTree, RbTree};
        use TreeLoad::{Balanced, Insert, Read, Update};
        match self {
            Application::RedisSet => "redis-set",
            Application::RedisGet => "redis-get",
            Application::Tree(CTree, Insert) => "ctree-insert",
            Application::Tree(CTree, Update) => "ctree-update",
            Application::Tree(CTree, Balanced) => "ctree-balanced",
            Application::Tree(CTree, Read) => "ctree-read",
            Application::Tree(BTree, Insert) => "btree-insert",
            Application::Tree(BTree, Update) => "btree-update",
            Application::Tree(BTree, Balanced) => "btree-balanced",
            Application::Tree(BTree, Read) => "btree-read",
            Application::Tree(RbTree, Insert) => "rbtree-insert",
            Application::Tree(RbTree, Update) => "rbtree-update",
            Application::Tree(RbTree, Balanced) => "rbtree-balanced",
            Application::Tree(RbTree, Read) => "rbtree-read",
            Application::NStore(NStoreLoad::UpdateHeavy) => "nstore-update-heavy",
            Application::NStore(NStoreLoad::Balanced) => "nstore-balanced",
            Application::NStore(NStoreLoad::ReadHeavy) => "nstore-read-heavy",
        }
    }

    /// Of a hundred operations, how many write.
    pub fn writes_percent(self) -> u64 {
        match self {
            Application::RedisSet | Application::Tree(_, TreeLoad::Insert | TreeLoad::Update) => {
                100
            }
            Application::Tree(_, TreeLoad::Balanced)
            | Application::NStore(NStoreLoad::Balanced) => 50,
            Application::RedisGet | Application::Tree(_, TreeLoad::Read) => 0,
            Application::NStore(NStoreLoad::UpdateHeavy) => 90,
            Application::NStore(NStoreLoad::ReadHeavy) => 10,
        }
    }
}
