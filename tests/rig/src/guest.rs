//! A User Mode Linux guest: boots in two seconds, runs scripts, is shut down or cut off.
//!
//! It needs no privileges and no KVM. Its kernel and modules are those of the package
//! `user-mode-linux`; ext4, xfs and btrfs are built in. It has one processor.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use forebay_harness::{Group, find_program, tail_of, wait_for};

use crate::agent::{MODULES_VARIABLE, SHARED, SHARED_VARIABLE};
use crate::{Result, Scratch};

/// The kernel, as the package names it.
pub const KERNEL: &str = "linux.uml";

const BOOT_LIMIT: Duration = Duration::from_secs(60);
const SHUT_DOWN_LIMIT: Duration = Duration::from_secs(60);
/// Makes the kernel start where the processor has more state than it knows of.
const XSTATE_SOURCE: &str = include_str!("../guest/xstate.c");

/// A disk of a guest.
#[derive(Clone, Debug)]
pub enum Disk {
    /// Served by the process that listens on this vhost-user-blk socket: `/dev/vda`, `/dev/vdb` and
    /// so on, in the order of [`GuestOptions::disks`]. Needs the module `virtio_blk`, which is
    /// loaded unasked.
    Vhost(PathBuf),
    /// A file of the host: `/dev/ubda`, `/dev/ubdb` and so on.
    File(PathBuf),
}

/// What a guest is like.
#[derive(Clone, Debug)]
pub struct GuestOptions {
    /// Memory in MiB.
    pub memory_mib: u32,
    /// Its disks.
    pub disks: Vec<Disk>,
    /// Kernel modules to load.
    pub modules: Vec<String>,
    /// More kernel parameters; parameters of modules are written `module.name=value`.
    pub parameters: Vec<String>,
}

impl GuestOptions {
    /// A small guest with these disks.
    pub fn with_disks(disks: impl IntoIterator<Item = Disk>) -> GuestOptions {
        GuestOptions {
            memory_mib: 256,
            disks: disks.into_iter().collect(),
            modules: Vec::new(),
            parameters: Vec::new(),
        }
    }

    /// The same with so many ram disks of so many bytes each, memory enough, and these modules.
    #[must_use]
    pub fn with_ram_disks(
        self,
        memory_mib: u32,
        (count, size_bytes): (u64, u64),
        modules: &[&str],
    ) -> GuestOptions {
        let modules = ["brd"].iter().chain(modules);
        GuestOptions {
            memory_mib,
            disks: self.disks,
            modules: modules.map(|name| (*name).to_owned()).collect(),
            parameters: vec![
                format!("brd.rd_nr={count}"),
                format!("brd.rd_size={}", size_bytes >> 10),
            ],
        }
    }
}

/// What a script came to.
#[derive(Clone, Debug)]
pub struct Output {
    /// Its exit status; 128 plus a signal's number where one ended it.
    pub status: i32,
    /// What it printed, on both streams.
    pub text: String,
}

/// A script that runs.
#[derive(Debug)]
pub struct Job(u32);

/// A running guest; it is cut off when this is dropped.
#[derive(Debug)]
pub struct Guest {
    /// The kernel, its helpers for I/O and the processes that it traces.
    group: Group,
    /// The host's side of what the guest sees as `/run/rig`.
    shared: PathBuf,
    console: PathBuf,
    next_job: u32,
}

/// Why guests cannot run on this machine, if so.
pub fn obstacle() -> Option<String> {
    if find_program(KERNEL).is_none() {
        let package = "Debian's package user-mode-linux";
        return Some(format!("no {KERNEL} here; {package} has it"));
    }
    if !cfg!(target_arch = "x86_64") {
        return Some("guests are tried on x86_64 only".into());
    }
    find_program("cc")
        .is_none()
        .then(|| "no C compiler (cc) here".into())
}

/// The program that is the guest's first process and its workloads, which lies beside this one.
pub fn guest_program() -> Result<PathBuf> {
    let own = std::env::current_exe()?;
    let folders = own.ancestors().skip(1).take(2);
    let mut programs = folders.map(|folder| folder.join("forebay-rig-guest"));
    let found = programs.find(|program| program.is_file());
    found.ok_or_else(|| format!("no forebay-rig-guest beside {}", own.display()).into())
}

impl Guest {
    /// Boots a guest and waits until it takes scripts.
    pub fn boot(scratch: &Scratch, options: &GuestOptions) -> Result<Guest> {
        let folder = scratch.new_folder("guest")?;
        let shared = folder.join("shared");
        fs::create_dir(&shared)?;
        let console = folder.join("console");
        let out = File::create(&console)?;
        let mut command = Command::new(KERNEL);
        command
            .args(parameters(&folder, &shared, options)?)
            // Its memory has to be a file that servers of its disks can map.
            .env("TMPDIR", scratch.folder())
            .env("LD_PRELOAD", xstate_library(scratch)?)
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(out);
        let mut guest = Guest {
            group: Group::start(&mut command)?,
            shared,
            console,
            next_job: 0,
        };
        let up = guest.shared.join("up");
        guest.wait_until(BOOT_LIMIT, "boot", || Ok(up.exists().then_some(())))?;
        Ok(guest)
    }

    /// Runs a bash script to its end. In it `$RIG` is the shared folder and `$GUEST` the program
    /// `forebay-rig-guest`; file systems are to be mounted at `/mnt/a` and `/mnt/b`.
    pub fn run(&mut self, script: &str, limit: Duration) -> Result<Output> {
        let job = self.start(script)?;
        self.wait(&job, limit)
    }

