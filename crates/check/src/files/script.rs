//! What programs do to files, at random.

use super::oracle::{Id, Model, Thing};
use forebay_files::SyncKind;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// One call.
#[derive(Clone, Debug)]
pub enum Step {
    /// A new file, opened.
    Create(PathBuf),
    MakeDirectory(PathBuf),
    MakeLink(PathBuf, OsString),
    Link(PathBuf, PathBuf),
    Unlink(PathBuf),
    RemoveDirectory(PathBuf),
    /// With whether the names change places.
    Rename(PathBuf, PathBuf, bool),
    Open(PathBuf),
    Close(Id),
    /// With whether it is on a descriptor that syncs.
    Write(Id, usize, Vec<u8>, bool),
    Append(Id, Vec<u8>, bool),
    Truncate(Id, usize),
    Sync(Id, SyncKind),
    Drain(Id),
    /// Others use the file from now on, until `Resume`.
    Suspend(Id),
    Resume(Id),
    SyncBacking,
    /// What background threads would do.
    Work,
}

/// Names are few, so that programs meet.
const NAMES: [&str; 4] = ["a", "b", "c", "d"];
/// Files grow up to here.
const FILE_BYTES_MAX: usize = 6 << 10;

/// Draws what is done next; nothing if the dice show something that cannot be.
pub fn draw(rng: &mut fastrand::Rng, model: &Model, open: &[Id]) -> Vec<Step> {
    match rng.u8(..12) {
        0 => phrase(rng, model, open).unwrap_or_default(),
        _ => one(rng, model, open).into_iter().collect(),
    }
}

/// What seldom comes about by chance: data that the backing has is cut away, and more is written.
fn phrase(rng: &mut fastrand::Rng, model: &Model, open: &[Id]) -> Option<Vec<Step>> {
    let file = *rng.choice(open)?;
    let end = model.content(file).len();
    let bytes = content(rng);
    let cut = (end + bytes.len()).saturating_sub(rng.usize(1..700));
    let mut steps = vec![
        Step::Append(file, bytes, true),
        Step::Drain(file),
        Step::Truncate(file, cut),
        Step::Append(file, content(rng), true),
        match rng.bool() {
            true => Step::Drain(file),
            false => Step::SyncBacking,
        },
    ];
    if rng.bool() {
        steps[3] = Step::Truncate(file, cut + rng.usize(1..700));
    }
    if rng.bool() {
        steps.remove(1);
    }
    Some(steps)
}

fn one(rng: &mut fastrand::Rng, model: &Model, open: &[Id]) -> Option<Step> {
    let step = match rng.u8(..41) {
        0..=2 => Step::Create(free(rng, model)?),
        3 => Step::MakeDirectory(free(rng, model)?),
        4 => Step::MakeLink(free(rng, model)?, OsString::from("a/b")),
        5 => Step::Link(pick(rng, model, false)?, free(rng, model)?),
        6 | 7 => Step::Unlink(pick(rng, model, false)?),
        8 => {
            let path = pick(rng, model, true)?;
            model
                .is_empty(&path)
                .then_some(Step::RemoveDirectory(path))?
        }
        9..=12 => rename(rng, model)?,
        13 | 14 => Step::Open(pick_file(rng, model)?),
        15 => Step::Close(*rng.choice(open)?),
        16..=19 => write(rng, model, *rng.clone().choice(open)?, false),
        20..=23 => write(rng, model, *rng.clone().choice(open)?, true),
        24 => Step::Append(*rng.choice(open)?, content(rng), false),
        25..=27 => Step::Append(*rng.choice(open)?, content(rng), true),
        28 => Step::Truncate(*rng.choice(open)?, rng.usize(..FILE_BYTES_MAX)),
        29 if rng.bool() => Step::Truncate(*rng.choice(open)?, 0),
        29 => {
            let file = *rng.choice(open)?;
            let end = model.content(file).len();
            Step::Truncate(file, end.saturating_sub(rng.usize(1..400)))
        }
        30..=33 => Step::Sync(*rng.choice(open)?, SyncKind::Data),
        34 => Step::Sync(*rng.choice(open)?, SyncKind::All),
        35 => Step::Drain(*rng.choice(open)?),
        36 => Step::Suspend(*rng.choice(open)?),
        37 => Step::Resume(*rng.choice(open)?),
        38 => Step::SyncBacking,
        _ => Step::Work,
    };
    Some(step)
}

fn content(rng: &mut fastrand::Rng) -> Vec<u8> {
    let len = match rng.u8(..3) {
        0 => rng.usize(1..40),
        1 => rng.usize(1..600),
        _ => rng.usize(1..2500),
    };
    let byte = rng.u8(1..);
    (0..len).map(|at| byte ^ (at >> 3) as u8).collect()
}

