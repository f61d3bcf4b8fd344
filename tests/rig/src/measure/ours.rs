//! Our daemon with one disk, of a pool or of a published design, as measurements need it: started,
//! asked, drained, set.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use forebay_log::PAGE_BYTES;
use serde_json::Value;

use crate::{Daemon, Result, Server};

/// What the disk is called.
const NAME: &str = "disk";

/// Where its clients find it.
#[derive(Clone, Debug)]
pub enum FrontEnd {
    /// Guests, at this socket.
    VhostUser(PathBuf),
    /// This machine, as the file `disk` in this directory.
    Fuse(PathBuf),
}

/// A daemon that serves a pool over a backing; it is killed when this is dropped.
#[derive(Debug)]
pub struct Ours {
    daemon: Daemon,
    pool: PathBuf,
    server: Server,
}

/// What it has done since it started.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Written {
    /// Bytes persisted in the pool, by cache lines.
    pub nvm_bytes: f64,
    /// Bytes written to the backing.
    pub backing_bytes: f64,
}

impl Ours {
    /// Makes a pool in `folder` and serves it over `backing`.
    pub fn start(
        daemon: &Daemon,
        folder: &Path,
        pool_bytes: u64,
        backing: &Path,
        front_end: &FrontEnd,
        more: &[&str],
    ) -> Result<Ours> {
        let pool = folder.join("pool");
        daemon.create_pool(&pool, pool_bytes)?;
        Ours::serve(daemon, ("--pool", pool), backing, front_end, more)
    }

    /// The same of a pool on an SSD: `folder` is on a disk.
    pub fn start_on_ssd(
        daemon: &Daemon,
        folder: &Path,
        pool_bytes: u64,
        backing: &Path,
        front_end: &FrontEnd,
    ) -> Result<Ours> {
        let pool = folder.join("pool");
        let size = pool_bytes.to_string();
        let mut command = daemon.command(&["create", "--medium", "ssd", "--size", &size]);
        daemon.run(command.arg(&pool))?;
        Ours::serve(daemon, ("--pool", pool), backing, front_end, &[])
    }

    /// The same with a published design in the place of ours.
    pub fn start_design(
        daemon: &Daemon,
        engine: &str,
        folder: &Path,
        region_bytes: u64,
        backing: &Path,
        front_end: &FrontEnd,
    ) -> Result<Ours> {
        let region = folder.join("region");
        let daemon = daemon.of_designs();
        daemon.create_design(engine, &region, region_bytes, backing)?;
        Ours::serve(&daemon, ("--memory", region), backing, front_end, &[])
    }

    fn serve(
        daemon: &Daemon,
        (kind, pool): (&str, PathBuf),
        backing: &Path,
        front_end: &FrontEnd,
        more: &[&str],
    ) -> Result<Ours> {
        let (flag, place) = match front_end {
            FrontEnd::VhostUser(socket) => ("--vhost-user", socket),
            FrontEnd::Fuse(directory) => ("--fuse", directory),
        };
        let mut arguments: Vec<OsString> = Vec::new();
        // Each begins with a pool of its own; what the one before left in its own is not missed.
        arguments.push("--accept-stale".into());
        for (flag, value) in [
            (kind, pool.as_os_str()),
            ("--backing", backing.as_os_str()),
            ("--name", NAME.as_ref()),
            (flag, place.as_os_str()),
        ] {
            arguments.extend([flag.into(), value.to_owned()]);
        }
        arguments.extend(more.iter().map(OsString::from));
        let server = daemon.serve(&arguments)?;
        Ok(Ours {
            daemon: daemon.clone(),
            pool,
            server,
        })
    }

    /// One command of `forebay` about the pool; returns what it printed.
    pub fn ask(&self, command: &str, more: &[&str]) -> Result<String> {
        let mut process = self.daemon.command(&[command]);
        self.daemon.run(process.arg(&self.pool).args(more))
    }

    /// Has every request to the backing take so much longer.
    pub fn delay_backing(&self, delay_us: u64) -> Result<()> {
        let delay_us = delay_us.to_string();
        let arguments = ["delay-backing", NAME, "--microseconds", &delay_us];
        self.ask("fault", &arguments).map(drop)
    }

    /// What it has written.
    pub fn written(&self) -> Result<Written> {
        let stat: Value = serde_json::from_str(&self.ask("stat", &["--json"])?)?;
        let number = |value: &Value, what: &str| {
            let number = value.as_f64();
            number.ok_or_else(|| format!("forebay stat has no {what}"))
        };
        let backing = &stat["volumes"][0]["backing"];
        Ok(Written {
            nvm_bytes: number(&stat["counters"]["bytes"], "counters.bytes")?,
            backing_bytes: number(&backing["bytes_written"], "bytes_written")?,
        })
    }

    /// Bytes written to the SSD that the pool is on.
    pub fn ssd_bytes_written(&self) -> Result<f64> {
        let stat: Value = serde_json::from_str(&self.ask("stat", &["--json"])?)?;
        let pages = stat["ssd"]["pages_written"].as_f64();
        let pages = pages.ok_or("forebay stat has no ssd.pages_written")?;
        Ok(pages * PAGE_BYTES as f64)
    }

    /// Writes everything dirty back.
    pub fn drain(&self) -> Result<()> {
        self.ask("flush", &[]).map(drop)
    }

    /// Ends it in order.
    pub fn end(self) -> Result<()> {
        self.server.end(rustix::process::Signal::TERM)
    }
}
