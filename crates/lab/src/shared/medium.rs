//! What every engine does about a medium that fails under it: pages that went bad read as zeroes, and
//! the region's fences fail from then on.

use forebay::{Error, ErrorKind, Region, Result};

/// A fence after which the region is given up if it failed, for whatever reason: what it should have
/// made durable may be there or not, and nothing may be stored over it.
pub(crate) fn fence(region: &Region) -> Result<()> {
    region.fence().map_err(|error| {
        region.poison();
        Error::from(error)
    })
}

/// Refuses a region of which a page went bad while recovery read it: a lost entry looks like a free one.
///
/// # Errors
/// `Damaged`, with the page's place.
pub(crate) fn check_medium(region: &Region) -> Result<()> {
    match region.media_errors().first() {
        None => Ok(()),
        Some(offset) => Err(ErrorKind::Damaged {
            path: region.path().to_path_buf(),
            found: format!("the medium failed in the page at byte {offset}"),
        }
        .into()),
    }
}

/// Refuses to go on after a fence failed: what is durable, and of which transaction, is unknown.
///
/// # Errors
/// `Poisoned`.
pub(crate) fn check_alive(region: &Region) -> Result<()> {
    if region.is_poisoned() {
        let path = region.path().to_path_buf();
        return Err(ErrorKind::Poisoned { path }.into());
    }
    Ok(())
}

/// The error of a region that holds something else than was asked for.
pub(crate) fn refused(region: &Region, found: String, todo: &str) -> Error {
    ErrorKind::Refused {
        path: region.path().to_path_buf(),
        found,
        todo: todo.to_string(),
    }
    .into()
}
