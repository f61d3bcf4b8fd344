//! Why a file is not this process's own, in words that say what to do.

use std::fmt;

/// Why a file is not ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Foreign {
    /// A symbolic link stands there.
    Link,
    /// A name of a disk that is given by what the disk holds.
    NamedByContents,
    /// It belongs to this user.
    Owner(u32),
    /// Others may write it: its mode.
    Writable(u32),
    /// It has this many names, and only one of them is known.
    Names(u64),
    /// Others may change names in its directory: owner and mode of that.
    Directory {
        /// The directory's user.
        user: u32,
        /// Its permissions.
        mode: u32,
    },
}

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Foreign::Link => write!(
                f,
                "a symbolic link stands there, and another user may have planted it; name the file itself"
            )?,
            Foreign::NamedByContents => {
                return write!(
                    f,
                    "this name is given to whatever disk carries a label or number, and another user's may carry the same; \
                     name the disk by /dev/disk/by-id, /dev/disk/by-path or /dev/mapper, or itself"
                );
            }
            Foreign::Owner(user) => write!(
                f,
                "it belongs to user {user} and may hold anything; use a file of your own"
            )?,
            Foreign::Writable(mode) => write!(
                f,
                "it may be written by others (mode {mode:o}); look at it and take that right away \
                 (chmod go-w)"
            )?,
            Foreign::Names(count) => write!(
                f,
                "it has {count} names, and others may have it by another one; remove those that are not \
                 meant"
            )?,
            Foreign::Directory { user, mode } => write!(
                f,
                "others may change names in its directory (of user {user}, mode {mode:o}); use a \
                 directory of your own, like /dev/shm/forebay"
            )?,
        }
        write!(f, ", or say --trust-owner if you know that it is right")
    }
}
