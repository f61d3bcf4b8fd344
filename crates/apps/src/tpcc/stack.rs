//! An ext4 on a loop device, over a disk that a cache serves by FUSE, over a file on a disk; or over that file alone.
//! All of it is taken away from the top to the bottom when it is dropped, whatever happened.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use forebay_harness::{Daemon, LoopDevice, PoolMedium, Result, TestEnv, must};
use rustix::process::Signal;

use crate::tpcc::contender::Contender;
use crate::tpcc::counters::{Counters, blocks_written, parse};
use crate::tpcc::medium::Medium;

const TOOL_DEADLINE: Duration = Duration::from_secs(120);
const UNMOUNT_DEADLINE: Duration = Duration::from_secs(30);
const UNMOUNT_PERIOD: Duration = Duration::from_millis(50);

/// Where programs and folders are.
#[derive(Debug)]
pub struct Site {
    pub forebay: PathBuf,
    pub laboratory: PathBuf,
    /// Of caches.
    pub memory: PathBuf,
    /// Of what is cached.
    pub disk: PathBuf,
    pub cache_bytes: u64,
}

/// A daemon that serves the disk.
#[derive(Debug)]
struct Cache {
    daemon: Daemon,
    /// The program that can ask it.
    program: PathBuf,
    memory: PathBuf,
}

#[derive(Debug)]
pub struct Stack {
    pub env: TestEnv,
    contender: Contender,
    /// As slow as that; none as it is.
    medium: Option<Medium>,
    cache: Option<Cache>,
    looped: Option<LoopDevice>,
    is_mounted: bool,
}

impl Stack {
    /// Over a copy of `image`, which has an ext4 in it.
    pub fn open(
        site: &Site,
        (contender, medium): (Contender, Option<Medium>),
        image: &Path,
    ) -> Result<Stack> {
        let env = TestEnv::with_memory(&site.forebay, &site.memory, &site.disk)?;
        let file = env.disk().join("disk.img");
        let mut copy = Command::new("cp");
        copy.args(["--sparse=always", "--reflink=auto"])
            .args([image, &file]);
        env.output(&mut copy, TOOL_DEADLINE)?;
        if !contender.has_journal() {
            must("tune2fs", &["-O", "^has_journal", &file.to_string_lossy()])?;
        }
        Stack::over(site, env, (contender, medium), &file)
    }

    /// A new and empty file system in `file`, without a cache.
    pub fn make(site: &Site, file: &Path, file_bytes: u64, journal_mib: u64) -> Result<Stack> {
        let env = TestEnv::with_memory(&site.forebay, &site.memory, &site.disk)?;
        std::fs::File::create_new(file)?.set_len(file_bytes)?;
        let journal = format!("size={journal_mib}");
        // Few inodes, and all made at once: the kernel would make them later, while we count.
        let features = "lazy_itable_init=0,lazy_journal_init=0,nodiscard";
        must(
            "mkfs.ext4",
            &[
                "-q",
                "-F",
                "-b",
                "4096",
                "-N",
                "4096",
                "-J",
                &journal,
                "-E",
                features,
                &file.to_string_lossy(),
            ],
        )?;
        Stack::over(site, env, (Contender::Bare, None), file)
    }

    fn over(
        site: &Site,
        env: TestEnv,
        (contender, medium): (Contender, Option<Medium>),
        file: &Path,
    ) -> Result<Stack> {
        let mut stack = Stack {
            env,
            contender,
            medium,
            cache: None,
            looped: None,
            is_mounted: false,
        };
        let mut disk = file.to_owned();
        if contender != Contender::Bare {
            disk = stack.serve(site, file)?;
        }
        stack.looped = Some(LoopDevice::over(&disk, true)?);
        stack.mount()?;
        Ok(stack)
    }

    /// Starts the daemon; where its disk is.
    fn serve(&mut self, site: &Site, file: &Path) -> Result<PathBuf> {
        let env = &self.env;
        let (memory, folder) = (env.path("cache"), self.served());
        std::fs::create_dir(&folder)?;
        let size = site.cache_bytes.to_string();
        // Only the lab can make a disk and a memory slower than they are, so it serves Forebay then, too.
        let own = self.medium.map(|_| "forebay");
        let (program, mut command) = match self.contender.design().or(own) {
            None => {
                env.create_pool((&memory, PoolMedium::Memory), site.cache_bytes, &[])?;
                let mut command = env.command(&["serve", "--pool"]);
                command.arg(&memory).args(self.contender.settings());
                (&site.forebay, command)
            }
            Some(design) => {
                let mut create = laboratory(site, env, "create");
                create
                    .arg(&memory)
                    .args(["--size", &size, "--engine", design]);
                env.output(create.arg("--backing").arg(file), TOOL_DEADLINE)?;
                let mut command = laboratory(site, env, "serve");
                command
                    .arg("--memory")
                    .arg(&memory)
                    .args(["--engine", design]);
                if self.contender.has_cleaner() {
                    command.arg("--cleaner");
                }
                if let Some(medium) = self.medium {
                    command.args(["--memory-delay", medium.memory()]);
                    command.args(["--backing-delay", medium.disk()]);
                }
                (&site.laboratory, command)
            }
        };
        command
            .arg("--backing")
            .arg(file)
            .arg("--fuse")
            .arg(&folder);
        let daemon = env.start(&mut command)?;
        let disk = folder.join("disk");
        self.cache = Some(Cache {
            daemon,
            program: program.clone(),
            memory,
        });
        Ok(disk)
    }

