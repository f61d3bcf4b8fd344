//! Which operation comes next: one that must succeed.

use fastrand::Rng;
use forebay_harness::files::Thing;

use super::operation::{Kind, Operation, SLOTS};
use super::tree::Tree;

const FILE_BYTES_MAX: usize = 768 << 10;
const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const DEPTH_MAX: usize = 4;
const NAMES_MAX: usize = 24;

/// Draws operations on a tree whose root has the name `root`.
#[derive(Debug)]
pub struct Chooser {
    rng: Rng,
    root: String,
}

impl Chooser {
    pub fn new(seed: u64, root: &str) -> Chooser {
        Chooser {
            rng: Rng::with_seed(seed),
            root: root.to_owned(),
        }
    }

    pub fn draw(&mut self, tree: &Tree) -> Operation {
        loop {
            let drawn = match self.rng.u8(..100) {
                0..38 => self.write(tree),
                38..50 => self.sync(tree),
                50..58 => self.read(tree),
                58..62 => self.truncate(tree),
                62..70 => self.open(tree),
                70..73 => self.close(tree),
                73..80 => self.create(tree),
                80..94 => self.change_name(tree),
                _ => self.directory(tree),
            };
            if let Some(operation) = drawn {
                return operation;
            }
        }
    }

    fn open_slot(&mut self, tree: &Tree) -> Option<usize> {
        let open = (0..SLOTS).filter(|slot| tree.slots[*slot].is_some());
        self.rng.choice(open.collect::<Vec<_>>())
    }

    fn free_slot(&mut self, tree: &Tree) -> Option<usize> {
        (0..SLOTS).find(|slot| tree.slots[*slot].is_none())
    }

    fn path(&mut self, tree: &Tree, wanted: impl Fn(&str, &Thing) -> bool) -> Option<String> {
        let names = tree.model.names.keys().filter_map(|name| name.to_str());
        let is_wanted = |name: &&str| {
            *name != self.root && tree.at(name).is_some_and(|thing| wanted(name, thing))
        };
        let those: Vec<&str> = names.filter(is_wanted).collect();
        self.rng.choice(those).map(str::to_owned)
    }

    fn file(&mut self, tree: &Tree) -> Option<String> {
        self.path(tree, |_, node| matches!(node, Thing::File(_)))
    }

    fn directory_path(&mut self, tree: &Tree) -> String {
        self.path(tree, |_, node| matches!(node, Thing::Directory))
            .filter(|_| self.rng.u8(..3) > 0)
            .unwrap_or_else(|| self.root.clone())
    }

    fn any_path(&mut self, tree: &Tree) -> String {
        let directory = self.directory_path(tree);
        let name = NAMES[self.rng.usize(..NAMES.len())];
        format!("{directory}/{name}")
    }

    fn free_path(&mut self, tree: &Tree) -> Option<String> {
        let path = self.any_path(tree);
        let is_deep = path.matches('/').count() > DEPTH_MAX;
        let is_full = tree.model.names.len() >= NAMES_MAX;
        (!is_deep && !is_full && tree.at(&path).is_none()).then_some(path)
    }

    fn kind(&mut self) -> Kind {
        match self.rng.u8(..6) {
            0 => Kind::DataSync,
            1 => Kind::Append,
            _ => Kind::Plain,
        }
    }

    fn write(&mut self, tree: &Tree) -> Option<Operation> {
        let slot = self.open_slot(tree)?;
        let size = tree.open_bytes(slot)?.len();
        let len = match self.rng.u8(..8) {
            0..4 => self.rng.usize(1..600),
            4..7 => self.rng.usize(1..9000),
            _ => self.rng.usize(1..70_000),
        };
        let offset = match self.rng.u8(..6) {
            0..3 => size,
            3 => size.saturating_sub(self.rng.usize(..5000)),
            4 => self.rng.usize(..=size) / 4096 * 4096,
            _ => self.rng.usize(..=size + 9000),
        };
        let is_append = matches!(tree.slots[slot], Some((_, Kind::Append)));
        let start = if is_append { size } else { offset };
        (start + len <= FILE_BYTES_MAX).then(|| Operation::Write {
            slot,
            offset: offset as u64,
            len,
            seed: self.rng.u64(..),
        })
    }

