//! The worlds that are explored: small ones through every state, larger ones at random.

use crate::config::Change::{Append, Block, Delta, Discard, Evict, Share, Short, Zero};
use crate::config::{Config, Operation};
use Operation::{Checkpoint, Commit, Fill, WriteBack};

const FIRST: Change = Delta { half: 0 };
const SECOND: Change = Delta { half: 1 };
use crate::config::Change;

/// Worlds whose every state is visited.
pub fn exhaustive() -> Vec<Config> {
    let world = Config::small;
    vec![
        Config {
            menu: vec![
                Commit(&[(0, Block), (1, Block)]),
                Commit(&[(0, Block)]),
                Checkpoint,
            ],
            ..world("blocks")
        },
        Config {
            menu: vec![Commit(&[(0, Block)]), Commit(&[(0, SECOND)]), Checkpoint],
            operations: 4,
            places: 1,
            ..world("deltas and checkpoints")
        },
        Config {
            menu: vec![Commit(&[(0, Block)]), Commit(&[(0, SECOND)]), Checkpoint],
            operations: 4,
            places: 1,
            entries_in_dram: true,
            ..world("deltas and checkpoints, entries in DRAM")
        },
        Config {
            menu: vec![
                Commit(&[(0, Block)]),
                Commit(&[(0, SECOND)]),
                Commit(&[(1, Share { from: 0 })]),
            ],
            ..world("shares")
        },
        Config {
            menu: vec![
                Commit(&[(0, Short)]),
                Commit(&[(0, FIRST)]),
                Commit(&[(0, Append)]),
            ],
            ..world("appends")
        },
        Config {
            menu: vec![Fill(0), Commit(&[(0, Evict)]), Commit(&[(1, Block)])],
            positions: 1,
            operations: 4,
            slots: 2,
            ..world("fills and evicts")
        },
        Config {
            menu: vec![
                Fill(0),
                Commit(&[(0, Block)]),
                WriteBack(0),
                Commit(&[(0, Evict)]),
            ],
            keys: 1,
            slots: 2,
            sync_failures: 1,
            operations: 4,
            ..world("write-back")
        },
        Config {
            menu: vec![Commit(&[(0, Block), (1, Zero)]), Commit(&[(0, Discard)])],
            kills: 1,
            lanes: 1,
            operations: 2,
            ..world("kills")
        },
        Config {
            menu: vec![Fill(0), Commit(&[(0, Evict)]), Fill(1)],
            threads: 1,
            lanes: 1,
            places: 3,
            operations: 5,
            power_cuts: 2,
            ..world("refill")
        },
    ]
}