    /// As [`Guest::run`], of a script that has to succeed; returns what it printed.
    pub fn must_run(&mut self, script: &str, limit: Duration) -> Result<String> {
        let output = self.run(script, limit)?;
        match output.status {
            0 => Ok(output.text),
            status => {
                let text = output.text.trim_end();
                let console = self.console_tail();
                Err(format!("in the guest, status {status}:\n{script}\n{text}\n{console}").into())
            }
        }
    }

    /// Starts a bash script, after those started before.
    pub fn start(&mut self, script: &str) -> Result<Job> {
        let number = self.next_job;
        self.next_job += 1;
        let program = guest_program()?;
        let text = format!("export RIG={SHARED} GUEST={program:?}\n{script}\n");
        let unfinished = self.shared.join("unfinished");
        fs::write(&unfinished, text)?;
        fs::rename(unfinished, self.shared.join(format!("{number}.sh")))?;
        Ok(Job(number))
    }

    /// What a script came to, if it has ended.
    pub fn poll(&self, job: &Job) -> Result<Option<Output>> {
        let file = |kind: &str| self.shared.join(format!("{}.{kind}", job.0));
        let Ok(status) = fs::read_to_string(file("status")) else {
            return Ok(None);
        };
        let text = String::from_utf8_lossy(&fs::read(file("out"))?).into_owned();
        let status = status.parse()?;
        Ok(Some(Output { status, text }))
    }

    /// Waits for the end of a script.
    pub fn wait(&mut self, job: &Job, limit: Duration) -> Result<Output> {
        let number = job.0;
        let status = self.shared.join(format!("{number}.status"));
        let out = self.shared.join(format!("{number}.out"));
        let what = format!("script {number}");
        let status = self.wait_until(limit, &what, || Ok(fs::read_to_string(&status).ok()));
        let text = String::from_utf8_lossy(&fs::read(out).unwrap_or_default()).into_owned();
        let status = status.map_err(|error| format!("{error}\nit printed:\n{text}"))?;
        let status = status.parse()?;
        Ok(Output { status, text })
    }

    /// The host's side of the guest's shared folder, `$RIG` in scripts. What the guest's programs
    /// write to files there is with the host when the write returns, and outlives the guest.
    pub fn shared(&self) -> &Path {
        &self.shared
    }

    /// The end of what the kernel printed.
    pub fn console_tail(&self) -> String {
        tail_of(&self.console)
    }

    /// Cuts the power: all its processes are killed at once, whatever they are doing. What its kernel
    /// had not sent to its disks is lost.
    pub fn cut_power(mut self) -> Result<()> {
        self.group.kill()
    }

    /// Ends it in order: what is unwritten is synced; the scripts have to unmount their file systems.
    pub fn shut_down(mut self) -> Result<()> {
        fs::write(self.shared.join("end"), "")?;
        match self.group.wait(SHUT_DOWN_LIMIT) {
            Ok(_) => Ok(()),
            Err(error) => {
                let console = self.console_tail();
                Err(format!("the guest does not shut down: {error}\n{console}").into())
            }
        }
    }

    fn wait_until<T>(
        &mut self,
        limit: Duration,
        what: &str,
        mut done: impl FnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        let group = &mut self.group;
        let result = wait_for(limit, || {
            if let Some(result) = done()? {
                return Ok(Some(Ok(result)));
            }
            Ok(group.ended()?.map(Err))
        })?;
        let found = match result {
            Some(Ok(result)) => return Ok(result),
            Some(Err(status)) => format!("the guest ended with {status}"),
            None => format!("not done within {} s", limit.as_secs()),
        };
        Err(format!("{what}: {found}; its console:\n{}", self.console_tail()).into())
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // Fails only where it ended just now.
        let _ = self.group.kill();
    }
}

fn parameters(folder: &Path, shared: &Path, options: &GuestOptions) -> Result<Vec<OsString>> {
    let mut modules = options.modules.clone();
    let mut list = vec![
        format!("mem={}M", options.memory_mib),
        format!("uml_dir={}/", folder.display()),
        "umid=guest".into(),
        "root=/dev/root rootfstype=hostfs rootflags=/ ro".into(),
        format!("init={}", guest_program()?.display()),
        "con=null con0=null,fd:1 con1=null ssl=null".into(),
        // Above warnings, where failing disks and file systems speak.
        "quiet loglevel=4".into(),
        format!("{SHARED_VARIABLE}={}", shared.display()),
    ];
    let (mut files, mut vhosts) = (0u8, 0u8);
    for disk in &options.disks {
        match disk {
            Disk::Vhost(socket) => {
                // 2: a block device. The number keeps several apart.
                list.push(format!("virtio_uml.device={}:2:{vhosts}", socket.display()));
                vhosts += 1;
            }
            Disk::File(path) => {
                list.push(format!("ubd{files}={}", path.display()));
                files += 1;
            }
        }
    }
    if vhosts > 0 && !modules.iter().any(|module| module == "virtio_blk") {
        modules.push("virtio_blk".into());
    }
    list.push(format!("{MODULES_VARIABLE}={}", modules.join(",")));
    list.extend(options.parameters.iter().cloned());
    let words = list.iter().flat_map(|words| words.split(' '));
    Ok(words.map(OsString::from).collect())
}

/// Builds the library that completes the register state, once a scratch folder.
fn xstate_library(scratch: &Scratch) -> Result<PathBuf> {
    let library = scratch.path("xstate.so");
    if library.exists() {
        return Ok(library);
    }
    let source = scratch.path("xstate.c");
    fs::write(&source, XSTATE_SOURCE)?;
    let unfinished = scratch.path("xstate.unfinished");
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-shared", "-fPIC", "-o"]);
    forebay_harness::output(compiler.args([&unfinished, &source]), BOOT_LIMIT)?;
    fs::rename(unfinished, &library)?;
    Ok(library)
}
