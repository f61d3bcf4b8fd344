//! What programs do to files, at random.

use super::named::named;
use super::paths::{free, path_of, pick, pick_any, pick_file, pick_with_mode};
use super::step::{Space, Step};
use forebay_files::SyncKind;
use forebay_harness::files::{File, Id, Model, Thing};
use std::ffi::OsString;
use std::path::PathBuf;

/// Files grow up to here.
const FILE_BYTES_MAX: usize = 6 << 10;

/// A write of more than this may be split into several transactions, one after the other.
const WHOLE_BYTES_MAX: usize = 8 << 10;
/// Bytes of a write that is split for sure: more than an eighth of the pool.
const SPLIT_BYTES: std::ops::Range<usize> = 64 << 10..80 << 10;
/// Transactions of a write that is split end at multiples of this.
const SPLIT_STEP_BYTES: usize = 512;
/// The last one is for root, whose writes leave it.
const MODES: [u32; 4] = [0o600, 0o640, 0o755, 0o4755];
/// What a program is made with.
pub const PROGRAM_MODE: u32 = 0o4755;
/// Owners that files get, where this user may give them away.
const OWNERS: [u32; 3] = [0, 1000, 2000];
/// A longer value is not recorded in the log, which says so of 7 KiB.
const VALUE_BYTES_MAX: usize = 7 << 10;

/// Draws what is done next; nothing if the dice show something that cannot be.
pub fn draw(rng: &mut fastrand::Rng, model: &Model, open: &[Id]) -> Vec<Step> {
    let phrase = match rng.u8(..69) {
        0..=5 => cut_and_written(rng, model, open),
        6 | 7 => given_back(rng, model, open),
        8 | 9 => gathered(rng, model),
        10 => split(rng, model, open),
        11 => opened_changed(rng, model, open),
        12..=14 => attributes_and_bytes(rng, model, open),
        15 => changed_twice(rng, model, open),
        16 => settled_beside(rng, model),
        17 | 18 => others_between(rng, model, open),
        19 | 20 => capable(rng, model, open),
        21 => recorded_again(rng, model, open),
        22 => program(rng, model),
        23 | 24 => filled(rng, model),
        25..=27 => named(rng, model, open),
        _ => one(rng, model, open).map(|step| vec![step]),
    };
    phrase.unwrap_or_default()
}

/// How an incarnation ends in order: with a new name, if there is room for one, that nothing else makes durable.
pub fn ending(rng: &mut fastrand::Rng, model: &Model) -> Vec<Step> {
    let name = free(rng, model).map(Step::MakeDirectory);
    name.into_iter().chain([Step::End]).collect()
}

fn mode(rng: &mut fastrand::Rng) -> u32 {
    let last = usize::from(rustix::process::geteuid().is_root());
    MODES[rng.usize(..MODES.len() - 1 + last)]
}

/// What seldom comes about by chance: a file that the pool had is others', and shorter.
fn given_back(rng: &mut fastrand::Rng, model: &Model, open: &[Id]) -> Option<Vec<Step>> {
    let file = *rng.choice(open)?;
    let bytes = content(rng);
    let end = model.content(file).len() + bytes.len();
    Some(vec![
        Step::Append(file, bytes, true),
        Step::Suspend(file),
        Step::Truncate(file, rng.usize(..end)),
        match rng.bool() {
            true => Step::Sync(file, SyncKind::Data),
            false => Step::OthersSync(file),
        },
    ])
}

/// The same of a file that is new, and synced when all of it is written.
fn gathered(rng: &mut fastrand::Rng, model: &Model) -> Option<Vec<Step>> {
    let path = free(rng, model)?;
    let file = model.next_id();
    Some(vec![
        Step::Create(path),
        Step::Write(file, rng.usize(..600), content(rng), false),
        Step::Sync(file, SyncKind::Data),
        Step::Work,
    ])
}

