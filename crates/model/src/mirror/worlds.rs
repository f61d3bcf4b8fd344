//! The worlds that are explored: small ones through every state, larger ones at random.

use super::config::Config;
use super::config::Operation::{Block, Blocks, Checkpoint, Delta, Evict, Fill, LetGo, WriteBack};

/// Worlds whose every state is visited.
pub fn exhaustive() -> Vec<Config> {
    let world = Config::small;
    vec![
        Config {
            menu: vec![Block(0), Blocks, Delta(0), Checkpoint],
            ..world("two members")
        },
        Config {
            menu: vec![Block(0), WriteBack(0), Checkpoint, LetGo(0), Block(1)],
            operations: 5,
            pairs: 2,
            ..world("a copy is let go")
        },
        Config {
            menu: vec![Fill(0), Block(0), Evict(0), Checkpoint],
            operations: 4,
            ..world("fills on two members")
        },
        Config {
            menu: vec![Block(0), Checkpoint, Delta(0)],
            rebuilds: 1,
            ..world("a member is rebuilt")
        },
        Config {
            menu: vec![Block(0), WriteBack(0), Checkpoint],
            operations: 4,
            deaths: 0,
            losses: 1,
            ..world("a lost store")
        },
    ]
}

/// Worlds for random walks.
pub fn random() -> Vec<Config> {
    let large = |name| Config {
        lanes: 2,
        places: 3,
        pairs: 4,
        positions: 3,
        threads: 2,
        operations: 14,
        power_cuts: 2,
        kills: 1,
        deaths: 2,
        rebuilds: 1,
        ..Config::small(name)
    };
    let all = vec![
        Block(0),
        Block(1),
        Blocks,
        Delta(0),
        Delta(1),
        Evict(0),
        Fill(0),
        Fill(1),
        WriteBack(0),
        WriteBack(1),
        LetGo(0),
        LetGo(1),
        Checkpoint,
    ];
    let limbo = vec![
        Block(0),
        Delta(0),
        WriteBack(0),
        Checkpoint,
        LetGo(0),
        Block(1),
    ];
    vec![
        Config {
            menu: all.clone(),
            ..large("everything on two members")
        },
        Config {
            menu: all.clone(),
            places: 2,
            pairs: 3,
            positions: 2,
            ..large("everything on two members in little room")
        },
        Config {
            menu: limbo,
            pairs: 3,
            ..large("limbo")
        },
        Config {
            menu: vec![
                Block(0),
                Delta(0),
                WriteBack(0),
                Checkpoint,
                LetGo(0),
                Fill(1),
            ],
            threads: 1,
            pairs: 1,
            operations: 10,
            power_cuts: 1,
            deaths: 0,
            rebuilds: 0,
            ..large("limbo in one pair")
        },
        Config {
            menu: vec![Block(0), Block(1), Delta(0), Checkpoint],
            power_cuts: 3,
            rebuilds: 2,
            ..large("rebuilds")
        },
        Config {
            menu: all,
            deaths: 0,
            rebuilds: 0,
            losses: 1,
            ..large("a lost store among everything")
        },
    ]
}
