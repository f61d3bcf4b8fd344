//! Names that are added, and what makes them durable.

use super::paths::{free, pick};
use super::step::Step;
use forebay_files::SyncKind;
use forebay_harness::files::{Id, Model};
use std::ffi::OsString;
use std::path::PathBuf;

/// What seldom comes about by chance: names that were added, and nothing else, before something makes them durable.
pub fn named(rng: &mut fastrand::Rng, model: &Model, open: &[Id]) -> Option<Vec<Step>> {
    let mut names = Vec::new();
    for _ in 0..rng.usize(1..4) {
        let path = free(rng, model)?;
        match names.contains(&path) {
            true => return None,
            false => names.push(path),
        }
    }
    let made = |path: &PathBuf| match rng.u8(..3) {
        0 => Step::MakeDirectory(path.clone()),
        1 => Step::MakeLink(path.clone(), OsString::from("a/b")),
        _ => Step::Create(path.clone()),
    };
    let mut steps: Vec<Step> = names.iter().map(made).collect();
    match rng.u8(..6) {
        0 | 1 => steps.push(Step::SyncDirectory(pick(rng, model, true)?)),
        // Of a file that the pool has nothing of.
        2 | 3 => {
            let file = *rng.choice(open)?;
            steps.insert(0, Step::Suspend(file));
            steps.push(Step::Sync(file, SyncKind::Data));
        }
        4 => steps.push(Step::Sync(*rng.choice(open)?, SyncKind::Data)),
        _ => steps.push(Step::Unlink(pick(rng, model, false)?)),
    }
    // Something during which the power may fail, and that makes nothing durable.
    steps.push(Step::Create(
        free(rng, model).filter(|path| !names.contains(path))?,
    ));
    Some(steps)
}

/// Whether all names before a step, and its own, are durable when it is acknowledged, over a pool on an SSD: a name that was added may
/// wait for one of these.
pub fn settles_names(step: &Step) -> bool {
    match step {
        Step::Write(.., durable) | Step::Append(.., durable) => *durable,
        Step::Unlink(_)
        | Step::RemoveDirectory(_)
        | Step::Rename(..)
        | Step::Sync(..)
        | Step::SyncDirectory(_)
        | Step::SyncBacking
        | Step::NewLog
        | Step::End => true,
        _ => false,
    }
}