/// The same of a write that is more than one transaction.
fn split(rng: &mut fastrand::Rng, model: &Model, open: &[Id]) -> Option<Vec<Step>> {
    let file = *rng.choice(open)?;
    let end = model.content(file).len();
    let byte = rng.u8(1..);
    let bytes = (0..rng.usize(SPLIT_BYTES)).map(|at| byte ^ (at >> 9) as u8);
    Some(vec![
        Step::Drain(file),
        Step::Work,
        Step::Write(file, rng.usize(..=end), bytes.collect(), true),
        Step::Drain(file),
        Step::Truncate(file, rng.usize(..FILE_BYTES_MAX)),
        Step::Work,
    ])
}

/// The same of a file whose mode is set before it is open: what makes it durable first promises nothing of the mode.
fn opened_changed(rng: &mut fastrand::Rng, model: &Model, open: &[Id]) -> Option<Vec<Step>> {
    let path = pick_file(rng, model)?;
    let file = model.names[&path];
    if open.contains(&file) {
        return None;
    }
    let mode = mode(rng);
    let first = match rng.u8(..3) {
        0 => Step::Sync(file, SyncKind::Data),
        1 => Step::Append(file, content(rng), true),
        _ => Step::Drain(file),
    };
    Some(vec![
        Step::SyncBacking,
        Step::SetMode(path.clone(), mode),
        Step::Open(path),
        first,
        Step::Append(file, content(rng), false),
        Step::Sync(file, SyncKind::All),
    ])
}

/// What seldom comes about by chance: data that the backing has is cut away, and more is written.
fn cut_and_written(rng: &mut fastrand::Rng, model: &Model, open: &[Id]) -> Option<Vec<Step>> {
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
    if rng.u8(..4) == 0 {
        steps.pop();
        steps.extend([Step::WorkFailing, Step::Work]);
    }
    Some(steps)
}

/// What programs do that copy files with their attributes, and a write after it.
fn attributes_and_bytes(rng: &mut fastrand::Rng, model: &Model, open: &[Id]) -> Option<Vec<Step>> {
    let file = *rng.choice(open)?;
    let path = path_of(model, file)?;
    let mut steps = vec![
        extend(rng, model, path.clone()),
        Step::ChangeMode(path.clone(), mode(rng)),
        Step::Append(file, content(rng), rng.bool()),
        Step::Sync(file, SyncKind::All),
        owner(rng, path),
        Step::Append(file, content(rng), rng.bool()),
        Step::Drain(file),
    ];
    steps.truncate(rng.usize(2..=7));
    Some(steps)
}

/// A mode that the buffer has recorded, then one that it has not.
fn changed_twice(rng: &mut fastrand::Rng, model: &Model, open: &[Id]) -> Option<Vec<Step>> {
    let file = *rng.choice(open)?;
    let path = path_of(model, file)?;
    Some(vec![
        Step::ChangeMode(path.clone(), 0o711),
        Step::SetMode(path, 0o600),
        Step::Sync(file, SyncKind::All),
    ])
}

/// The same of a file that nothing but its attributes is told of, while a new log is being made that does not know it.
fn settled_beside(rng: &mut fastrand::Rng, model: &Model) -> Option<Vec<Step>> {
    let path = free(rng, model)?;
    let file = model.next_id();
    Some(vec![
        Step::Create(path.clone()),
        Step::SyncBacking,
        Step::ChangeMode(path.clone(), 0o711),
        Step::SetMode(path, 0o600),
        Step::NewLogBeside(file),
        Step::NewLog,
    ])
}

/// What others change without a word, and then the buffer.
fn others_between(rng: &mut fastrand::Rng, model: &Model, open: &[Id]) -> Option<Vec<Step>> {
    let path = match rng.bool() {
        true => path_of(model, *rng.choice(open)?)?,
        false => pick(rng, model, true)?,
    };
    let mut steps = vec![
        Step::ChangeMode(path.clone(), 0o755),
        Step::OthersMode(path.clone(), mode(rng)),
        extend(rng, model, path.clone()),
        Step::ChangeMode(path, 0o751),
    ];
    steps.truncate(rng.usize(2..=4));
    Some(steps)
}

