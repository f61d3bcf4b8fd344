//! What a power cut leaves of the backing: the names as they were at some moment since the last sync
//! that ordered them, and of each file's sectors what was written since its own.
//!
//! As journaling file systems do: changes of names and sizes are kept up to some moment, of those
//! after it none. A sync of one file orders the names before it where the file's size or its name is
//! newer than what is durable.

use super::clock::{Clock, Times};
use forebay_files::FileIdentity;
use forebay_files::observe::{Observer, SeenIdentity, Synced};
use forebay_harness::files::{Inode, Kind, Numbers, ROOT, Tree};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What survives of a file for itself.
const SECTOR_BYTES: usize = 512;

/// What a file held since it was last synced: when, and what.
type Contents = Vec<(usize, Arc<Vec<u8>>)>;
/// What of it is durable, and what is newer.
type Versions = (Option<Arc<Vec<u8>>>, Contents);

/// Trees since the oldest that a crash could leave.
#[derive(Clone, Debug)]
pub struct History {
    /// The first one is number `first`; all names before it are durable.
    trees: Vec<Arc<Tree>>,
    first: usize,
    /// By file, the first one durable (none: nothing of it is).
    contents: BTreeMap<Inode, Versions>,
}

impl History {
    /// All of it is durable.
    pub fn new(tree: Tree) -> History {
        let mut history = History {
            trees: vec![Arc::new(tree)],
            first: 0,
            contents: BTreeMap::new(),
        };
        history.sync_everything();
        history
    }

    /// The tree as it was at the end.
    pub fn newest(&self) -> &Arc<Tree> {
        self.trees.last().expect("there is one at least")
    }

    /// The tree is like this now.
    fn note(&mut self, tree: Tree) {
        if tree == **self.newest() {
            return;
        }
        self.trees.push(Arc::new(tree));
        let number = self.first + self.trees.len() - 1;
        let tree = Arc::clone(self.newest());
        for (inode, node) in &tree.nodes {
            let Kind::File(bytes) = &node.kind else {
                continue;
            };
            let (durable, newer) = self.contents.entry(*inode).or_default();
            let last = newer.last().map(|(_, bytes)| bytes).or(durable.as_ref());
            if last != Some(bytes) {
                newer.push((number, Arc::clone(bytes)));
            }
        }
    }

    fn sync_everything(&mut self) {
        let tree = Arc::clone(self.newest());
        self.first += self.trees.len() - 1;
        self.trees = vec![Arc::clone(&tree)];
        self.contents = tree
            .nodes
            .keys()
            .filter_map(|inode| Some((*inode, (Some(tree.content(*inode)?.clone()), Vec::new()))))
            .collect();
    }

    /// One file is synced; `names` if its names are to be durable whatever its size did.
    fn sync_file(&mut self, inode: Inode, names: bool) {
        let facts = |tree: &Tree| {
            let len = tree.content(inode).map(|bytes| bytes.len());
            let names: Vec<_> = tree.names.iter().filter(|(_, at)| **at == inode).collect();
            (len, format!("{names:?}"))
        };
        let newest = facts(self.newest());
        let settled = self.trees.iter().rposition(|tree| facts(tree) != newest);
        let upto = match (names, settled) {
            (true, _) => self.trees.len() - 1,
            (false, Some(before)) => before + 1,
            (false, None) => 0,
        };
        self.trees.drain(..upto);
        self.first += upto;
        if let Some((durable, newer)) = self.contents.get_mut(&inode)
            && let Some((_, bytes)) = newer.pop()
        {
            *durable = Some(bytes);
            newer.clear();
        }
    }

    /// What a crash leaves.
    pub fn sample(&self, rng: &mut fastrand::Rng) -> Tree {
        let mood = rng.u8(..3);
        let kept = match mood {
            0 => 0,
            1 => self.trees.len() - 1,
            _ => rng.usize(..self.trees.len()),
        };
        let mut tree = (*self.trees[kept]).clone();
        let number = self.first + kept;
        for (inode, node) in &mut tree.nodes {
            if let Kind::File(bytes) = &mut node.kind {
                let sampled = self.sample_file(*inode, bytes.len(), number, mood, rng);
                *bytes = Arc::new(sampled);
            }
        }
        tree
    }

