//! Where the files lie: a directory behind Forebay, in each of its forms, or with nothing before it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use forebay_harness::{Daemon, Group, PoolMedium, Result, TestEnv};
use rustix::process::Signal;

use crate::form::Form;
use crate::settings::Settings;

const DEADLINE: Duration = Duration::from_secs(120);

/// A directory with its pool; nothing of it is left afterwards.
#[derive(Debug)]
pub struct Place {
    pub form: Form,
    pub env: TestEnv,
    daemon: Option<Daemon>,
}

impl Place {
    /// Makes the directory under `parent`, and a pool, in memory or on the disk of the settings; serves nothing yet.
    pub fn new(form: Form, settings: &Settings, parent: &Path, pool_bytes: u64) -> Result<Place> {
        let Settings {
            forebay,
            medium,
            disk,
            ..
        } = settings;
        // What has no pool has its other folder on another file system all the same.
        let medium = match form {
            Form::Plain => PoolMedium::default(),
            _ => *medium,
        };
        let env = TestEnv::with_pools(forebay, medium, disk, parent)?;
        let place = Place {
            form,
            env,
            daemon: None,
        };
        if form != Form::Plain {
            place
                .env
                .create_pool((&place.pool(), medium), pool_bytes, &[])?;
        }
        Ok(place)
    }

    pub fn pool(&self) -> PathBuf {
        self.env.path("pool")
    }

    pub fn files(&self) -> PathBuf {
        match self.form.is_mounted() {
            true => self.env.mount_point(),
            false => self.env.disk().to_owned(),
        }
    }

    /// A program whose files are those of the place.
    pub fn program(&self, program: &Path) -> Command {
        match self.form {
            Form::Preload => self.env.preloaded(&self.pool(), program),
            _ => Command::new(program),
        }
    }

    /// Mounts, where this is a mount, and waits until files can be used.
    pub fn start(&mut self) -> Result<()> {
        if !self.form.is_mounted() {
            return Ok(());
        }
        let mut mount = self.env.command(&["mount"]);
        mount.args([self.env.disk(), &self.files()]);
        mount.arg("--pool").arg(self.pool());
        if self.form == Form::MountWriteback {
            mount.arg("--writeback-cache");
        }
        if self.form == Form::MountIoUring {
            mount.args(["--transport", "io-uring"]);
        }
        // What it prints tells; of a dead mount the kernel may still show the root.
        self.daemon = Some(self.env.start(&mut mount)?);
        Ok(())
    }

    /// Ends the daemon by SIGTERM, which brings the directory up to date.
    pub fn stop(&mut self) -> Result<()> {
        match self.daemon.take() {
            Some(daemon) => daemon.end(Signal::TERM),
            None => Ok(()),
        }
    }

    pub fn take_daemon(&mut self) -> Option<Daemon> {
        self.daemon.take()
    }

    /// Kills the daemon, if there is one.
    pub fn kill_daemon(&mut self) -> Result<()> {
        match self.daemon.take() {
            Some(daemon) => daemon.kill(),
            None => Ok(()),
        }
    }

    /// `forebay recover`: the directory is brought to the acknowledged state with nothing mounted.
    pub fn recover(&self) -> Result<()> {
        self.env.unmount();
        if self.form != Form::Plain {
            let mut recover = self.env.command(&["recover"]);
            forebay_harness::output(recover.arg(self.pool()), DEADLINE)?;
        }
        Ok(())
    }

    /// `forebay recover`, killed after `delay` unless it is done by then.
    pub fn recover_killed(&self, delay: Duration) -> Result<()> {
        self.env.unmount();
        let mut recover = self.env.command(&["recover"]);
        recover.arg(self.pool()).stdout(Stdio::null());
        let mut group = Group::start(recover.stderr(Stdio::null()))?;
        std::thread::sleep(delay);
        group.kill()
    }

    /// Copies pool and files to a fresh directory below `parent`, to be looked at.
    pub fn keep(&self, parent: &Path, name: &str) -> Result<PathBuf> {
        let to = parent.join(name);
        if to.exists() {
            std::fs::remove_dir_all(&to)?;
        }
        std::fs::create_dir_all(&to)?;
        let mut copy = Command::new("cp");
        copy.arg("-a").arg(self.env.disk()).arg(to.join("files"));
        forebay_harness::output(&mut copy, DEADLINE)?;
        for entry in std::fs::read_dir(self.env.path(""))? {
            let path = entry?.path();
            if path.is_file() {
                std::fs::copy(&path, to.join(path.file_name().unwrap_or_default()))?;
            }
        }
        Ok(to)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // A failure before: it need not bring anything up to date.
        let _ = self.kill_daemon();
    }
}
