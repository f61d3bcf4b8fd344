//! Where a crash left what the log speaks of: every name that any inode ever had while the log ran is
//! looked at, from the root down. What is under none of them was moved by another program, or is lost:
//! then it is looked for by what it is (see [`super::search`]).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::io;

use super::file_system::Mark;
use super::proof::Proof;
use super::space::{Identity, NameSpace, Place, Seen};
use super::table::{Node, Table};
use crate::metadata::FileId;
use crate::mutants::{Mutant, mutated};

/// Names that recovery gives to what is in the way of something else, or not finished.
const STAGED_PREFIX: &str = ".forebay-staged-";

/// The name of an inode that is on its way.
pub(super) fn staged_name(id: FileId) -> String {
    format!("{STAGED_PREFIX}{id}")
}

/// Where everything is.
pub(super) struct Located<H> {
    /// Directories that were found.
    pub handles: HashMap<FileId, H>,
    /// Names under which inodes were found.
    pub at: BTreeMap<FileId, BTreeSet<Place>>,
    /// Which inode has each name that was looked at; none: one that the log does not know.
    pub occupied: HashMap<Place, Option<FileId>>,
    /// Staged names of inodes that were made, but not recorded.
    pub unfinished: Vec<(Place, bool)>,
    /// Inodes that are under no name the log mentions: only other programs can have put them there.
    pub elsewhere: BTreeMap<FileId, H>,
    /// Inodes that were found or made, as they were seen first.
    pub seen: HashMap<FileId, Seen>,
    /// What could not be looked for, in words.
    pub complaints: Vec<String>,
    /// Devices, as the log calls them, that have been mounted all the time: the kernel kept everything
    /// that was done there, and where things are now is where they belong.
    pub unbroken: HashSet<u64>,
}

impl<H: Clone> Located<H> {
    /// Holds an inode that is there.
    pub fn hold<S: NameSpace<Handle = H>>(&self, space: &S, id: FileId) -> io::Result<Option<H>> {
        if let Some(handle) = self.elsewhere.get(&id) {
            return Ok(Some(handle.clone()));
        }
        let Some(place) = self.at.get(&id).and_then(|at| at.first()) else {
            return Ok(None);
        };
        space
            .hold(&self.handles[&place.parent], &place.name)
            .map(Some)
    }

    /// Whether the inode has a name.
    pub fn is_found(&self, id: FileId) -> bool {
        self.at.get(&id).is_some_and(|at| !at.is_empty()) || self.elsewhere.contains_key(&id)
    }

    /// Whether the names of an inode, whatever they are now, are what programs made of them.
    pub fn is_unbroken(&self, node: &Node) -> bool {
        self.unbroken.contains(&node.identity().device)
    }
}

pub(super) struct Search<'a, S: NameSpace> {
    pub space: &'a S,
    pub table: &'a Table,
    /// Names that the log mentions, by directory.
    mentioned: HashMap<FileId, BTreeSet<Place>>,
    by_identity: HashMap<(u64, Proof), Vec<FileId>>,
    devices: Devices,
    pub found: Located<S::Handle>,
}

/// Devices are called otherwise after each boot.
#[derive(Default)]
struct Devices {
    /// What a file system is called now, by what the log calls it.
    now: HashMap<u64, u64>,
    /// Which file systems those are that were seen, by what they are called now.
    marks: HashMap<u64, Option<Mark>>,
}