    /// A file's bytes when names and sizes are those of tree `number`.
    fn sample_file(
        &self,
        inode: Inode,
        len: usize,
        number: usize,
        mood: u8,
        rng: &mut fastrand::Rng,
    ) -> Vec<u8> {
        let empty = (None, Vec::new());
        let (durable, newer) = self.contents.get(&inode).unwrap_or(&empty);
        let mut bytes = vec![0; len];
        for (sector, out) in bytes.chunks_mut(SECTOR_BYTES).enumerate() {
            let start = sector * SECTOR_BYTES;
            let of = |bytes: &Arc<Vec<u8>>| {
                bytes
                    .get(start..)
                    .filter(|rest| !rest.is_empty())
                    .map(<[u8]>::to_vec)
            };
            // What was cut away before the moment that is kept does not come back.
            let mut choices = vec![durable.as_ref().and_then(&of)];
            for (at, version) in newer {
                match of(version) {
                    Some(rest) => choices.push(Some(rest)),
                    None if *at <= number => choices = vec![None],
                    None => break,
                }
            }
            let choice = match mood {
                0 => 0,
                1 => choices.len() - 1,
                _ => rng.usize(..choices.len()),
            };
            if let Some(source) = &choices[choice] {
                let len = source.len().min(out.len());
                out[..len].copy_from_slice(&source[..len]);
            }
        }
        bytes
    }
}

/// The directory of one incarnation, watched.
pub struct Backing {
    root: PathBuf,
    mounting: u64,
    state: Mutex<State>,
}

struct State {
    history: History,
    numbers: Numbers,
    identities: Identities,
    times: Times,
    /// Called once, before all of it is synced.
    beside: Option<Beside>,
    fails_writes: bool,
    /// While a buffer recovers: files that ran with other rights before.
    recovery: Option<Recovering>,
    /// Called around every sync.
    on_sync: Option<Arc<dyn Fn() + Send + Sync>>,
}

/// What is done while something else is.
type Beside = Box<dyn FnOnce() + Send>;

impl State {
    fn read(&mut self, root: &Path) -> std::io::Result<Tree> {
        let mut tree = Tree::read(root, &self.numbers)?;
        self.times.note(&mut tree);
        Ok(tree)
    }
}

/// A recovery under way.
struct Recovering {
    /// Files that had set-id bits before it.
    privileged: BTreeSet<Inode>,
    /// What it did that it must not.
    violation: Option<String>,
}

/// Bits that have a program run with other rights than its user's.
const PRIVILEGE_BITS: u32 = 0o6000;

/// The mode of what has this number below a directory.
fn mode_of(directory: &Path, number: u64) -> Option<u32> {
    for entry in std::fs::read_dir(directory).ok()?.flatten() {
        let below = || mode_of(&entry.path(), number);
        let found = match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            _ if entry.ino() == number => Some(entry.metadata().ok()?.mode()),
            true => below(),
            false => None,
        };
        if found.is_some() {
            return found;
        }
    }
    None
}

/// The identities that the buffer is told: small numbers, used again as soon as they are free.
#[derive(Clone, Debug, Default)]
pub struct Identities {
    by_inode: HashMap<Inode, (u64, u64)>,
    generations: u64,
}

impl Identities {
    fn draw(&mut self, inode: Inode, live: &Tree) -> (u64, u64) {
        let used: BTreeSet<u64> = self
            .by_inode
            .iter()
            .filter(|(inode, _)| live.nodes.contains_key(inode) || **inode == ROOT)
            .map(|(_, (number, _))| *number)
            .collect();
        let number = (2..).find(|number| !used.contains(number)).expect("free");
        self.generations += 1;
        self.by_inode.insert(inode, (number, self.generations));
        (number, self.generations)
    }
}

impl Backing {
    /// What is under `root` is `tree`, all of it durable.
    pub fn new(
        root: &Path,
        tree: Tree,
        identities: Identities,
        mounting: u64,
        clock: &Clock,
    ) -> std::io::Result<Arc<Backing>> {
        let numbers = tree.write(root)?;
        let times = Times::new(clock, &Tree::read(root, &numbers)?, &tree);
        Ok(Arc::new(Backing {
            root: root.to_path_buf(),
            mounting,
            state: Mutex::new(State {
                history: History::new(tree),
                numbers,
                identities,
                times,
                beside: None,
                fails_writes: false,
                recovery: None,
                on_sync: None,
            }),
        }))
    }

