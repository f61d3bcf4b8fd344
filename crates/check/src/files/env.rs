//! Where one worker plays: folders, the place of DATA's mark as the real code writes it (a file in a folder that
//! loses what was not synced), and pools that were just made.

use super::backing::Backing;
use super::clock::Clock;
use super::pool::{Kind, PoolImage};
use forebay::MarkPlace;
use forebay::internals::MarkFiles;
use forebay::unstable::MarkWatcher;
use forebay_files::FileIdentity;
use forebay_files::observe::{Observer, Synced};
use forebay_harness::files::{CAPABILITY, CAPABILITY_VALUE, EXTENDED};
use forebay_harness::{TempDir, memory_folder, temporary_folder};
use rustix::fs::XattrFlags;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The mark's file, in its folder.
pub const MARK_NAME: &str = "data.mark";

/// DATA's mark beside it; whether DATA is empty is seen at DATA itself.
struct DataMark {
    file: MarkFiles,
    data: MarkFiles,
}

impl MarkPlace for DataMark {
    fn read(&self) -> io::Result<Vec<Vec<u8>>> {
        self.file.read()
    }

    fn write(&self, mark: &[u8]) -> io::Result<()> {
        self.file.write(mark)
    }

    fn is_empty_directory(&self) -> bool {
        self.data.is_empty_directory()
    }
}

/// Where the mark of an incarnation lies.
pub fn mark_place(env: &TestEnv) -> io::Result<Box<dyn MarkPlace>> {
    let data = File::open(&env.root)?;
    Ok(Box::new(DataMark {
        file: MarkFiles::at(env.marks.join(MARK_NAME)),
        data: MarkFiles::of_directory(data, &env.root),
    }))
}

/// Tells the folder what of it is durable.
pub struct MarkFolder(pub Arc<Backing>);

impl MarkWatcher for MarkFolder {
    fn before_sync(&self) {
        // What was done since is a moment of its own, whether it is noted or not.
        if self.0.look().is_ok() {
            self.0.before_sync();
        }
    }

    fn synced(&self, file: &File) {
        if let Ok(identity) = FileIdentity::of(file) {
            Observer::synced(&*self.0, Synced::All(identity));
        }
    }
}

fn has_attribute(folder: &Path, name: &str, value: &[u8]) -> bool {
    let file = folder.join("attributes");
    let made = File::create(&file);
    let set = made.map(|_| rustix::fs::setxattr(&file, name, value, XattrFlags::empty()));
    // It goes with the folder at last.
    let _ = std::fs::remove_file(&file);
    matches!(set, Ok(Ok(())))
}

/// Where one worker plays: folders, and pools that were just made.
pub struct TestEnv {
    _folder: TempDir,
    /// The directory of the backing; made anew for each process that recovers.
    pub root: PathBuf,
    /// The folder of its mark; made anew too.
    pub marks: PathBuf,
    /// The pool that a scenario begins with.
    pub own: PoolImage,
    /// One that has never seen the backing.
    pub other: PoolImage,
    /// Whether the file system has extended attributes, and capabilities that this user may give.
    pub has_extended: bool,
    /// See [`TestEnv::has_extended`].
    pub has_capabilities: bool,
    /// The machine's clock: it counts changes of inodes.
    pub clock: Clock,
}

impl TestEnv {
    /// In memory where that can be: crashes are played, not waited for.
    pub fn new(kind: Kind) -> Result<TestEnv, String> {
        let folder = temporary_folder(&memory_folder()).map_err(|error| error.to_string())?;
        Ok(TestEnv {
            root: folder.path().join("root"),
            marks: folder.path().join("marks"),
            has_extended: has_attribute(folder.path(), EXTENDED, b""),
            has_capabilities: has_attribute(folder.path(), CAPABILITY, &CAPABILITY_VALUE),
            clock: Clock::default(),
            own: PoolImage::new(kind, u64::MAX)?,
            other: PoolImage::new(kind, u64::MAX - 1)?,
            _folder: folder,
        })
    }
}
