//! What must be in the directory: names, and what they lead to.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::operation::{Kind, Operation, SLOTS, bytes, checksum};

pub type NodeId = u32;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    File { bytes: Vec<u8>, mode: u32 },
    Directory { mode: u32 },
    Link { target: String },
}

/// A program's part of the directory, and what it has open there.
#[derive(Clone, Debug)]
pub struct Tree {
    pub names: BTreeMap<String, NodeId>,
    pub nodes: HashMap<NodeId, Node>,
    pub slots: [Option<(NodeId, Kind)>; SLOTS],
    /// Files that have been written since they were synced.
    pub unsynced: HashSet<NodeId>,
    next: NodeId,
}

impl Tree {
    pub fn new(root: &str) -> Tree {
        let mut tree = Tree {
            names: BTreeMap::new(),
            nodes: HashMap::new(),
            slots: [None; SLOTS],
            unsynced: HashSet::new(),
            next: 0,
        };
        tree.insert(root, Node::Directory { mode: 0o755 });
        tree
    }

    fn insert(&mut self, path: &str, node: Node) -> NodeId {
        self.next += 1;
        self.nodes.insert(self.next, node);
        self.names.insert(path.to_owned(), self.next);
        self.next
    }

    pub fn at(&self, path: &str) -> Option<&Node> {
        self.nodes.get(self.names.get(path)?)
    }

    pub fn link_count(&self, id: NodeId) -> u64 {
        self.names.values().filter(|other| **other == id).count() as u64
    }

    pub fn open_bytes(&self, slot: usize) -> Option<&Vec<u8>> {
        match self.nodes.get(&self.slots.get(slot)?.as_ref()?.0)? {
            Node::File { bytes, .. } => Some(bytes),
            _ => None,
        }
    }

    pub fn is_empty(&self, path: &str) -> bool {
        let below = format!("{path}/");
        !self.names.keys().any(|name| name.starts_with(&below))
    }

    pub fn read(&self, slot: usize, offset: u64, len: usize) -> u64 {
        let all = self.open_bytes(slot).map_or(&[][..], Vec::as_slice);
        let start = (offset as usize).min(all.len());
        let end = (start + len).min(all.len());
        checksum(&all[start..end])
    }

    /// The program is gone: nothing is open, and what had no name is no more.
    pub fn close_all(&mut self) {
        self.slots = [None; SLOTS];
        self.forget_nameless();
    }

    fn forget_nameless(&mut self) {
        let (names, slots) = (&self.names, &self.slots);
        self.nodes.retain(|id, _| {
            let is_open = slots.iter().flatten().any(|(open, _)| open == id);
            is_open || names.values().any(|named| named == id)
        });
    }

    /// What the operation, which is possible here, makes of it.
    pub fn apply(&mut self, operation: &Operation) {
        match operation {
            Operation::Create {
                slot,
                path,
                mode,
                kind,
            } => {
                let node = Node::File {
                    bytes: Vec::new(),
                    mode: *mode,
                };
                let id = self.insert(path, node);
                self.slots[*slot] = Some((id, *kind));
            }
            Operation::Open { slot, path, kind } => {
                self.slots[*slot] = self.names.get(path).map(|id| (*id, *kind));
            }
            Operation::Close { slot } => {
                self.slots[*slot] = None;
                self.forget_nameless();
            }
            Operation::Write { len, .. } => self.write(operation, *len),
            Operation::Truncate { slot, size } => {
                self.note_unsynced(*slot);
                if let Some(bytes) = self.bytes_mut(*slot) {
                    bytes.resize(*size as usize, 0);
                }
            }
            Operation::MakeDirectory { path, mode } => {
                self.insert(path, Node::Directory { mode: *mode });
            }
            Operation::MakeLink { path, target } => {
                self.insert(
                    path,
                    Node::Link {
                        target: target.clone(),
                    },
                );
            }
            Operation::Link { from, to } => {
                if let Some(id) = self.names.get(from).copied() {
                    self.names.insert(to.clone(), id);
                }
            }
            Operation::Unlink { path } | Operation::RemoveDirectory { path } => {
                self.names.remove(path);
                self.forget_nameless();
            }
            Operation::Rename { from, to } => self.rename(from, to),
            Operation::Exchange { from, to } => {
                let aside = "\u{0}aside";
                self.rename(from, aside);
                self.rename(to, from);
                self.rename(aside, to);
            }
            Operation::Sync { slot, .. } => {
                if let Some((id, _)) = self.slots[*slot] {
                    self.unsynced.remove(&id);
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
        let is_append = matches!(self.slots[*slot], Some((_, Kind::Append)));
        if !matches!(self.slots[*slot], Some((_, Kind::DataSync))) {
            self.note_unsynced(*slot);
        }
        let new = bytes(*seed, *whole);
        if let Some(all) = self.bytes_mut(*slot)
            && len > 0
        {
            let start = if is_append {
                all.len()
            } else {
                *offset as usize
            };
            if all.len() < start + len {
                all.resize(start + len, 0);
            }
            all[start..start + len].copy_from_slice(&new[..len]);
        }
    }

    fn note_unsynced(&mut self, slot: usize) {
        if let Some((id, _)) = self.slots[slot] {
            self.unsynced.insert(id);
        }
    }

    /// What was found in a file that was not synced is what it has now.
    pub fn adopt(&mut self, id: NodeId, found: &Node) {
        self.nodes.insert(id, found.clone());
        self.unsynced.remove(&id);
    }

    fn bytes_mut(&mut self, slot: usize) -> Option<&mut Vec<u8>> {
        match self.nodes.get_mut(&self.slots[slot]?.0)? {
            Node::File { bytes, .. } => Some(bytes),
            _ => None,
        }
    }

    /// With everything below it; what was at `to` loses that name.
    fn rename(&mut self, from: &str, to: &str) {
        if self.names.get(from) == self.names.get(to) {
            // Two names of one file: both stay.
            return;
        }
        let below = format!("{from}/");
        let moved = |name: &String| name == from || name.starts_with(&below);
        let names: Vec<String> = self
            .names
            .keys()
            .filter(|name| moved(name))
            .cloned()
            .collect();
        for name in names {
            if let Some(id) = self.names.remove(&name) {
                self.names
                    .insert(format!("{to}{}", &name[from.len()..]), id);
            }
        }
        self.forget_nameless();
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
        let names: Vec<_> = tree.names.keys().map(String::as_str).collect();
        assert_eq!(names, ["t", "t/b", "t/e"]);
        assert_eq!(
            tree.open_bytes(0),
            Some(&[bytes(1, 10), bytes(2, 5)].concat())
        );
        tree.apply(&Operation::Unlink { path: "t/b".into() });
        assert_eq!(tree.open_bytes(0).map(Vec::len), Some(15));
        tree.close_all();
        assert_eq!(tree.nodes.len(), 2);
    }
}