    fn sync(&mut self, tree: &Tree) -> Option<Operation> {
        Some(Operation::Sync {
            slot: self.open_slot(tree)?,
            is_data_only: self.rng.bool(),
        })
    }

    fn read(&mut self, tree: &Tree) -> Option<Operation> {
        let slot = self.open_slot(tree)?;
        let size = tree.open_bytes(slot)?.len();
        Some(Operation::Read {
            slot,
            offset: self.rng.usize(..=size) as u64,
            len: self.rng.usize(1..40_000),
        })
    }

    fn truncate(&mut self, tree: &Tree) -> Option<Operation> {
        let slot = self.open_slot(tree)?;
        let size = tree.open_bytes(slot)?.len();
        let size = match self.rng.u8(..4) {
            0 => 0,
            1 => self.rng.usize(..=FILE_BYTES_MAX / 2),
            2 => size.saturating_sub(self.rng.usize(..9000)),
            _ => size + self.rng.usize(..9000),
        };
        let size = size.min(FILE_BYTES_MAX) as u64;
        Some(Operation::Truncate { slot, size })
    }

    fn open(&mut self, tree: &Tree) -> Option<Operation> {
        Some(Operation::Open {
            slot: self.free_slot(tree)?,
            path: self.file(tree)?,
            kind: self.kind(),
        })
    }

    fn close(&mut self, tree: &Tree) -> Option<Operation> {
        let slot = self.open_slot(tree)?;
        Some(Operation::Close { slot })
    }

    fn create(&mut self, tree: &Tree) -> Option<Operation> {
        Some(Operation::Create {
            slot: self.free_slot(tree)?,
            path: self.free_path(tree)?,
            mode: [0o600, 0o644, 0o640][self.rng.usize(..3)],
            kind: self.kind(),
        })
    }

    fn change_name(&mut self, tree: &Tree) -> Option<Operation> {
        let is_leaf = |_: &str, node: &Thing| !matches!(node, Thing::Directory);
        match self.rng.u8(..14) {
            0..4 => {
                let path = self.path(tree, is_leaf)?;
                Some(Operation::Unlink { path })
            }
            4..10 => self.rename(tree),
            10..12 => {
                let from = self.file(tree)?;
                let to = self.free_path(tree)?;
                Some(Operation::Link { from, to })
            }
            12 => {
                let from = self.path(tree, |_, _| true)?;
                let to = self.path(tree, |_, _| true)?;
                let is_inside = |one: &str, other: &str| one.starts_with(&format!("{other}/"));
                let is_possible = from != to && !is_inside(&from, &to) && !is_inside(&to, &from);
                is_possible.then_some(Operation::Exchange { from, to })
            }
            _ => {
                let path = self.free_path(tree)?;
                let target = ["../elsewhere", "a", "no such thing"][self.rng.usize(..3)].into();
                Some(Operation::MakeLink { path, target })
            }
        }
    }

    /// To a free name, or over another of the same sort.
    fn rename(&mut self, tree: &Tree) -> Option<Operation> {
        let from = self.path(tree, |_, _| true)?;
        let to = self.any_path(tree);
        let is_below = to.starts_with(&format!("{from}/"));
        let is_deep = to.matches('/').count() > DEPTH_MAX;
        let is_directory = |path: &str| matches!(tree.at(path), Some(Thing::Directory));
        let is_possible = match tree.at(&to) {
            None => true,
            Some(Thing::Directory) => is_directory(&from) && tree.is_empty(&to),
            Some(_) => !is_directory(&from),
        };
        let is_wanted = from != to && !is_below && !is_deep && is_possible;
        is_wanted.then_some(Operation::Rename { from, to })
    }

    fn directory(&mut self, tree: &Tree) -> Option<Operation> {
        match self.rng.u8(..6) {
            0..2 => Some(Operation::MakeDirectory {
                path: self.free_path(tree)?,
                mode: [0o755, 0o700][self.rng.usize(..2)],
            }),
            2 => {
                let wanted = |path: &str, node: &Thing| {
                    matches!(node, Thing::Directory) && tree.is_empty(path)
                };
                let path = self.path(tree, wanted)?;
                Some(Operation::RemoveDirectory { path })
            }
            _ => {
                let path = self.directory_path(tree);
                Some(Operation::SyncDirectory { path })
            }
        }
    }
}
