//! A directory tree as it is, or as a crash leaves it: read from the file system, and made there.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::fs;
use std::hash::{Hash, Hasher};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::XattrFlags;
use rustix::io::Errno;

/// An inode, by a number that it keeps through all incarnations of a story.
pub type Inode = u64;

/// The directory that all others are in.
pub const ROOT: Inode = 0;

/// What an inode is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A directory.
    Directory,
    /// A symbolic link to this.
    Link(OsString),
    /// A file with this in it.
    File(Arc<Vec<u8>>),
}

/// An inode at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    /// What it is.
    pub kind: Kind,
    /// Its permissions.
    pub mode: u32,
    /// The value of [`EXTENDED`], if it has that.
    pub extended: Option<Vec<u8>>,
    /// Its owner.
    pub owner: u32,
    /// Whether it has [`CAPABILITY`].
    pub has_capability: bool,
    /// When anything of it was changed.
    pub changed: Changed,
}

/// A moment by which no two nodes differ.
#[derive(Clone, Copy, Debug, Default)]
pub struct Changed(pub i128);

impl PartialEq for Changed {
    fn eq(&self, _: &Changed) -> bool {
        true
    }
}

impl Eq for Changed {}

impl Hash for Changed {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

/// The extended attribute that is looked at, of files and directories.
pub const EXTENDED: &str = "user.forebay-harness";
/// What a program may do beyond its user's rights (`capabilities(7)`).
pub const CAPABILITY: &str = "security.capability";
/// Version 2, and no capability in it.
pub const CAPABILITY_VALUE: [u8; 20] = {
    let mut value = [0; 20];
    value[3] = 2;
    value
};
/// Longer values are not looked at.
const VALUE_BYTES_MAX: usize = 64 << 10;

fn extended_of(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let mut value = vec![0; VALUE_BYTES_MAX];
    match rustix::fs::getxattr(path, EXTENDED, &mut value) {
        Ok(len) => {
            value.truncate(len);
            Ok(Some(value))
        }
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

impl Node {
    /// Gives what was made the attributes.
    fn set_attributes(&self, path: &Path) -> io::Result<()> {
        if fs::metadata(path)?.uid() != self.owner {
            chown(path, Some(self.owner), None)?;
        }
        fs::set_permissions(path, fs::Permissions::from_mode(self.mode))?;
        if let Some(value) = &self.extended {
            rustix::fs::setxattr(path, EXTENDED, value, XattrFlags::empty())?;
        }
        if self.has_capability {
            rustix::fs::setxattr(path, CAPABILITY, &CAPABILITY_VALUE, XattrFlags::empty())?;
        }
        Ok(())
    }
}

/// A tree at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tree {
    /// Names, by directory.
    pub names: BTreeMap<(Inode, OsString), Inode>,
    /// What has a name.
    pub nodes: BTreeMap<Inode, Node>,
}

/// Inodes of the file system by their numbers there.
#[derive(Clone, Debug, Default)]
pub struct Numbers(pub HashMap<u64, Inode>);

impl Numbers {
    /// The inode of a number; one that was never seen is new.
    #[must_use]
    pub fn inode(&self, number: u64) -> Inode {
        self.0.get(&number).copied().unwrap_or(number)
    }
}

impl Tree {
    /// Reads what is under `root`.
    ///
    /// # Errors
    /// The file system's.
    pub fn read(root: &Path, numbers: &Numbers) -> io::Result<Tree> {
        let mut tree = Tree::default();
        let mut open = vec![(root.to_path_buf(), ROOT)];
        while let Some((path, directory)) = open.pop() {
            for entry in fs::read_dir(&path)? {
                let entry = entry?;
                let data = entry.metadata()?;
                let inode = numbers.inode(data.ino());
                tree.names.insert((directory, entry.file_name()), inode);
                let kind = match data.file_type() {
                    kind if kind.is_dir() => {
                        open.push((entry.path(), inode));
                        Kind::Directory
                    }
                    kind if kind.is_symlink() => {
                        Kind::Link(fs::read_link(entry.path())?.into_os_string())
                    }
                    _ => Kind::File(Arc::new(fs::read(entry.path())?)),
                };
                let is_file = matches!(kind, Kind::File(_));
                let node = Node {
                    mode: data.permissions().mode() & 0o7777,
                    extended: match kind {
                        Kind::Link(_) => None,
                        _ => extended_of(&entry.path())?,
                    },
                    owner: data.uid(),
                    has_capability: is_file
                        && rustix::fs::getxattr_query(entry.path(), CAPABILITY).is_ok(),
                    changed: Changed(
                        i128::from(data.ctime()) * 1_000_000_000 + i128::from(data.ctime_nsec()),
                    ),
                    kind,
                };
                tree.nodes.insert(inode, node);
            }
        }
        Ok(tree)
    }

    /// Makes it under `root`, which is emptied first.
    ///
    /// # Errors
    /// The file system's.
    pub fn write(&self, root: &Path) -> io::Result<Numbers> {
        if root.exists() {
            fs::remove_dir_all(root)?;
        }
        fs::create_dir(root)?;
        let mut numbers = Numbers::default();
        numbers.0.insert(fs::metadata(root)?.ino(), ROOT);
        let mut made: HashMap<Inode, PathBuf> = HashMap::new();
        let mut open = vec![(ROOT, root.to_path_buf())];
        while let Some((directory, path)) = open.pop() {
            for (name, inode) in self.names_in(directory) {
                let path = path.join(name);
                if let Some(first) = made.get(&inode) {
                    fs::hard_link(first, &path)?;
                    continue;
                }
                let node = &self.nodes[&inode];
                match &node.kind {
                    Kind::Directory => {
                        fs::create_dir(&path)?;
                        open.push((inode, path.clone()));
                    }
                    Kind::Link(target) => symlink(target, &path)?,
                    Kind::File(bytes) => fs::write(&path, bytes.as_slice())?,
                }
                if !matches!(node.kind, Kind::Link(_)) {
                    node.set_attributes(&path)?;
                }
                numbers.0.insert(fs::symlink_metadata(&path)?.ino(), inode);
                made.insert(inode, path);
            }
        }
        Ok(numbers)
    }

    /// The names in a directory.
    fn names_in(&self, directory: Inode) -> impl Iterator<Item = (&OsString, Inode)> {
        let from = (directory, OsString::new());
        self.names
            .range(from..)
            .take_while(move |((parent, _), _)| *parent == directory)
            .map(|((_, name), inode)| (name, *inode))
    }

    /// Every name from the root, with its inode.
    #[must_use]
    pub fn paths(&self) -> BTreeMap<PathBuf, Inode> {
        let mut paths = BTreeMap::new();
        let mut open = vec![(ROOT, PathBuf::new())];
        while let Some((directory, path)) = open.pop() {
            for (name, inode) in self.names_in(directory) {
                let path = path.join(name);
                if self.nodes[&inode].kind == Kind::Directory {
                    open.push((inode, path.clone()));
                }
                paths.insert(path, inode);
            }
        }
        paths
    }

    /// A path as a name in a directory.
    ///
    /// # Panics
    /// The directory is not there.
    #[must_use]
    pub fn entry(&self, path: &Path) -> (Inode, OsString) {
        let name = path
            .file_name()
            .expect("paths have a last name")
            .to_os_string();
        match path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty())
        {
            Some(parent) => (self.names[&self.entry(parent)], name),
            None => (ROOT, name),
        }
    }

    /// What a file holds; none if it is none.
    #[must_use]
    pub fn content(&self, inode: Inode) -> Option<&Arc<Vec<u8>>> {
        match &self.nodes.get(&inode)?.kind {
            Kind::File(bytes) => Some(bytes),
            _ => None,
        }
    }
}