/// Looks at every name that the log mentions; inodes `with_data` are wanted as well as those that are to have
/// a name.
///
/// # Errors
/// The root is another directory than the log's; the backing failed.
pub(super) fn look_at_names<'a, S: NameSpace>(
    space: &'a S,
    table: &'a Table,
    with_data: &HashSet<FileId>,
) -> io::Result<Search<'a, S>> {
    let mut search = Search {
        space,
        table,
        mentioned: HashMap::new(),
        by_identity: HashMap::new(),
        devices: Devices::default(),
        found: Located {
            handles: HashMap::new(),
            at: BTreeMap::new(),
            occupied: HashMap::new(),
            unfinished: Vec::new(),
            elsewhere: BTreeMap::new(),
            seen: HashMap::new(),
            complaints: Vec::new(),
            unbroken: HashSet::new(),
        },
    };
    let Some(root) = table.node(FileId::ROOT) else {
        return Ok(search);
    };
    search.index();
    let handle = space.root();
    let seen = space.seen(&handle)?;
    if !is_same(&root.identity(), &seen.identity) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the pool buffers another directory; name that one, or use another pool",
        ));
    }
    let (known, now) = (root.identity().device, seen.identity.device);
    let mark = space.mark(&handle)?;
    let is_needed = !with_data.is_empty() || table.nodes().any(|(id, _)| id != FileId::ROOT);
    if let (Some(wanted), Some(found)) = (table.marks.get(&known), mark)
        && wanted.differs(&found)
        && is_needed
    {
        return Err(another_file_system(wanted, &found));
    }
    search.devices.now.insert(known, now);
    search.devices.marks.insert(now, mark);
    search.found.handles.insert(FileId::ROOT, handle);
    search.found.seen.insert(FileId::ROOT, seen);
    search.descend(FileId::ROOT)?;
    search.compare_mountings()?;
    Ok(search)
}

/// Names and numbers are the same on many: what is not in the pool any more would be lost to the right one.
fn another_file_system(wanted: &Mark, found: &Mark) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        format!(
            "the pool has data of the file system {wanted}, but another one is mounted there, {found}; \
             mount the right one, or use another pool"
        ),
    )
}

/// All but the device, whose number changes from boot to boot.
fn is_same(known: &Identity, seen: &Identity) -> bool {
    known.inode == seen.inode
        && (known.proof == seen.proof || mutated(Mutant::FilesIdentityWithoutProof))
}

impl<S: NameSpace> Search<'_, S> {
    fn index(&mut self) {
        for (id, node) in self.table.nodes() {
            for place in &node.mentioned {
                let names = self.mentioned.entry(place.parent).or_default();
                names.insert(place.clone());
            }
            for identity in &node.identities {
                let key = key(identity);
                self.by_identity.entry(key).or_default().push(id);
            }
        }
    }

    /// A directory that was found on the device, as the log calls that.
    pub fn directory_on(&self, device: u64) -> Option<&S::Handle> {
        let mut handles = self.found.handles.iter();
        let on_it = |id: FileId| self.table.node(id).map(|node| node.identity().device);
        let found = handles.find(|(id, _)| on_it(**id) == Some(device));
        found.map(|(_, handle)| handle)
    }

    /// What the log says of a device was done in one mounting of it. If that lasts, the kernel knows all of
    /// it, done or undone by others since.
    fn compare_mountings(&mut self) -> io::Result<()> {
        for (device, mounting) in &self.table.mountings {
            let Some(directory) = self.directory_on(*device) else {
                continue;
            };
            let now = self.space.mounting(directory)?;
            let lasts = now == Some(*mounting) || mutated(Mutant::FilesPowerCutTakenForKill);
            if lasts && !mutated(Mutant::FilesKillTakenForPowerCut) {
                self.found.unbroken.insert(*device);
            }
        }
        Ok(())
    }

    /// Looks at the names mentioned in a directory that was found, and so on downwards.
    pub fn descend(&mut self, from: FileId) -> io::Result<()> {
        let mut open = VecDeque::from([from]);
        while let Some(directory) = open.pop_front() {
            let handle = self.found.handles[&directory].clone();
            let mut places = self.mentioned.remove(&directory).unwrap_or_default();
            if self.table.reconciling {
                let names = self.space.names(&handle, STAGED_PREFIX)?;
                places.extend(names.into_iter().map(|name| Place {
                    parent: directory,
                    name,
                }));
            }
            for place in places {
                let Some(seen) = self.space.look(&handle, &place.name)? else {
                    continue;
                };
                self.know_mark(&handle, &place, &seen)?;
                let id = self.identify(&place, &seen);
                if id.is_none() && self.staged(&place) {
                    self.found.unfinished.push((place, seen.is_directory()));
                    continue;
                }
                self.found.occupied.insert(place.clone(), id);
                let Some(id) = id else { continue };
                let is_directory = seen.is_directory();
                self.found.seen.entry(id).or_insert(seen);
                if is_directory && !self.found.handles.contains_key(&id) {
                    let held = self.space.hold(&handle, &place.name)?;
                    // The file system that it is on will have to be synced.
                    self.space.seen(&held)?;
                    self.found.handles.insert(id, held);
                    open.push_back(id);
                }
                self.found.at.entry(id).or_default().insert(place);
            }
        }
        Ok(())
    }

    /// Which file system a directory is on that was not seen before.
    fn know_mark(&mut self, directory: &S::Handle, place: &Place, seen: &Seen) -> io::Result<()> {
        let device = seen.identity.device;
        if seen.is_directory() && !self.devices.marks.contains_key(&device) {
            let mark = self.space.mark(&self.space.hold(directory, &place.name)?)?;
            self.devices.marks.insert(device, mark);
        }
        Ok(())
    }

    /// Whether recovery gave this name to an inode of the log.
    fn staged(&self, place: &Place) -> bool {
        let name = place.name.to_str();
        let number = name.and_then(|name| name.strip_prefix(STAGED_PREFIX)?.parse().ok());
        number.is_some_and(|number| self.table.node(FileId(number)).is_some())
    }

    /// Which inode of the log was seen; none if it is another one, or is where it never was by us.
    fn identify(&mut self, place: &Place, seen: &Seen) -> Option<FileId> {
        self.who_is(seen, |id, node| {
            let staged = staged_name(id);
            node.mentioned.contains(place) || place.name.to_str() == Some(staged.as_str())
        })
    }

    /// Which inode was seen, of those that may be.
    pub fn who_is(&mut self, seen: &Seen, may: impl Fn(FileId, &Node) -> bool) -> Option<FileId> {
        let ids = self.by_identity.get(&key(&seen.identity))?;
        let mut fitting: Vec<FileId> = Vec::new();
        for &id in ids {
            let node = self.table.node(id).expect("the index names nodes");
            if may(id, node) && fits(&mut self.devices, self.table, node, &seen.identity) {
                fitting.push(id);
            }
        }
        // Without proofs several may fit: then the one that is to have a name.
        let lives = |id: &&FileId| {
            let node = self.table.node(**id).expect("the index names nodes");
            !node.names.is_empty()
        };
        fitting.iter().find(lives).or(fitting.first()).copied()
    }
}

