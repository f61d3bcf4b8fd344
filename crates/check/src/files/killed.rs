//! A process that is killed, and a kernel that is not: nothing of what was done is lost, and other
//! programs go on changing names before a process recovers.

use super::incarnation::{Case, Image, Incarnation};
use super::script;
use super::step::Step;
use forebay_harness::files::{Changed, FILE_MODE, File, Inode, Kind, Model, Node, Thing, Tree};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Changes of others before the recovery, at most.
const OTHERS_MAX: usize = 3;
/// Names that others use: the program's, and some that it has not.
const NAMES: [&str; 6] = ["a", "b", "c", "d", "log.1", "log.2"];
/// Inodes of others have these numbers, which no file system draws.
const OTHERS_INODES: Inode = 1 << 60;

impl Case {
    /// What a kill leaves.
    pub fn killed(&self, rng: &mut fastrand::Rng) -> Image {
        Image {
            pool: self.pool.killed(rng),
            side: self.side.current().clone(),
            tree: (**self.history.newest()).clone(),
            mark: (**self.mark.newest()).clone(),
            mounting: self.mounting,
            has_short_log: self.has_short_log,
        }
    }
}

impl Incarnation {
    /// What a kill at this moment may leave: all that was done, and the step under way in part.
    pub fn legal_if_killed(&self, case: &Case) -> Vec<Model> {
        let kept = |model: &Model| {
            let mut model = model.clone();
            script::apply(&Step::SyncBacking, &mut model);
            model.sync_modes();
            model
        };
        let before = kept(&self.models[case.done - 1]);
        let mut legal = vec![before.clone()];
        legal.extend(self.models.get(case.done).map(kept));
        if let Some(step) = self.steps.get(case.done - 1) {
            legal.extend(script::in_part(step, &before));
            legal.extend(in_part(step, before));
        }
        legal
    }
}

/// What a kill in the midst of a change that need not be whole may leave.
fn in_part(step: &Step, mut model: Model) -> Option<Model> {
    let step = match step.clone() {
        Step::Write(file, offset, bytes, durable) if !durable || model.file(file).is_shared => {
            Step::Write(file, offset, bytes, false)
        }
        Step::Append(file, bytes, durable) if !durable || model.file(file).is_shared => {
            Step::Append(file, bytes, false)
        }
        Step::Truncate(file, len) => Step::Truncate(file, len),
        _ => return None,
    };
    script::apply(&step, &mut model);
    Some(model)
}

/// Others rename and make things in `tree`; of the legal models those stay that had its names.
pub fn interfere(rng: &mut fastrand::Rng, tree: &mut Tree, legal: &mut Vec<Model>) {
    legal.retain(|model| model.names.keys().eq(tree.paths().keys()));
    for count in 0..rng.usize(..=OTHERS_MAX) {
        let paths: Vec<PathBuf> = tree.paths().into_keys().collect();
        let Some(to) = free_path(rng, tree) else {
            continue;
        };
        match rng.choice(&paths) {
            Some(from) if rng.u8(..4) > 0 => {
                if !to.starts_with(from) {
                    rename(tree, from, &to);
                    legal
                        .iter_mut()
                        .for_each(|model| model.rename(from, &to, false));
                }
            }
            _ => {
                let bytes = vec![0xee; rng.usize(..2000)];
                make(tree, OTHERS_INODES + count as Inode, &to, &bytes);
                for model in legal.iter_mut() {
                    model.make(&to, Thing::File(File::new(bytes.clone())));
                }
            }
        }
    }
}

/// A name somewhere in the tree that nothing has; none if the dice show one that is taken.
fn free_path(rng: &mut fastrand::Rng, tree: &Tree) -> Option<PathBuf> {
    let is_directory = |inode: &Inode| tree.nodes[inode].kind == Kind::Directory;
    let mut directories = vec![PathBuf::new()];
    let paths = tree.paths().into_iter();
    directories.extend(
        paths
            .filter(|(_, inode)| is_directory(inode))
            .map(|(path, _)| path),
    );
    let path = rng.choice(&directories)?.join(rng.choice(NAMES)?);
    (!tree.paths().contains_key(&path)).then_some(path)
}

fn rename(tree: &mut Tree, from: &Path, to: &Path) {
    let inode = tree.names.remove(&tree.entry(from)).expect("it is there");
    let entry = tree.entry(to);
    tree.names.insert(entry, inode);
}

fn make(tree: &mut Tree, inode: Inode, path: &Path, bytes: &[u8]) {
    let kind = Kind::File(Arc::new(bytes.to_vec()));
    tree.nodes.insert(
        inode,
        Node {
            kind,
            mode: FILE_MODE,
            extended: None,
            owner: rustix::process::geteuid().as_raw(),
            has_capability: false,
            changed: Changed::default(),
        },
    );
    let entry = tree.entry(path);
    tree.names.insert(entry, inode);
}