    /// Sets what is called around every sync.
    pub fn on_sync(&self, hook: Option<Arc<dyn Fn() + Send + Sync>>) {
        self.state.lock().on_sync = hook;
    }

    /// Does it once, when all of the backing is about to be synced.
    pub fn beside_next_sync_of_all(&self, act: impl FnOnce() + Send + 'static) {
        self.state.lock().beside = Some(Box::new(act));
    }

    /// Looks at the tree: what a crash could leave from now on.
    pub fn look(&self) -> std::io::Result<History> {
        let mut state = self.state.lock();
        let tree = state.read(&self.root)?;
        state.history.note(tree);
        Ok(state.history.clone())
    }

    /// The tree as it is.
    pub fn tree(&self) -> std::io::Result<Tree> {
        self.state.lock().read(&self.root)
    }

    /// A recovery begins.
    pub fn recovery_begins(&self) {
        let mut state = self.state.lock();
        let nodes = state.history.newest().nodes.iter();
        let privileged = nodes.filter(|(_, node)| node.mode & PRIVILEGE_BITS != 0);
        let privileged = privileged.map(|(inode, _)| *inode).collect();
        state.recovery = Some(Recovering {
            privileged,
            violation: None,
        });
    }

    /// It has ended; the error is what it did that it must not.
    pub fn recovery_ended(&self) -> Result<(), String> {
        let recovery = self.state.lock().recovery.take();
        match recovery.and_then(|recovery| recovery.violation) {
            Some(violation) => Err(violation),
            None => Ok(()),
        }
    }

    /// A file is about to be written, or synced. In a recovery it has no set-id bits yet that it did not have before:
    /// with those it could run before it has all its bytes.
    pub fn before_write(&self, file: FileIdentity) -> Option<std::io::Error> {
        let mut state = self.state.lock();
        if state.fails_writes {
            return Some(rustix::io::Errno::IO.into());
        }
        let inode = state.numbers.inode(file.inode);
        let recovery = state.recovery.as_mut()?;
        if recovery.privileged.contains(&inode) {
            return None;
        }
        let mode = mode_of(&self.root, file.inode).unwrap_or_default();
        if mode & PRIVILEGE_BITS != 0 {
            let violation = format!("inode {inode} has mode {mode:o} before it has its data");
            recovery.violation.get_or_insert(violation);
        }
        None
    }

    /// Whether what is about to be written to files fails.
    pub fn fail_writes(&self, fails: bool) {
        self.state.lock().fails_writes = fails;
    }

    /// The inodes' identities, for the next incarnation.
    pub fn identities(&self) -> Identities {
        self.state.lock().identities.clone()
    }

    fn call_hook(&self) {
        let hook = self.state.lock().on_sync.clone();
        if let Some(hook) = hook {
            hook();
        }
    }
}

impl Observer for Backing {
    fn identity(&self, real: FileIdentity) -> Option<SeenIdentity> {
        let mut state = self.state.lock();
        let inode = state.numbers.inode(real.inode);
        let (number, generation) = match state.identities.by_inode.get(&inode) {
            Some(known) => *known,
            None => {
                let live = state.read(&self.root).ok()?;
                state.identities.draw(inode, &live)
            }
        };
        Some(SeenIdentity {
            inode: number,
            generation,
        })
    }

    fn mounting(&self) -> u64 {
        self.mounting
    }

    fn changed_ns(&self, real: FileIdentity, real_ns: i128) -> i128 {
        let mut state = self.state.lock();
        let inode = state.numbers.inode(real.inode);
        state.times.of(inode, real_ns)
    }

    fn change_clock_ns(&self) -> Option<i128> {
        Some(self.state.lock().times.now())
    }

    fn booted_ns(&self) -> i128 {
        self.state.lock().times.booted()
    }

    fn before_sync(&self) {
        self.call_hook();
    }

    fn before_sync_of_all(&self) {
        let beside = self.state.lock().beside.take();
        if let Some(beside) = beside {
            beside();
        }
    }

    fn synced(&self, what: Synced) {
        if self.look().is_err() {
            return;
        }
        {
            let mut state = self.state.lock();
            match what {
                Synced::Everything => state.history.sync_everything(),
                Synced::Data(file) | Synced::All(file) => {
                    let inode = state.numbers.inode(file.inode);
                    let names = matches!(what, Synced::All(_));
                    state.history.sync_file(inode, names);
                }
            }
        }
        self.call_hook();
    }
}
