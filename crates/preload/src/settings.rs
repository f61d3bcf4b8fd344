//! What the environment says: the pool, the paths that are covered, and where to log.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crate::cover::Cover;
use crate::log::Log;

/// The pool's file. Without it the library does nothing.
pub const POOL: &str = "FOREBAY_POOL";
/// Globs of the covered paths, separated by colons. Default: all below the working directory in
/// which the process begins.
pub const COVER: &str = "FOREBAY_COVER";
/// Where the files' mark lies (`docs/inside/marks.md`). Default: in the user's state directory.
pub const MARK: &str = "FOREBAY_MARK";
/// A file to which a line is added for each noteworthy event. Default: none.
pub const LOG: &str = "FOREBAY_LOG";

/// If it is 1, the pool may be another user's.
pub const TRUST_OWNER: &str = "FOREBAY_TRUST_OWNER";

/// Memory in which all processes count what they do: made by `forebay run`.
pub const TALLY: &str = "FOREBAY_TALLY";

/// The settings of this process.
pub struct Settings {
    pub pool: PathBuf,
    pub trust_owner: bool,
    pub mark: PathBuf,
    pub cover: Cover,
    pub log: Log,
}

impl Settings {
    /// Reads the environment.
    pub fn from_environment() -> Option<Settings> {
        let pool = PathBuf::from(std::env::var_os(POOL).filter(|value| !value.is_empty())?);
        let here = std::env::current_dir().ok();
        let pool = match &here {
            Some(here) => here.join(pool),
            None => pool,
        };
        let patterns = match std::env::var_os(COVER).filter(|value| !value.is_empty()) {
            Some(patterns) => patterns,
            None => Cover::below(here.as_deref()?),
        };
        let log = Log::new(std::env::var_os(LOG).map(PathBuf::from));
        let (cover, refused) = Cover::new(&patterns, here.as_deref(), &pool);
        for pattern in refused {
            log.line(&format!(
                "{COVER}: {pattern} is no pattern; it covers nothing"
            ));
        }
        let trust_owner = std::env::var_os(TRUST_OWNER).is_some_and(|value| value == "1");
        let mark = std::env::var_os(MARK).map(PathBuf::from);
        let mark = mark.unwrap_or_else(|| forebay::internals::file_of_pool(&pool));
        Some(Settings {
            pool,
            trust_owner,
            mark,
            cover,
            log,
        })
    }

    /// The file that is there while a process has the pool: where no process holds the pool it says
    /// that its owner died, and that the backing may lack what the pool holds.
    pub fn owner_mark(&self) -> PathBuf {
        let mut path = OsString::from(self.pool.as_os_str());
        path.push(".owner");
        debug_assert!(path.as_bytes().len() > self.pool.as_os_str().len());
        PathBuf::from(path)
    }
}
