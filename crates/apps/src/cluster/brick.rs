//! Where the files of an engine's member lie: a directory of its node, on what is to be measured. All of it but image and
//! pool is gone with the node.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use forebay_harness::{Daemon, LoopDevice, PoolMedium, Result, TestEnv, must, output, wait_for};
use rustix::process::Signal;

use crate::cluster::kind::Kind;
use crate::cluster::node::{Node, end};
use crate::delayed::{Delay, DelayedFile};

const START_DEADLINE: Duration = Duration::from_secs(60);
const TOOL_DEADLINE: Duration = Duration::from_secs(120);
/// The kernel writes a file system that was mounted, and lets its loop device go.
const RELEASE_DEADLINE: Duration = Duration::from_secs(120);
const UNMOUNT_DEADLINE: Duration = Duration::from_secs(30);
const UNMOUNT_PAUSE: Duration = Duration::from_millis(100);
/// Of a file that is mostly holes.
const IMAGE_BYTES: u64 = 2 << 30;
/// Few inodes, and all made at once: the kernel would make them later, while we measure.
const MKFS: [&str; 8] = [
    "-q",
    "-F",
    "-b",
    "4096",
    "-N",
    "16384",
    "-E",
    "lazy_itable_init=0,lazy_journal_init=0,nodiscard",
];

/// Programs and sizes.
#[derive(Clone, Debug)]
pub struct Site {
    pub forebay: PathBuf,
    pub laboratory: PathBuf,
    /// Where pools, caches and logs are.
    pub memory: PathBuf,
    /// Where images are.
    pub disk: PathBuf,
    /// Each image is a delayed disk instead.
    pub disk_delay: Option<Delay>,
    pub pool_bytes: u64,
}

/// What a member has on the host, whether its node lives or not.
#[derive(Clone, Debug)]
pub struct Places {
    /// Of the disk.
    pub image: PathBuf,
    /// What serves the image where the disk is a delayed one.
    pub delayed: Option<Arc<DelayedFile>>,
    /// The pool, or the memory of a published design.
    pub pool: PathBuf,
    /// Where it is noted which pool has the newest data of a delayed disk, whose file has no attributes.
    pub marks: PathBuf,
    /// What programs print.
    pub log: PathBuf,
    /// Where the directory is, in the node.
    pub brick: PathBuf,
    /// The files that a mount buffers, in the node.
    pub data: PathBuf,
    /// The served disk, in the node.
    served: PathBuf,
}

impl Places {
    /// Makes the folders of a member, and its disk where that is a delayed one.
    pub fn make(site: &Site, env: &TestEnv, number: usize) -> Result<Places> {
        let (disk, memory) = (
            env.disk().join(format!("n{number}")),
            env.path(&format!("n{number}")),
        );
        let mut places = Places {
            image: disk.join("disk.img"),
            delayed: None,
            pool: memory.join("pool"),
            marks: memory.join("marks"),
            log: memory.join("log"),
            brick: disk.join("brick"),
            data: disk.join("data"),
            served: disk.join("served"),
        };
        for folder in [&places.marks, &places.brick, &places.data, &places.served] {
            std::fs::create_dir_all(folder)?;
        }
        if let Some(delay) = site.disk_delay {
            let front = memory.join("disk");
            std::fs::create_dir(&front)?;
            let delayed = DelayedFile::serve(delay, IMAGE_BYTES, &memory, &front)?;
            places.image = delayed.path();
            places.delayed = Some(Arc::new(delayed));
        }
        Ok(places)
    }
}

/// How a brick comes up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// As a start script has it: a pool that is not there is made, and what is stale is refused.
    Marks,
    /// With `--accept-stale`.
    Nothing,
}

/// A directory, there or about to be.
#[derive(Debug)]
pub struct Brick {
    kind: Kind,
    places: Places,
    /// What serves it.
    daemon: Option<Daemon>,
    /// The loop device below ext4, and its file in the kernel's words.
    looped: Option<(String, String)>,
}

impl Brick {
    pub fn new(kind: Kind, places: Places) -> Brick {
        Brick {
            kind,
            places,
            daemon: None,
            looped: None,
        }
    }

    /// Makes what is not there yet, and mounts.
    ///
    /// # Errors
    /// Whatever failed, with the end of the log: a refusal of Forebay's among others. The node is to be killed then.
    pub fn start(&mut self, site: &Site, env: &TestEnv, node: &Node, trust: Trust) -> Result<()> {
        let brick = self.places.brick.clone();
        if self.kind == Kind::Tmpfs {
            let at = brick.display();
            return node
                .shell(&format!("mount -t tmpfs -o size={IMAGE_BYTES} brick {at}"))
                .map(drop);
        }
        self.make_image()?;
        match self.kind {
            Kind::Disk => self.mount_image(node, &brick),
            Kind::Mount => {
                let data = self.places.data.clone();
                self.mount_image(node, &data)?;
                self.buffer(site, env, node, trust)
            }
            _ => {
                self.serve(site, env, node, trust)?;
                self.mount_served(node)
            }
        }
    }

    fn make_image(&self) -> Result<()> {
        let image = &self.places.image;
        // A delayed one is there from the start, all hole.
        if std::fs::metadata(image).is_ok_and(|found| found.blocks() > 0) {
            return Ok(());
        }
        let mut options = std::fs::File::options();
        let file = options
            .write(true)
            .create(true)
            .truncate(false)
            .open(image)?;
        file.set_len(IMAGE_BYTES)?;
        let path = image.to_string_lossy();
        // As short as mkfs makes one: it is written round and round, and takes its size of a cache.
        let journal: &[&str] = match self.kind.has_journal() {
            true => &["-J", "size=4"],
            false => &["-O", "^has_journal"],
        };
        let arguments = [&MKFS, journal, &[&*path]].concat();
        must("mkfs.ext4", &arguments).map(drop)
    }