/// A capability, given to what was written before.
fn capable(rng: &mut fastrand::Rng, model: &Model, open: &[Id]) -> Option<Vec<Step>> {
    let file = *rng.choice(open)?;
    let path = path_of(model, file)?;
    let mut steps = vec![
        Step::Append(file, content(rng), rng.bool()),
        Step::GiveCapability(path),
    ];
    if rng.bool() {
        steps.push(Step::Sync(file, SyncKind::Data));
    }
    steps.push(Step::Sync(file, SyncKind::All));
    Some(steps)
}

/// Modes that are recorded, past the log, and recorded.
fn recorded_again(rng: &mut fastrand::Rng, model: &Model, open: &[Id]) -> Option<Vec<Step>> {
    let file = *rng.choice(open)?;
    let path = path_of(model, file)?;
    let mut steps = vec![
        Step::ChangeMode(path.clone(), 0o711),
        Step::SetMode(path.clone(), 0o600),
        Step::ChangeMode(path.clone(), 0o640),
        Step::Sync(file, SyncKind::All),
        Step::ChangeMode(path, 0o755),
    ];
    steps.truncate(rng.usize(3..=5));
    Some(steps)
}

/// What is made with set-id bits, and gets its bytes.
fn program(rng: &mut fastrand::Rng, model: &Model) -> Option<Vec<Step>> {
    let path = free(rng, model)?;
    let file = model.next_id();
    let bytes = content(rng);
    Some(vec![
        Step::CreateProgram(path),
        Step::Append(file, bytes, true),
    ])
}

fn owner(rng: &mut fastrand::Rng, path: PathBuf) -> Step {
    let user = rustix::process::geteuid();
    match user.is_root() {
        true => Step::ChangeOwner(path, OWNERS[rng.usize(..OWNERS.len())]),
        false => Step::ChangeOwner(path, user.as_raw()),
    }
}

/// Values that fill a short log.
fn filled(rng: &mut fastrand::Rng, model: &Model) -> Option<Vec<Step>> {
    let path = pick_with_mode(rng, model)?;
    let count = rng.usize(3..7);
    let values = (0..count).map(|_| {
        let byte = rng.u8(1..);
        let len = VALUE_BYTES_MAX - rng.usize(..1000);
        Step::SetExtended(path.clone(), Some(vec![byte; len]))
    });
    Some(values.collect())
}

/// Another value of the extended attribute, or none any more.
fn extend(rng: &mut fastrand::Rng, model: &Model, path: PathBuf) -> Step {
    let len = match rng.u8(..16) {
        0 => VALUE_BYTES_MAX + rng.usize(..2000),
        1 => VALUE_BYTES_MAX - rng.usize(..2),
        2..=4 => rng.usize(..2000),
        _ => rng.usize(..100),
    };
    let is_removed = rng.u8(..4) == 0 && model.has_extended(&path);
    let byte = rng.u8(1..);
    let value = (!is_removed).then(|| (0..len).map(|at| byte ^ (at >> 3) as u8).collect());
    Step::SetExtended(path, value)
}

