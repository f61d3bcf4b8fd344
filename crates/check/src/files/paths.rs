//! Names, chosen at random.

use forebay_harness::files::{Id, Model, Thing};
use std::path::{Path, PathBuf};

/// Names are few, so that programs meet.
const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// A name of an open file.
pub fn path_of(model: &Model, file: Id) -> Option<PathBuf> {
    let mut names = model.names.iter();
    let found = names.find(|(_, id)| **id == file);
    found.map(|(path, _)| path.clone())
}

/// A name that nothing has.
pub fn free(rng: &mut fastrand::Rng, model: &Model) -> Option<PathBuf> {
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

pub fn pick_any(rng: &mut fastrand::Rng, model: &Model) -> Option<PathBuf> {
    let paths: Vec<&PathBuf> = model.names.keys().collect();
    rng.choice(&paths).map(|path| path.to_path_buf())
}

pub fn pick(rng: &mut fastrand::Rng, model: &Model, directory: bool) -> Option<PathBuf> {
    let fits = |path: &&PathBuf| model.is_directory(path) == directory;
    let paths: Vec<&PathBuf> = model.names.keys().filter(fits).collect();
    rng.choice(&paths).map(|path| path.to_path_buf())
}

pub fn pick_with_mode(rng: &mut fastrand::Rng, model: &Model) -> Option<PathBuf> {
    let has_mode = |id: &Id| !matches!(model.things[id], Thing::Link(_));
    let paths = model.names.iter().filter(|(_, id)| has_mode(id));
    let paths: Vec<&PathBuf> = paths.map(|(path, _)| path).collect();
    rng.choice(&paths).map(|path| path.to_path_buf())
}

pub fn pick_file(rng: &mut fastrand::Rng, model: &Model) -> Option<PathBuf> {
    let is_file = |id: &Id| matches!(model.things[id], Thing::File(_));
    let paths = model.names.iter().filter(|(_, id)| is_file(id));
    let paths: Vec<&PathBuf> = paths.map(|(path, _)| path).collect();
    rng.choice(&paths).map(|path| path.to_path_buf())
}
