//! The worlds that are explored: small ones through every state, larger ones at random.

use super::config::Config;
use super::config::Operation::{Both, Fill, Forget, Half, Read, Sync, Unsynced, Write, Zero};

/// Worlds whose every state is visited.
pub fn exhaustive() -> Vec<Config> {
    let world = Config::small;
    vec![
        Config {
            menu: vec![Write(0), Half(0)],
            pages: 5,
            ..world("groups of a segment")
        },
        Config {
            menu: vec![Write(0)],
            operations: 4,
            ..world("the ring laps")
        },
        Config {
            menu: vec![Write(0), Zero],
            ..world("zeroes")
        },
        Config {
            menu: vec![Write(0), Write(1)],
            pages: 5,
            depth: 2,
            ..world("two groups under way")
        },
        Config {
            menu: vec![Write(0)],
            operations: 2,
            kills: 1,
            ..world("crashes of recovery")
        },
        Config {
            menu: vec![Write(0)],
            carries: 1,
            troubles: 1,
            ..world("blocks are carried")
        },
        Config {
            menu: vec![Unsynced(0), Sync],
            operations: 4,
            ..world("a sync of what was written")
        },
        Config {
            menu: vec![Unsynced(0), Write(1)],
            pages: 5,
            ..world("durable behind what was written")
        },
        Config {
            menu: vec![Fill(0), Write(0), Forget(0)],
            ..world("fills")
        },
    ]
}

/// Worlds for random walks.
pub fn random() -> Vec<Config> {
    let large = |name| Config {
        pages: 5,
        depth: 2,
        operations: 12,
        power_cuts: 2,
        kills: 1,
        failures: 1,
        troubles: 1,
        carries: 3,
        ..Config::small(name)
    };
    let all = vec![
        Write(0),
        Write(1),
        Both,
        Half(0),
        Half(1),
        Zero,
        Fill(0),
        Fill(1),
        Forget(0),
        Forget(1),
        Read(0),
        Read(1),
        Unsynced(0),
        Unsynced(1),
        Sync,
    ];
    let few_syncs = vec![Unsynced(0), Unsynced(1), Sync, Zero, Write(1), Fill(0)];
    vec![
        Config {
            menu: all.clone(),
            ..large("everything on a ring")
        },
        Config {
            menu: all,
            depth: 1,
            failures: 0,
            ..large("everything, one group at a time")
        },
        Config {
            menu: few_syncs.clone(),
            depth: 1,
            failures: 0,
            ..large("syncs")
        },
        Config {
            menu: few_syncs,
            failures: 0,
            pages: 3,
            ..large("syncs in small segments")
        },
        Config {
            menu: vec![Write(0), Write(1), Zero, Read(0)],
            pages: 3,
            depth: 1,
            failures: 0,
            ..large("a ring of small segments")
        },
        Config {
            menu: vec![Write(0), Write(1), Read(0)],
            pages: 3,
            depth: 1,
            failures: 0,
            troubles: 0,
            carries: 0,
            kills: 0,
            ..large("a read while the ring laps")
        },
        Config {
            menu: vec![Fill(0), Write(1), Fill(1)],
            depth: 1,
            failures: 0,
            troubles: 0,
            carries: 0,
            kills: 0,
            ..large("groups of fills")
        },
    ]
}