/// Worlds for random walks, each with everything about one subject on its menu.
pub fn random() -> Vec<Config> {
    let large = |name| Config {
        lanes: 3,
        places: 3,
        slots: 5,
        positions: 3,
        operations: 12,
        power_cuts: 3,
        kills: 1,
        ..Config::small(name)
    };
    let blocks = vec![
        Commit(&[(0, Block)]),
        Commit(&[(0, Block), (1, Block)]),
        Commit(&[(1, Block), (0, Zero)]),
        Checkpoint,
    ];
    let deltas = vec![
        Commit(&[(0, Block)]),
        Commit(&[(0, FIRST)]),
        Commit(&[(0, SECOND), (1, Block)]),
        Checkpoint,
    ];
    let shares = vec![
        Commit(&[(0, Block)]),
        Commit(&[(0, SECOND)]),
        Commit(&[(1, SECOND)]),
        Commit(&[(1, Share { from: 0 })]),
        Commit(&[(0, Zero)]),
        Checkpoint,
    ];
    let appends = vec![
        Commit(&[(0, Short)]),
        Commit(&[(0, FIRST)]),
        Commit(&[(0, Append)]),
        Commit(&[(1, Block)]),
        Checkpoint,
    ];
    let contended = vec![
        Commit(&[(0, Block), (1, Block)]),
        Commit(&[(0, Block)]),
        Commit(&[(2, Block)]),
    ];
    let redo = vec![
        Commit(&[(0, Short)]),
        Commit(&[(0, FIRST)]),
        Commit(&[(0, Append)]),
    ];
    let syncs = vec![
        Commit(&[(0, Block)]),
        Commit(&[(1, Block)]),
        WriteBack(0),
        WriteBack(1),
    ];
    let fills = vec![
        Fill(0),
        Fill(1),
        Commit(&[(0, SECOND)]),
        Commit(&[(0, Evict)]),
        Commit(&[(1, Evict)]),
        Commit(&[(0, Block)]),
        WriteBack(0),
        Checkpoint,
    ];
    let backing = vec![
        Commit(&[(0, Block)]),
        WriteBack(0),
        WriteBack(1),
        Fill(0),
        Commit(&[(0, Evict)]),
        Commit(&[(0, Discard)]),
        Commit(&[(1, Block)]),
    ];
    let all = vec![
        Commit(&[(0, Block)]),
        Commit(&[(1, Block), (2, Block)]),
        Commit(&[(0, SECOND), (1, FIRST)]),
        Commit(&[(2, Share { from: 0 })]),
        Commit(&[(2, Short)]),
        Commit(&[(2, Append)]),
        Commit(&[(1, Zero)]),
        Commit(&[(0, Discard), (1, Block)]),
        Commit(&[(0, Evict)]),
        Commit(&[(1, Evict)]),
        Fill(0),
        Fill(1),
        WriteBack(0),
        WriteBack(1),
        Checkpoint,
    ];
    vec![
        Config {
            menu: blocks.clone(),
            strict: true,
            ..large("strict blocks")
        },
        Config {
            menu: blocks.clone(),
            ..large("blocks")
        },
        Config {
            menu: blocks,
            places: 1,
            lanes: 2,
            positions: 2,
            ..large("blocks in short lanes")
        },
        Config {
            menu: deltas.clone(),
            strict: true,
            places: 1,
            ..large("strict deltas in short lanes")
        },
        Config {
            menu: deltas.clone(),
            ..large("deltas")
        },
        Config {
            menu: deltas,
            places: 1,
            slots: 3,
            ..large("deltas in short lanes")
        },
        Config {
            menu: shares,
            ..large("shares")
        },
        Config {
            menu: appends,
            ..large("appends")
        },
        Config {
            menu: contended,
            keys: 3,
            threads: 3,
            kills: 0,
            operations: 6,
            power_cuts: 1,
            ..large("blocks of three threads")
        },
        Config {
            menu: redo,
            threads: 1,
            kills: 0,
            operations: 6,
            ..large("redo")
        },
        Config {
            menu: syncs,
            threads: 3,
            kills: 0,
            sync_failures: 2,
            ..large("syncs")
        },
        Config {
            menu: fills.clone(),
            sync_failures: 1,
            ..large("fills")
        },
        Config {
            menu: fills.clone(),
            positions: 2,
            slots: 3,
            kills: 0,
            ..large("fills in little room")
        },
        Config {
            menu: fills,
            positions: 2,
            sync_failures: 1,
            entries_in_dram: true,
            ..large("fills, entries in DRAM")
        },
        Config {
            menu: backing,
            threads: 3,
            sync_failures: 1,
            ..large("backing")
        },
        Config {
            menu: all.clone(),
            keys: 3,
            threads: 3,
            sync_failures: 1,
            operations: 16,
            ..large("everything")
        },
        Config {
            menu: all.clone(),
            keys: 3,
            threads: 2,
            places: 1,
            operations: 16,
            ..large("everything in short lanes")
        },
        Config {
            menu: all,
            keys: 3,
            threads: 3,
            sync_failures: 1,
            operations: 16,
            entries_in_dram: true,
            ..large("everything, entries in DRAM")
        },
    ]
}
