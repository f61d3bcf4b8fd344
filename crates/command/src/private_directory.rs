//! The directory that pools in memory are recommended to lie in, which only their user can create names in.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use crate::Failure;

/// Where pools in memory lie best: no other user can create names there.
const PRIVATE_DIRECTORY: &str = "/dev/shm/forebay";

/// Makes it where a pool is to lie in it and it is missing:
/// `/dev/shm/forebay`, or `/dev/shm/forebay-UID` of a user other than root.
pub fn make_for(pool: &Path) -> Result<(), Failure> {
    let user = rustix::process::geteuid();
    let named = match user.is_root() {
        true => String::from(PRIVATE_DIRECTORY),
        false => format!("{PRIVATE_DIRECTORY}-{}", user.as_raw()),
    };
    let directory = std::path::absolute(pool)?;
    if directory.parent() != Some(Path::new(&named)) {
        return Ok(());
    }
    match DirBuilder::new().mode(0o700).create(&named) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(Failure::Failed(format!("{named}: {error}")))
        }
        _ => Ok(()),
    }
}
