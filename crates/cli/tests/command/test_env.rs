//! A directory with a pool, a backing and a mount point, and daemons that serve them.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use rustix::process::Signal;
use serde_json::Value;

pub const DISK_BYTES: u64 = 16 << 20;

/// A daemon that exports the disk to NBD clients, which needs no rights.
pub const SERVE_NBD: &[&str] = &[
    "serve",
    "--pool",
    "POOL",
    "--backing",
    "BACKING",
    "--nbd",
    "NBD",
];

/// Whether pools are to lie on plain files of a disk, and so on an SSD.
pub fn on_ssd() -> bool {
    std::env::var_os("FOREBAY_TEST_SSD").is_some()
}

/// A directory with a pool and a backing, in memory where there is such a place.
pub struct TestEnv {
    pub directory: tempfile::TempDir,
}

impl TestEnv {
    pub fn new() -> Self {
        let shared_memory = Path::new("/dev/shm");
        let directory = if shared_memory.is_dir() && !on_ssd() {
            tempfile::tempdir_in(shared_memory)
        } else {
            tempfile::tempdir()
        }
        .unwrap();
        let env = TestEnv { directory };
        env.make_image("disk.img");
        std::fs::create_dir(env.path("mount")).unwrap();
        env
    }

    pub fn with_pool() -> Self {
        TestEnv::with_pool_of(&["--size", "8M"])
    }

    pub fn with_test_pool() -> Self {
        TestEnv::with_pool_of(&["--size", "8M", "--test"])
    }

    /// For what only a mapped pool has, or does at once.
    pub fn with_mapped_pool() -> Self {
        TestEnv::with_pool_of(&["--size", "8M", "--medium", "page"])
    }

    pub fn with_mapped_test_pool() -> Self {
        TestEnv::with_pool_of(&["--size", "8M", "--test", "--medium", "page"])
    }

    fn with_pool_of(options: &[&str]) -> Self {
        let env = TestEnv::new();
        let mut arguments = [&["create", "POOL"], options].concat();
        if on_ssd() && !options.contains(&"--medium") {
            // Of less there is none.
            let size = arguments.iter().position(|one| *one == "8M");
            arguments[size.unwrap()] = "16M";
        }
        let created = env.run(&arguments);
        assert_eq!(created.code, 0, "{}", created.stderr);
        env
    }

    pub fn make_image(&self, name: &str) {
        let image = File::create(self.path(name)).unwrap();
        image.set_len(DISK_BYTES).unwrap();
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// POOL, BACKING, MOUNT and NBD as this environment's; what starts with `./` as a path in it.
    fn argument(&self, argument: &str) -> OsString {
        match argument {
            "POOL" => self.path("pool").into(),
            "BACKING" => self.path("disk.img").into(),
            "MOUNT" => self.path("mount").into(),
            "NBD" => format!("unix:{}", self.path("nbd.sock").display()).into(),
            other => match other.strip_prefix("./") {
                Some(name) => self.path(name).into(),
                None => other.into(),
            },
        }
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(crate::PROGRAM);
        command.args(arguments.iter().map(|argument| self.argument(argument)));
        command.stdin(Stdio::null());
        // Marks of pools of files, and of devices.
        command.env("XDG_STATE_HOME", self.path("state"));
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Outcome {
        self.command(arguments).output().unwrap().into()
    }

    /// Runs a command that has to fail with this exit code, and to say `text` on standard error.
    pub fn refuses(&self, arguments: &[&str], code: i32, text: &str) {
        let refused = self.run(arguments);
        assert_eq!(refused.code, code, "{arguments:?}: {}", refused.stderr);
        let says_why = refused.stderr.contains(text);
        assert!(says_why, "{arguments:?}: {}", refused.stderr);
    }

    /// The same of a daemon that would export the disk to NBD clients.
    pub fn refuses_nbd(&self, more: &[&str], code: i32, text: &str) {
        self.refuses(&[SERVE_NBD, more].concat(), code, text);
    }

    /// Runs a command that has to succeed, with `--json`.
    pub fn ask(&self, arguments: &[&str]) -> Value {
        let outcome = self.run(&[arguments, &["--json"]].concat());
        assert_eq!(outcome.code, 0, "{arguments:?}: {}", outcome.stderr);
        outcome.json()
    }

    /// A daemon with the disk mounted.
    pub fn serve(&self) -> Daemon {
        self.serve_with(&["--pool", "POOL", "--backing", "BACKING", "--fuse", "MOUNT"])
    }

    /// A daemon that exports the disk to NBD clients, which needs no rights.
    pub fn serve_nbd(&self, more: &[&str]) -> Daemon {
        self.start(self.command(&[SERVE_NBD, more].concat()))
    }

    pub fn serve_with(&self, arguments: &[&str]) -> Daemon {
        let command = self.command(&[&["serve"], arguments].concat());
        self.start(command)
    }

    /// Starts a daemon and waits until it is ready. Its log is the file `log`.
    pub fn start(&self, command: Command) -> Daemon {
        let log = File::create(self.path("log")).unwrap();
        self.start_logging_to(command, log.into())
    }

    /// As `start`, with its log somewhere else.
    pub fn start_logging_to(&self, mut command: Command, log: Stdio) -> Daemon {
        let mut process = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let stdout = process.stdout.take().unwrap();
        let lines = BufReader::new(stdout).lines().map(Result::unwrap);
        let mut announced: Vec<String> = Vec::new();
        for line in lines {
            if line == "ready" {
                let mount = self.path("mount");
                return Daemon {
                    process,
                    mount,
                    announced,
                };
            }
            assert!(line.starts_with("serving "), "{line}");
            announced.push(line);
        }
        let code = process.wait().unwrap();
        panic!("the daemon ended with {code}: {}", self.log());
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    pub fn open_disk(&self) -> File {
        File::options()
            .read(true)
            .write(true)
            .open(self.path("mount/disk"))
            .unwrap()
    }
}

/// How a command ended.
pub struct Outcome {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Outcome {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}: {} {}", self.stdout, self.stderr))
    }
}

impl From<Output> for Outcome {
    fn from(output: Output) -> Self {
        Outcome {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// A running daemon; killed and unmounted when a test fails half-way.
pub struct Daemon {
    pub process: Child,
    mount: PathBuf,
    /// What it said before it was ready.
    pub announced: Vec<String>,
}

impl Daemon {
    pub fn signal(&self, signal: Signal) {
        let pid = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    pub fn wait(mut self) -> Option<i32> {
        self.process.wait().unwrap().code()
    }

    /// Ends it as a service manager does.
    pub fn end(self) {
        self.signal(Signal::TERM);
        assert_eq!(self.wait(), Some(0));
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if self.mount.parent().is_some_and(Path::exists) {
            let _ = Command::new("umount")
                .args(["-l", "-q"])
                .arg(&self.mount)
                .stderr(Stdio::null())
                .status();
        }
    }
}

/// Says so and returns true where nothing can be mounted.
pub fn skips_without_fuse(test: &str) -> bool {
    let can_mount = rustix::process::geteuid().is_root() && Path::new("/dev/fuse").exists();
    if !can_mount {
        skip(test, "needs root and /dev/fuse to mount");
    }
    !can_mount
}

/// One line that `make test` counts.
pub fn skip(test: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "skipped {test}: {why}");
}