    fn mount_image(&mut self, node: &Node, at: &Path) -> Result<()> {
        let mut device = LoopDevice::over(&self.places.image, true)?;
        self.note_loop(device.device());
        if let Some(delayed) = &self.places.delayed {
            delayed.count(device.device())?;
        }
        mount(node, device.device(), at, self.kind)?;
        // The kernel keeps it until the last mount is gone.
        device.detach();
        Ok(())
    }

    /// ext4 on the served disk. The loop device is made where the disk can be seen.
    fn mount_served(&mut self, node: &Node) -> Result<()> {
        let disk = self.places.served.join("disk");
        let script = format!("losetup --find --show --direct-io=on {}", disk.display());
        let device = node.shell(&script)?;
        self.note_loop(&device);
        let mounted = mount(node, &device, &self.places.brick, self.kind);
        node.shell(&format!("losetup --detach {device}"))?;
        mounted
    }

    fn note_loop(&mut self, device: &str) {
        self.looped = backing_of(device).map(|file| (device.to_owned(), file));
    }

    /// `forebay mount` over the files.
    fn buffer(&mut self, site: &Site, env: &TestEnv, node: &Node, trust: Trust) -> Result<()> {
        self.make_pool(site, env)?;
        let mut command = node.command(&site.forebay);
        command
            .arg("mount")
            .args([&self.places.data, &self.places.brick])
            .arg("--pool")
            .arg(&self.places.pool);
        self.start_daemon(env, command, trust)
    }

    /// `forebay serve`, or `forebay-lab serve`, over the image.
    fn serve(&mut self, site: &Site, env: &TestEnv, node: &Node, trust: Trust) -> Result<()> {
        let Places {
            image,
            pool,
            served,
            ..
        } = &self.places;
        let mut command;
        match self.kind.design() {
            None => {
                self.make_pool(site, env)?;
                command = node.command(&site.forebay);
                command.args(["serve", "--pool"]).arg(pool);
            }
            Some(design) => {
                if !pool.exists() {
                    let mut create = Command::new(&site.laboratory);
                    create
                        .env("XDG_STATE_HOME", env.path("state"))
                        .arg("create")
                        .arg(pool)
                        .args(["--size", &site.pool_bytes.to_string()])
                        .args(["--engine", design, "--backing"])
                        .arg(image);
                    output(&mut create, TOOL_DEADLINE)?;
                }
                command = node.command(&site.laboratory);
                command.args(["serve", "--engine", design, "--memory"]);
                command.arg(pool);
            }
        }
        command.arg("--backing").arg(image);
        command.arg("--fuse").arg(served);
        self.start_daemon(env, command, trust)
    }

    fn make_pool(&self, site: &Site, env: &TestEnv) -> Result<()> {
        match self.places.pool.exists() {
            true => Ok(()),
            false => env.create_pool(
                (&self.places.pool, PoolMedium::Memory),
                site.pool_bytes,
                &[],
            ),
        }
    }

    fn start_daemon(&mut self, env: &TestEnv, mut command: Command, trust: Trust) -> Result<()> {
        command.env("XDG_STATE_HOME", env.path("state"));
        if self.places.delayed.is_some() {
            command.env("FOREBAY_MARK_DIRECTORY", &self.places.marks);
        }
        if trust == Trust::Nothing {
            command.arg("--accept-stale");
        }
        let daemon = Daemon::start_ready(&mut command, &self.places.log, START_DEADLINE)?;
        self.daemon = Some(daemon);
        Ok(())
    }

    /// Unmounts it and ends its daemon in order. Nothing may use it.
    pub fn close(mut self, node: &Node) -> Result<()> {
        let places = &self.places;
        unmount(node, &places.brick)?;
        match self.daemon.take() {
            None => {}
            // It ends because it was unmounted.
            Some(daemon) if self.kind == Kind::Mount => {
                daemon.wait()?;
                unmount(node, &places.data)?;
            }
            Some(daemon) => end(daemon, Signal::TERM)?,
        }
        self.wait_until_released()
    }

    /// Waits, after the node's end, until the kernel has let the disk go: a file system that was mounted is written first.
    pub fn wait_until_released(&self) -> Result<()> {
        let Some((device, file)) = &self.looped else {
            return Ok(());
        };
        let released = wait_for(RELEASE_DEADLINE, || {
            Ok((backing_of(device).as_ref() != Some(file)).then_some(()))
        })?;
        released.ok_or_else(|| format!("{device} is still over {file}").into())
    }
}

fn mount(node: &Node, device: &str, at: &Path, kind: Kind) -> Result<()> {
    let options = kind.mount_options();
    let at = at.display();
    let script = format!("mount -t ext4 -o {options} {device} {at}");
    node.shell(&script).map(drop)
}

/// Programs that were killed may hold files for a moment longer.
fn unmount(node: &Node, at: &Path) -> Result<()> {
    let script = format!("umount {}", at.display());
    let mut last = None;
    let done = wait_for(UNMOUNT_DEADLINE, || match node.shell(&script) {
        Ok(_) => Ok(Some(())),
        Err(error) => {
            last = Some(error);
            std::thread::sleep(UNMOUNT_PAUSE);
            Ok(None)
        }
    })?;
    match (done, last) {
        (None, Some(error)) => Err(error),
        _ => Ok(()),
    }
}

/// The file below a loop device, as the kernel names it; none where there is none.
fn backing_of(device: &str) -> Option<String> {
    let name = Path::new(device).file_name()?;
    let path = Path::new("/sys/block").join(name).join("loop/backing_file");
    Some(std::fs::read_to_string(path).ok()?.trim().to_owned())
}
