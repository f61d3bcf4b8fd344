//! A directory with a pool, backings, a mount point and sockets; nothing of it is left afterwards.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use forebay_harness::{
    Daemon, PoolMedium, Result, TempDir, TestEnv, mount_obstacle, temporary_folder,
};
use parking_lot::Mutex;

use crate::model::Runs;
use crate::stamp::SECTOR_BYTES;
use crate::tally::Tally;
use crate::worker::Volume;

/// Names of the volumes; the last one comes and goes, the one before is mounted, too.
pub const VOLUMES: [&str; 4] = ["alpha", "beta", "mounted", "guest"];
pub const MOUNTED: usize = 2;
pub const GUEST: usize = 3;

/// Given to the daemon; it is in use by a mount for moments only.
const SHUTDOWN_DEADLINE_S: u64 = 3;

/// Read at once; backings are multiples of it.
const PIECE_BYTES: usize = 1 << 20;

/// What the pools are.
#[derive(Clone, Copy)]
pub struct Pools<'p> {
    /// What the one lies on that is served.
    pub medium: PoolMedium,
    /// Where pools on an SSD are made.
    pub disk: &'p Path,
    /// Whether one of these stands behind it.
    pub is_stacked: bool,
}

#[derive(Debug)]
pub struct Place {
    pub env: TestEnv,
    /// Where the pool behind is.
    behind: Option<TempDir>,
    /// Whether the mounted volume is.
    pub has_fuse: bool,
}

impl Place {
    /// Makes a pool and backings.
    pub fn new(
        forebay: &Path,
        pools: Pools<'_>,
        backings: &Path,
        pool_bytes: u64,
        volume_bytes: u64,
    ) -> Result<Place> {
        let Pools {
            medium,
            disk,
            is_stacked,
        } = pools;
        let behind = is_stacked.then(|| temporary_folder(disk)).transpose()?;
        let place = Place {
            env: TestEnv::with_pools(forebay, medium, disk, backings)?,
            behind,
            has_fuse: mount_obstacle().is_none(),
        };
        for name in VOLUMES {
            File::create(place.backing(name))?.set_len(volume_bytes)?;
        }
        place.write_config()?;
        let pool = place.env.path("pool");
        place
            .env
            .create_pool((&pool, medium), pool_bytes, &["--test"])?;
        if let Some(behind) = place.behind() {
            let medium = PoolMedium::Ssd;
            place.env.create_pool((&behind, medium), pool_bytes, &[])?;
        }
        Ok(place)
    }

    fn behind(&self) -> Option<PathBuf> {
        Some(self.behind.as_ref()?.path().join("pool"))
    }

    fn write_config(&self) -> Result<()> {
        let mut text = format!(
            "pool = [\"pool\"]\nnbd = [\"unix:nbd\"]\nshutdown-deadline = {SHUTDOWN_DEADLINE_S}\n"
        );
        if let Some(behind) = self.behind() {
            text += &format!("behind = {behind:?}\n");
        }
        for (index, name) in VOLUMES.iter().enumerate() {
            let backing = self.backing(name);
            text += &format!("[[volume]]\nname = \"{name}\"\nbacking = {backing:?}\n");
            if index == MOUNTED && self.has_fuse {
                text += "fuse = \"mount\"\n";
            }
        }
        Ok(std::fs::write(self.env.path("config.toml"), text)?)
    }

    pub fn backing(&self, volume: &str) -> PathBuf {
        self.env.disk().join(volume)
    }

    pub fn nbd(&self) -> PathBuf {
        self.env.path("nbd")
    }

    pub fn control(&self) -> PathBuf {
        self.env.path("pool.sock")
    }

    pub fn log(&self) -> String {
        let bytes = std::fs::read(self.env.log()).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Starts a daemon and waits until it is ready.
    pub fn start(&self) -> Result<Daemon> {
        let mut command = self.env.command(&["serve", "--config"]);
        self.env.start(command.arg(self.env.path("config.toml")))
    }

    /// Compares every byte of a backing, as it is in the file, with what its volume's clients know; differences go to
    /// the tally.
    pub fn compare(&self, tally: &Tally, volume: &Volume, found_by: &str) -> Result<()> {
        let path = self.backing(&volume.name);
        let named = |error| format!("{}: {error}", path.display());
        let file = File::open(&path).map_err(named)?;
        let models: Vec<_> = volume.models.iter().map(Mutex::lock).collect();
        let runs = Runs {
            volume_bytes: file.metadata().map_err(named)?.len(),
            clients: models.len() as u64,
        };
        let mut piece = vec![0; PIECE_BYTES];
        for offset in (0..runs.volume_bytes).step_by(PIECE_BYTES) {
            file.read_exact_at(&mut piece, offset).map_err(named)?;
            for (index, sector) in piece.chunks(SECTOR_BYTES).enumerate() {
                let at = offset + (index * SECTOR_BYTES) as u64;
                let complain = |complaint| tally.complain(complaint, found_by);
                models[runs.owner(at) as usize].check(at, sector, complain);
            }
        }
        Ok(())
    }
}