/// Whether the device is the node's. A directory that a file system is mounted on tells what that one
/// is called now, unless it is another one.
fn fits(devices: &mut Devices, table: &Table, node: &Node, seen: &Identity) -> bool {
    let known = node.identities.iter().find(|known| is_same(known, seen));
    let Some(known) = known else { return false };
    if let Some(now) = devices.now.get(&known.device) {
        return *now == seen.device;
    }
    let marks = (
        table.marks.get(&known.device),
        devices.marks.get(&seen.device).copied().flatten(),
    );
    if matches!(marks, (Some(wanted), Some(found)) if wanted.differs(&found)) {
        return false;
    }
    devices.now.insert(known.device, seen.device);
    true
}

fn key(identity: &Identity) -> (u64, Proof) {
    let proof = match mutated(Mutant::FilesIdentityWithoutProof) {
        true => Proof::NOTHING,
        false => identity.proof,
    };
    (identity.inode, proof)
}

/// What becomes of an inode whose attributes are to be restored.
pub(super) enum Held<H> {
    It(H),
    /// It has no name.
    Nothing,
    /// Another one has its name now, or none has.
    Another,
}

/// Holds the very inode that was found or made, if it is there still: others may be at work.
pub(super) fn hold_same<S: NameSpace>(
    space: &S,
    now: &Located<S::Handle>,
    id: FileId,
) -> io::Result<Held<S::Handle>> {
    let held = match now.handles.get(&id) {
        Some(directory) => Some(directory.clone()),
        None => match now.hold(space, id) {
            Err(error) if is_missing(&error) => return Ok(Held::Another),
            held => held?,
        },
    };
    let (Some(handle), Some(known)) = (held, now.seen.get(&id)) else {
        return Ok(Held::Nothing);
    };
    Ok(match space.seen(&handle)?.identity == known.identity {
        true => Held::It(handle),
        false => Held::Another,
    })
}

fn is_missing(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
        || matches!(error.raw_os_error(), Some(libc::ENOTDIR | libc::ESTALE))
}
