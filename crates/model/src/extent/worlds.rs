//! The worlds that are explored: small ones through every state, larger ones at random.

use super::config::Config;

/// Worlds whose every state is visited.
pub fn exhaustive() -> Vec<Config> {
    let world = Config::small;
    vec![
        Config {
            is_foreign: true,
            program_opens: 2,
            breaks: 1,
            passes: 0,
            stores: 1,
            power_cuts: 0,
            ..world("a lease that the kernel breaks")
        },
        Config {
            is_foreign: true,
            program_opens: 1,
            stops: 1,
            passes: 0,
            stores: 1,
            closes: 0,
            ..world("a keeper that ends in order")
        },
        Config {
            width: 2,
            passes: 2,
            kills: 0,
            ..world("a row of two")
        },
        Config {
            deaths: 1,
            damages: 1,
            stores: 0,
            passes: 0,
            program_fences: 0,
            ..world("a rebuild loses a write")
        },
        Config {
            is_foreign: true,
            program_opens: 1,
            passes: 1,
            stores: 1,
            is_evidence_told: false,
            verifies: 1,
            ..world("a program of its own leaves no sign")
        },
        Config {
            deaths: 1,
            returns: 1,
            stores: 1,
            kills: 0,
            opens: 4,
            ..world("an old sidecar comes back")
        },
        Config {
            pages: 2,
            ..world("a page and its copy")
        },
        Config {
            is_foreign: true,
            program_opens: 2,
            passes: 1,
            ..world("a program of its own")
        },
        Config {
            deaths: 1,
            passes: 1,
            ..world("a copy or its page dies")
        },
        Config {
            width: 2,
            deaths: 1,
            stores: 1,
            passes: 1,
            ..world("a row of two loses an extent")
        },
        Config {
            width: 2,
            damages: 1,
            verifies: 2,
            passes: 1,
            kills: 0,
            ..world("a row of two is damaged")
        },
        Config {
            damages: 1,
            verifies: 1,
            passes: 1,
            syncs: 1,
            ..world("a page or its copy is damaged")
        },
    ]
}

/// Worlds for random walks.
pub fn random() -> Vec<Config> {
    let large = |name| Config {
        width: 2,
        pages: 2,
        stores: 8,
        program_fences: 4,
        passes: 6,
        syncs: 2,
        verifies: 3,
        closes: 3,
        opens: 8,
        power_cuts: 3,
        kills: 2,
        deaths: 0,
        returns: 0,
        damages: 0,
        ..Config::small(name)
    };
    vec![
        large("everything on a row of two"),
        Config {
            deaths: 1,
            returns: 1,
            ..large("extents of a row of two die")
        },
        Config {
            width: 1,
            deaths: 1,
            returns: 1,
            ..large("a copy or its page dies among everything")
        },
        Config {
            damages: 1,
            ..large("damage among everything")
        },
        Config {
            width: 1,
            damages: 1,
            deaths: 1,
            ..large("damage and a death")
        },
        Config {
            width: 1,
            is_foreign: true,
            program_opens: 4,
            stops: 2,
            breaks: 1,
            syncs: 0,
            ..large("programs of their own")
        },
        Config {
            is_foreign: true,
            is_evidence_told: false,
            program_opens: 4,
            stops: 2,
            breaks: 1,
            syncs: 0,
            damages: 1,
            ..large("programs of their own, and damage")
        },
    ]
}