    fn mount(&mut self) -> Result<()> {
        let device = self.device();
        let mount_point = self.env.mount_point();
        // Without a journal there is no mode of it to choose.
        let options = match self.contender.has_journal() {
            true => "noatime,data=journal",
            false => "noatime",
        };
        let mount_point = mount_point.to_string_lossy();
        must(
            "mount",
            &["-t", "ext4", "-o", options, device, &mount_point],
        )?;
        self.is_mounted = true;
        Ok(())
    }

    fn device(&self) -> &str {
        self.looped.as_ref().map_or("", LoopDevice::device)
    }

    /// Where the daemon's disk is, as a file.
    fn served(&self) -> PathBuf {
        self.env.path("served")
    }

    /// Where files are.
    pub fn data(&self) -> PathBuf {
        self.env.mount_point().join("data")
    }

    /// Mounts the file system anew: nothing of it is in the kernel's pages then.
    pub fn remount(&mut self) -> Result<()> {
        self.unmount()?;
        self.mount()
    }

    fn unmount(&mut self) -> Result<()> {
        let mount_point = self.env.mount_point();
        let began = Instant::now();
        // The kernel may hold files of a server that was killed for a while longer, for requests on their way.
        while let Err(error) = must("umount", &[&mount_point.to_string_lossy()]) {
            if began.elapsed() > UNMOUNT_DEADLINE {
                return Err(error);
            }
            std::thread::sleep(UNMOUNT_PERIOD);
        }
        self.is_mounted = false;
        Ok(())
    }

    /// What was counted so far.
    pub fn counters(&self) -> Result<Counters> {
        let file_system_blocks = blocks_written(self.device())?;
        let Some(cache) = &self.cache else {
            return Ok(Counters {
                file_system_blocks,
                disk_blocks: file_system_blocks,
                cache: None,
            });
        };
        let (cache, disk_blocks, _) = parse(&self.stat(cache)?)?;
        Ok(Counters {
            file_system_blocks,
            disk_blocks,
            cache: Some(cache),
        })
    }

    /// Turns the delays on or off, where there are any.
    pub fn set_delays(&self, are_on: bool) -> Result<()> {
        let (Some(_), Some(cache)) = (self.medium, &self.cache) else {
            return Ok(());
        };
        let mut command = Command::new(&cache.program);
        let turn = if are_on { "on" } else { "off" };
        command.arg("delays").arg(&cache.memory).arg(turn);
        self.env.output(&mut command, TOOL_DEADLINE).map(drop)
    }

    /// How full the cache is, in thousandths; full where there is none.
    pub fn full_per_mille(&self) -> Result<u64> {
        match &self.cache {
            Some(cache) => Ok(parse(&self.stat(cache)?)?.2),
            None => Ok(1000),
        }
    }

    fn stat(&self, cache: &Cache) -> Result<String> {
        let mut command = Command::new(&cache.program);
        command.arg("stat").arg(&cache.memory).arg("--json");
        self.env.output(&mut command, TOOL_DEADLINE)
    }

    /// Takes it all away; the daemon has to end well.
    pub fn close(mut self) -> Result<()> {
        self.unmount()?;
        self.looped = None;
        match self.cache.take() {
            Some(cache) => cache.daemon.end(Signal::TERM),
            None => Ok(()),
        }
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        if self.is_mounted && self.unmount().is_err() {
            // Whatever still has a file open loses it with its name.
            self.env.unmount();
        }
        self.looped = None;
        self.cache = None;
        // A daemon that was killed, or never was ready, may leave its mount behind.
        let _ = rustix::mount::unmount(self.served(), rustix::mount::UnmountFlags::DETACH);
    }
}

fn laboratory(site: &Site, env: &TestEnv, command: &str) -> Command {
    let mut laboratory = Command::new(&site.laboratory);
    // Where it is noted which cache has the newest data of a disk.
    laboratory
        .env("XDG_STATE_HOME", env.path("state"))
        .arg(command);
    laboratory
}