fn write(rng: &mut fastrand::Rng, model: &Model, file: Id, durable: bool) -> Step {
    let end = model.content(file).len();
    let offset = match rng.u8(..5) {
        0 => rng.usize(..FILE_BYTES_MAX),
        1 => end,
        2 => end + rng.usize(1..300),
        _ => rng.usize(..=end),
    };
    let offset = offset.min(FILE_BYTES_MAX);
    Step::Write(file, offset, content(rng), durable)
}

fn rename(rng: &mut fastrand::Rng, model: &Model) -> Option<Step> {
    let from = pick_any(rng, model)?;
    let to = match rng.u8(..3) {
        0 => free(rng, model)?,
        _ => pick_any(rng, model)?,
    };
    if to.starts_with(&from) || from.starts_with(&to) {
        return None;
    }
    let exchange = rng.u8(..4) == 0 && model.names.contains_key(&to);
    if exchange {
        return Some(Step::Rename(from, to, true));
    }
    let there = model.names.get(&to);
    if there == model.names.get(&from) {
        return None;
    }
    if there.is_some() {
        let kinds = (model.is_directory(&from), model.is_directory(&to));
        let fits = match kinds {
            (true, true) => model.is_empty(&to),
            (one, other) => one == other,
        };
        fits.then_some(())?;
    }
    Some(Step::Rename(from, to, false))
}

/// A name that nothing has.
fn free(rng: &mut fastrand::Rng, model: &Model) -> Option<PathBuf> {
    let directories: Vec<&Path> = std::iter::once(Path::new(""))
        .chain(
            model
                .names
                .keys()
                .map(PathBuf::as_path)
                .filter(|path| model.is_directory(path)),
        )
        .collect();
    let path = rng.choice(&directories)?.join(rng.choice(NAMES)?);
    (!model.names.contains_key(&path)).then_some(path)
}

fn pick_any(rng: &mut fastrand::Rng, model: &Model) -> Option<PathBuf> {
    let paths: Vec<&PathBuf> = model.names.keys().collect();
    rng.choice(&paths).map(|path| path.to_path_buf())
}

fn pick(rng: &mut fastrand::Rng, model: &Model, directory: bool) -> Option<PathBuf> {
    let fits = |path: &&PathBuf| model.is_directory(path) == directory;
    let paths: Vec<&PathBuf> = model.names.keys().filter(fits).collect();
    rng.choice(&paths).map(|path| path.to_path_buf())
}

fn pick_file(rng: &mut fastrand::Rng, model: &Model) -> Option<PathBuf> {
    let is_file = |id: &Id| matches!(model.things[id], Thing::File(_));
    let paths = model.names.iter().filter(|(_, id)| is_file(id));
    let paths: Vec<&PathBuf> = paths.map(|(path, _)| path).collect();
    rng.choice(&paths).map(|path| path.to_path_buf())
}

/// What a step makes of the model once it is acknowledged. Returns the file it opened.
pub fn apply(step: &Step, model: &mut Model) -> Option<Id> {
    match step {
        Step::Create(path) => return Some(model.make(path, Thing::File(Default::default()))),
        Step::MakeDirectory(path) => drop(model.make(path, Thing::Directory)),
        Step::MakeLink(path, target) => drop(model.make(path, Thing::Link(target.clone()))),
        Step::Link(from, to) => {
            let id = model.names[from];
            model.names.insert(to.clone(), id);
        }
        Step::Unlink(path) | Step::RemoveDirectory(path) => model.remove(path),
        Step::Rename(from, to, exchange) => model.rename(from, to, *exchange),
        Step::Open(path) => return model.names.get(path).copied(),
        Step::Write(file, offset, bytes, durable) => {
            model.file(*file).write(*offset, bytes, *durable);
        }
        Step::Append(file, bytes, durable) => {
            let end = model.file(*file).current().len();
            model.file(*file).write(end, bytes, *durable);
        }
        Step::Truncate(file, len) => model.file(*file).truncate(*len),
        Step::Sync(file, _) | Step::Drain(file) => model.file(*file).sync(),
        Step::SyncBacking => {
            for thing in model.things.values_mut() {
                if let Thing::File(file) = thing {
                    file.sync();
                }
            }
        }
        Step::Suspend(file) => model.file(*file).is_shared = true,
        Step::Resume(file) => model.file(*file).is_shared = false,
        Step::Close(_) | Step::Work => {}
    }
    None
}

/// What a crash in the midst of a step may leave beside what was before it and what is after: a file
/// that others use is written in part.
pub fn in_part(step: &Step, before: &Model) -> Option<Model> {
    let (Step::Write(file, ..) | Step::Append(file, ..)) = step else {
        return None;
    };
    let mut model = before.clone();
    if !model.file(*file).is_shared {
        return None;
    }
    let step = match step.clone() {
        Step::Write(file, offset, bytes, _) => Step::Write(file, offset, bytes, false),
        Step::Append(file, bytes, _) => Step::Append(file, bytes, false),
        step => step,
    };
    apply(&step, &mut model);
    Some(model)
}
