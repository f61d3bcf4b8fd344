//! Looks at pools on SSDs that may be in use: nothing is recovered, and nothing is changed.

use std::path::Path;
use std::sync::Arc;

use forebay_log::{Device, PrivateDevice, Way, begins_as_pool};

use super::errors::of_log;
use super::known::{identity_of, side_of};
use super::members::device_of;
use crate::backing::BackingIdentity;
use crate::error::Result;
use crate::marks::PoolSide;

/// Whether a file or device begins as a pool on an SSD does. What cannot be read is none.
#[must_use]
pub fn is_ssd_pool(path: &Path) -> bool {
    use std::io::Read;
    use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
    let mut first = [0; 8];
    let mut options = std::fs::File::options();
    // A pipe or a terminal of that name is not waited for.
    options.read(true).custom_flags(libc::O_NONBLOCK);
    let read = options.open(path).and_then(|mut file| {
        let kind = file.metadata()?.file_type();
        match kind.is_file() || kind.is_block_device() {
            true => file.read_exact(&mut first),
            false => Err(std::io::ErrorKind::Unsupported.into()),
        }
    });
    read.is_ok() && begins_as_pool(&first)
}

/// What a pool, which may be in use, says of each of its volumes, and which backings they have.
pub(crate) fn sides(
    paths: &[&Path],
    trust_owner: bool,
) -> Result<Vec<(BackingIdentity, PoolSide)>> {
    let device = device_in_use(paths, trust_owner)?;
    let (uuid, rows) = forebay_log::look(&*device).map_err(of_log)?;
    let rows = rows.iter().filter(|row| row.is_attached);
    let sides = rows.map(|row| {
        let side = side_of(uuid.to_le_bytes(), row, false);
        (identity_of(row), side)
    });
    Ok(sides.collect())
}

/// The identity of a pool, which may be in use.
pub(crate) fn identity(paths: &[&Path], trust_owner: bool) -> Result<[u8; 16]> {
    let device = device_in_use(paths, trust_owner)?;
    let (uuid, _) = forebay_log::look(&*device).map_err(of_log)?;
    Ok(uuid.to_le_bytes())
}

/// Of a mirror one member is enough for a look: of two the one that has everything.
fn device_in_use(paths: &[&Path], trust_owner: bool) -> Result<Arc<dyn Device>> {
    let open = |path: &Path| -> forebay_log::Result<Arc<dyn Device>> {
        Ok(Arc::new(PrivateDevice::open_in_use(path, trust_owner)?))
    };
    device_of(paths, open, true, Way::InTurn)
}
