//! What a daemon costs while its guest does nothing.

use std::time::{Duration, Instant};

use forebay_lab::engines::EngineName;

use super::file_system::{self, FileSystem};
use super::killed::TestEnv;
use crate::server::processor_time;
use crate::{Result, Scratch};

/// After the file system was made, until all is at rest: write-back, journal, timers.
const REST: Duration = Duration::from_secs(8);

/// Percent of one processor that the daemon uses while a guest has its disk mounted and is idle.
///
/// # Errors
/// Something could not be started, or a signal came.
pub fn processor_percent(
    scratch: &Scratch,
    forebay: &std::path::Path,
    time: Duration,
) -> Result<f64> {
    let mut rng = fastrand::Rng::with_seed(0);
    let env = TestEnv::new(
        scratch,
        forebay.to_path_buf(),
        EngineName::Forebay,
        &mut rng,
    )?;
    let server = env.serve()?;
    let mut guest = env.boot()?;
    file_system::make(&mut guest, FileSystem::Ext4Ordered, super::killed::DEVICE)?;
    guest.must_run("echo content >/mnt/a/file && sync", REST)?;
    forebay_harness::sleep(REST)?;
    let (began, used_before) = (Instant::now(), processor_time(&server)?);
    forebay_harness::sleep(time)?;
    let used = processor_time(&server)? - used_before;
    let percent = 100.0 * used.as_secs_f64() / began.elapsed().as_secs_f64();
    guest.must_run("umount /mnt/a", REST)?;
    guest.shut_down()?;
    Ok(percent)
}
