//! What must be in the directory, and what a program has open there.

use std::path::Path;

use forebay_harness::files::{DIRECTORY_MODE, File, Id, Model, Thing};

use super::operation::{Kind, Operation, SLOTS, bytes, checksum};

/// A program's part of the directory, and what it has open there. Of a file that has been written since it was synced
/// the model allows any bytes.
#[derive(Clone, Debug)]
pub struct Tree {
    pub model: Model,
    pub slots: [Option<(Id, Kind)>; SLOTS],
}

impl Tree {
    pub fn new(root: &str) -> Tree {
        let mut model = Model::default();
        model.make_with_mode(Path::new(root), Thing::Directory, DIRECTORY_MODE);
        Tree {
            model,
            slots: [None; SLOTS],
        }
    }

    pub fn at(&self, path: &str) -> Option<&Thing> {
        self.model.at(Path::new(path))
    }

    pub fn open_bytes(&self, slot: usize) -> Option<&[u8]> {
        self.slots[slot].map(|(id, _)| self.model.content(id))
    }

    pub fn is_empty(&self, path: &str) -> bool {
        self.model.is_empty(Path::new(path))
    }

    pub fn read(&self, slot: usize, offset: u64, len: usize) -> u64 {
        let all = self.open_bytes(slot).unwrap_or_default();
        let start = (offset as usize).min(all.len());
        let end = (start + len).min(all.len());
        checksum(&all[start..end])
    }

    /// The program is gone: nothing is open, and what had no name is no more.
    pub fn close_all(&mut self) {
        self.slots = [None; SLOTS];
        self.forget_nameless();
    }

    /// All that was written is in the files, synced or not.
    pub fn keep_unsynced(&mut self) {
        self.files().for_each(|file| file.is_any = false);
    }

    fn files(&mut self) -> impl Iterator<Item = &mut File> {
        let things = self.model.things.values_mut();
        things.filter_map(|thing| match thing {
            Thing::File(file) => Some(file),
            _ => None,
        })
    }

    fn forget_nameless(&mut self) {
        let open = self.slots.iter().flatten();
        let open: Vec<Id> = open.map(|(id, _)| *id).collect();
        self.model.forget_nameless(|id| open.contains(&id));
    }

    fn file(&mut self, slot: usize) -> Option<&mut File> {
        let (id, _) = self.slots[slot]?;
        Some(self.model.file(id))
    }

    /// What the operation, which is possible here, makes of it.
    pub fn apply(&mut self, operation: &Operation) {
        let model = &mut self.model;
        match operation {
            Operation::Create {
                slot,
                path,
                mode,
                kind,
            } => {
                let file = Thing::File(File::default());
                let id = model.make_with_mode(Path::new(path), file, *mode);
                self.slots[*slot] = Some((id, *kind));
            }
            Operation::Open { slot, path, kind } => {
                let id = model.names.get(Path::new(path));
                self.slots[*slot] = id.map(|id| (*id, *kind));
            }
            Operation::Close { slot } => {
                self.slots[*slot] = None;
                self.forget_nameless();
            }
            Operation::Write { len, .. } => self.write(operation, *len),
            Operation::Truncate { slot, size } => {
                if let Some(file) = self.file(*slot) {
                    file.truncate(*size as usize);
                    file.sync();
                    file.is_any = true;
                }
            }
            Operation::MakeDirectory { path, mode } => {
                model.make_with_mode(Path::new(path), Thing::Directory, *mode);
            }
            Operation::MakeLink { path, target } => {
                model.make(Path::new(path), Thing::Link(target.into()));
            }
            Operation::Link { from, to } => {
                if let Some(id) = model.names.get(Path::new(from)).copied() {
                    model.names.insert(to.into(), id);
                }
            }
            Operation::Unlink { path } | Operation::RemoveDirectory { path } => {
                model.remove(Path::new(path));
                self.forget_nameless();
            }
            Operation::Rename { from, to } | Operation::Exchange { from, to } => {
                let exchange = matches!(operation, Operation::Exchange { .. });
                model.rename(Path::new(from), Path::new(to), exchange);
                self.forget_nameless();
            }
            Operation::Sync { slot, .. } => {
                if let Some(file) = self.file(*slot) {
                    file.is_any = false;
                }
            }
            Operation::SyncDirectory { .. } | Operation::Read { .. } => {}
        }
    }

    /// The first `len` bytes of a write.
    pub fn write(&mut self, operation: &Operation, len: usize) {
        let Operation::Write {
            slot,
            offset,
            len: whole,
            seed,
        } = operation
        else {
            return;
        };
        let Some((id, kind)) = self.slots[*slot] else {
            return;
        };
        let file = self.model.file(id);
        file.is_any |= kind != Kind::DataSync;
        let start = match kind {
            Kind::Append => file.current().len(),
            _ => *offset as usize,
        };
        if len > 0 {
            file.write(start, &bytes(*seed, *whole)[..len], true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_moves_with_what_is_below_and_an_open_file_outlives_its_name() {
        let mut tree = Tree::new("t");
        let operations = [
            Operation::MakeDirectory {
                path: "t/d".into(),
                mode: 0o700,
            },
            Operation::Create {
                slot: 0,
                path: "t/d/a".into(),
                mode: 0o600,
                kind: Kind::Append,
            },
            Operation::Write {
                slot: 0,
                offset: 0,
                len: 10,
                seed: 1,
            },
            Operation::Write {
                slot: 0,
                offset: 0,
                len: 5,
                seed: 2,
            },
            Operation::Rename {
                from: "t/d".into(),
                to: "t/e".into(),
            },
            Operation::Link {
                from: "t/e/a".into(),
                to: "t/b".into(),
            },
            Operation::Unlink {
                path: "t/e/a".into(),
            },
        ];
        for operation in &operations {
            tree.apply(operation);
        }
        let names: Vec<_> = tree
            .model
            .names
            .keys()
            .filter_map(|name| name.to_str())
            .collect();
        assert_eq!(names, ["t", "t/b", "t/e"]);
        assert_eq!(
            tree.open_bytes(0),
            Some(&*[bytes(1, 10), bytes(2, 5)].concat())
        );
        tree.apply(&Operation::Unlink { path: "t/b".into() });
        assert_eq!(tree.open_bytes(0).map(<[u8]>::len), Some(15));
        tree.close_all();
        assert_eq!(tree.model.things.len(), 2);
    }
}