fn one(rng: &mut fastrand::Rng, model: &Model, open: &[Id]) -> Option<Step> {
    let step = match rng.u8(..52) {
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
        39 | 40 => Step::SetMode(pick_with_mode(rng, model)?, mode(rng)),
        41 => Step::SyncDirectory(pick(rng, model, true)?),
        42 | 43 => {
            let spaces = [Space::Grown, Space::Kept, Space::Punched, Space::Punched];
            let (offset, len) = (rng.usize(..FILE_BYTES_MAX), rng.usize(1..2000));
            Step::Allocate(*rng.choice(open)?, *rng.choice(&spaces)?, offset, len)
        }
        44 | 45 => Step::ChangeMode(pick_with_mode(rng, model)?, mode(rng)),
        46 => owner(&mut rng.clone(), pick_with_mode(rng, model)?),
        49 => Step::NewLog,
        47 | 48 => extend(rng, model, pick_with_mode(&mut rng.clone(), model)?),
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

/// What a step makes of the model once it is acknowledged. Returns the file it opened.
pub fn apply(step: &Step, model: &mut Model) -> Option<Id> {
    if let Some(file) = changed_file(step) {
        model.written(file);
    }
    match step {
        Step::Create(path) => return Some(model.make(path, Thing::File(Default::default()))),
        Step::CreateProgram(path) => {
            let program = Thing::File(Default::default());
            return Some(model.make_with_mode(path, program, PROGRAM_MODE));
        }
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
        Step::Allocate(file, space, offset, len) => {
            allocate(model.file(*file), *space, *offset, *len)
        }
        Step::SetMode(path, mode) => model.set_mode(path, *mode),
        Step::ChangeMode(path, mode) => model.change_mode(path, *mode),
        Step::OthersMode(path, mode) => {
            model.others_mode(path, *mode);
            model.backing_synced();
        }
        Step::ChangeOwner(path, owner) => model.change_owner(path, *owner),
        Step::GiveCapability(path) => model.give_capability(path),
        Step::SetExtended(path, value) => {
            let is_short = |value: &Vec<u8>| value.len() <= VALUE_BYTES_MAX;
            let durable = value.as_ref().is_none_or(is_short);
            model.set_extended(path, value.clone(), durable);
        }
        Step::SyncDirectory(path) => model.sync_mode(model.names[path]),
        Step::Sync(file, kind) => {
            model.file(*file).sync();
            if *kind == SyncKind::All {
                model.sync_mode(*file);
            }
        }
        Step::Drain(file) | Step::OthersSync(file) => model.file(*file).sync(),
        Step::SyncBacking => {
            model.sync_modes();
            for thing in model.things.values_mut() {
                if let Thing::File(file) = thing {
                    file.sync();
                }
            }
        }
        Step::NewLog => model.sync_modes(),
        Step::NewLogBeside(file) => {
            model.file(*file).sync();
            model.sync_modes();
        }
        Step::Suspend(file) => model.file(*file).is_shared = true,
        Step::Resume(file) => model.file(*file).is_shared = false,
        Step::Close(_) | Step::Work | Step::WorkFailing | Step::End => {}
    }
    None
}

/// The file whose content a step changes.
fn changed_file(step: &Step) -> Option<Id> {
    match step {
        Step::Write(file, ..)
        | Step::Append(file, ..)
        | Step::Truncate(file, _)
        | Step::Allocate(file, ..) => Some(*file),
        _ => None,
    }
}

fn allocate(file: &mut File, space: Space, offset: usize, len: usize) {
    let size_bytes = file.current().len();
    match space {
        Space::Grown if offset + len > size_bytes => file.truncate(offset + len),
        Space::Punched => file.punch(offset, len),
        Space::Grown | Space::Kept => {}
    }
}

/// What a crash in the midst of a step may leave beside what was before it and what is after: a file
/// that others use is written in part, and of a large write any part up to some transaction is there.
pub fn in_part(step: &Step, before: &Model) -> Vec<Model> {
    let mut models = written_in_part(step, before);
    match step {
        // It was made and not recorded: then a crash leaves what both allow.
        Step::ChangeMode(path, _)
        | Step::ChangeOwner(path, _)
        | Step::SetExtended(path, _)
        | Step::GiveCapability(path) => {
            let mut made = before.clone();
            made.loosen(path);
            apply(step, &mut made);
            models.push(made);
        }
        // What the content loses is taken before.
        _ => {
            if let Some(file) = changed_file(step) {
                let mut taken = before.clone();
                taken.written(file);
                models.push(taken);
            }
        }
    }
    models
}

fn written_in_part(step: &Step, before: &Model) -> Vec<Model> {
    let (file, offset, bytes, durable) = match step {
        Step::Write(file, offset, bytes, durable) => (*file, *offset, bytes, *durable),
        Step::Append(file, bytes, durable) => (*file, before.content(*file).len(), bytes, *durable),
        _ => return Vec::new(),
    };
    let written = |len: usize, durable: bool| {
        let mut model = before.clone();
        model.file(file).write(offset, &bytes[..len], durable);
        model.written(file);
        model
    };
    let mut models = Vec::new();
    if before.is_shared(file) {
        models.push(written(bytes.len(), false));
    }
    if bytes.len() > WHOLE_BYTES_MAX {
        let ends = (SPLIT_STEP_BYTES..bytes.len()).step_by(SPLIT_STEP_BYTES);
        models.extend(ends.map(|len| written(len, durable)));
    }
    models
}
