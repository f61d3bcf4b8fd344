//! How a buffer is opened.

use std::path::PathBuf;

use forebay::RuntimeOptions;

/// How a buffer is opened.
#[derive(Clone, Debug)]
pub struct FileBufferOptions {
    /// The pool's file; made by `forebay create`.
    pub pool: PathBuf,
    /// The only directory whose files may be buffered (a mount's backing), or any.
    pub root: Option<PathBuf>,
    /// How the pool is opened.
    pub runtime: RuntimeOptions,
    /// When the files' mark is written (`docs/inside/marks.md`).
    pub mark: Marking,
}

/// When it is written which pool has the newest data of files.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Marking {
    /// By each opening and each orderly end: of the root directory, or, of files anywhere, in the user's
    /// state directory.
    #[default]
    EachTime,
    /// By the first opening in a boot, in this file: of many processes, for which another one says in the
    /// end that the files are whole (`say_whole`).
    OnceABoot(PathBuf),
}
