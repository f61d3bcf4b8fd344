//! Whether what has a volume's name now is what the pool knows by it.

use super::StaleRefusal;
use crate::backing::BackingIdentity;

const ANOTHER: &str = "bring the file back that was in use; to have this one go on in its place, with what is \
     dirty in the pool written over what it has: --accept-stale; to give up what the pool has: forebay detach \
     POOL PATH --discard-unwritten";
const CUT_SHORT: &str = "restore its size, or bring the file back that was in use; to give up what the pool \
     has: forebay detach POOL PATH --discard-unwritten";

/// Whether `found` is the file or device that a pool knows as `known`. A larger one is, which has grown.
///
/// # Errors
/// It is another file, as a copy or one that was made anew is; [`classify_size`] has the rest.
pub fn classify_file(known: &BackingIdentity, found: &BackingIdentity) -> Result<(), StaleRefusal> {
    if known.inode == found.inode {
        return Ok(());
    }
    Err(StaleRefusal {
        found: format!(
            "it is another file than the one of this name that the pool caches, and has newer data of \
             (inode {}, now {}): a copy, or made anew",
            known.inode, found.inode
        ),
        todo: ANOTHER,
    })
}

/// Whether `found` has room for every block that a pool may have of `known`.
///
/// # Errors
/// It is smaller; no option accepts that.
pub fn classify_size(known: &BackingIdentity, found: &BackingIdentity) -> Result<(), StaleRefusal> {
    if known.size_bytes <= found.size_bytes {
        return Ok(());
    }
    Err(StaleRefusal {
        found: format!(
            "it has {} bytes, and the pool caches it with {}",
            found.size_bytes, known.size_bytes
        ),
        todo: CUT_SHORT,
    })
}
