//! How a buffer is opened.

use std::path::{Path, PathBuf};

use forebay::RuntimeOptions;

/// How a buffer is opened. Each setter takes the options and returns them changed;
/// [`FileBuffer::open`](crate::FileBuffer::open) refuses what does not fit together.
///
/// ```
/// let options = forebay_files::FileBufferOptions::new("/dev/shm/pool").root("/srv/data");
/// ```
#[derive(Clone, Debug)]
pub struct FileBufferOptions {
    pub(crate) pool: PathBuf,
    pub(crate) root: Option<PathBuf>,
    pub(crate) runtime: RuntimeOptions,
    pub(crate) marking: Marking,
}

impl FileBufferOptions {
    /// A buffer in the pool of this file, which `forebay create` made, for files of any directory.
    #[must_use]
    pub fn new(pool: impl AsRef<Path>) -> FileBufferOptions {
        FileBufferOptions {
            pool: pool.as_ref().to_path_buf(),
            root: None,
            runtime: RuntimeOptions::default(),
            marking: Marking::default(),
        }
    }
    /// The only directory whose files may be buffered: a mount's backing. Files of any directory by default.
    #[must_use]
    pub fn root(mut self, root: impl AsRef<Path>) -> FileBufferOptions {
        self.root = Some(root.as_ref().to_path_buf());
        self
    }
    /// How the pool is opened.
    #[must_use]
    pub fn runtime(mut self, runtime: RuntimeOptions) -> FileBufferOptions {
        self.runtime = runtime;
        self
    }
    /// When the files' mark is written (`docs/inside/marks.md`); each time by default.
    #[must_use]
    pub fn marking(mut self, marking: Marking) -> FileBufferOptions {
        self.marking = marking;
        self
    }

    /// The pool's file.
    #[must_use]
    pub fn pool(&self) -> &Path {
        &self.pool
    }
}

/// When it is written which pool has the newest data of files.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Marking {
    /// By each opening and each orderly end: of the root directory, or, of files anywhere, in the user's
    /// state directory.
    #[default]
    EachTime,
    /// By the first opening in a boot, in this file: of many processes, for which another one says in the
    /// end that the files are whole (`say_whole`).
    OnceABoot(PathBuf),
}
