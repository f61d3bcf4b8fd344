//! A node: namespaces of its own for network, mounts and processes. Killing its first process ends all that runs in
//! it and takes away what is mounted there, in one moment and whatever state it is in; nothing of it outlives that process.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use forebay_harness::{Daemon, Group, Result, output, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

const START_DEADLINE: Duration = Duration::from_secs(20);
const TOOL_DEADLINE: Duration = Duration::from_secs(120);
/// The kernel takes what the node had apart.
const END_DEADLINE: Duration = Duration::from_secs(60);
/// Waits, and reaps whatever loses its parent.
const FIRST_PROCESS: &str = "while :; do sleep 600 & wait $!; done";

/// Gone, with everything in it, when it is dropped.
#[derive(Debug)]
pub struct Node {
    /// The program that made the namespaces; it ends when the first process in them does.
    group: Group,
    first: Pid,
}

impl Node {
    /// Makes one without a network but the loopback interface's, which is down.
    ///
    /// # Errors
    /// Not the superuser, or a program is missing.
    pub fn start() -> Result<Node> {
        let mut command = Command::new("unshare");
        command
            .args(["--net", "--mount", "--pid", "--fork", "--kill-child"])
            .args(["--mount-proc", "--propagation", "private"])
            .args(["sh", "-c", FIRST_PROCESS])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut group = Group::start(&mut command)?;
        let first = wait_for(START_DEADLINE, || match group.ended()? {
            Some(status) => Err(format!("unshare: {status}; nodes need root").into()),
            // It has become the shell when its namespaces and /proc are there.
            None => Ok(child_of(group.id()).filter(|child| name_of(*child) == "sh")),
        })?;
        let first = first.ok_or("a node's first process did not start")?;
        Ok(Node { group, first })
    }

    /// The first process, as all other namespaces number it.
    pub fn first_process(&self) -> Pid {
        self.first
    }

    /// A program in the node, without arguments yet.
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new("nsenter");
        command
            .arg("--target")
            .arg(self.first.as_raw_nonzero().to_string())
            .args(["--mount", "--net", "--pid", "--"])
            .arg(program.as_ref());
        command
    }

    /// Runs a short script in the node, which has to succeed; what it printed.
    pub fn shell(&self, script: &str) -> Result<String> {
        let mut command = self.command("sh");
        command.args(["-e", "-c", script]);
        Ok(output(&mut command, TOOL_DEADLINE)?.trim().to_owned())
    }

    /// The same with nothing of the node's but its network: processes are numbered as everywhere.
    pub fn network_shell(&self, script: &str) -> Result<()> {
        let mut command = Command::new("nsenter");
        command
            .arg("--target")
            .arg(self.first.as_raw_nonzero().to_string())
            .args(["--net", "--", "sh", "-e", "-c", script]);
        output(&mut command, TOOL_DEADLINE).map(drop)
    }

    /// A file or folder as programs in the node see it.
    pub fn path(&self, path: &Path) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.first.as_raw_nonzero()));
        root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Its network, for threads that enter it.
    pub fn network(&self) -> Result<Network> {
        let path = format!("/proc/{}/ns/net", self.first.as_raw_nonzero());
        Ok(Network(File::open(path)?))
    }

    /// Ends everything in the node at once, and waits until it is gone.
    pub fn kill(mut self) -> Result<()> {
        kill_process(self.first, Signal::KILL)?;
        // The kernel reaps a first process after all others of its namespace.
        self.group.wait(END_DEADLINE).map(drop)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Ok(None) = self.group.ended() {
            // Fails only where it ends this moment.
            let _ = kill_process(self.first, Signal::KILL);
        }
    }
}

/// A node's network.
#[derive(Debug)]
pub struct Network(File);

impl Network {
    /// The calling thread's sockets are of this network from now on.
    pub fn enter(&self) -> Result<()> {
        Ok(move_into_link_name_space(
            self.0.as_fd(),
            Some(LinkNameSpaceType::Network),
        )?)
    }

    /// Runs something whose sockets are of this network, in a thread of its own.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        let enter_and_work = || {
            self.enter()?;
            work()
        };
        let ended = thread::scope(|scope| scope.spawn(enter_and_work).join());
        ended.unwrap_or_else(|_| Err("a thread panicked".into()))
    }
}

/// Ends a program that runs in a node by a signal and waits for its good end. [`Node::command`] is its parent, which
/// passes no signal on.
pub fn end(daemon: Daemon, signal: Signal) -> Result<()> {
    if let Some(program) = child_of(daemon.id()) {
        kill_process(program, signal)?;
    }
    daemon.wait()
}

fn child_of(parent: u32) -> Option<Pid> {
    let path = format!("/proc/{parent}/task/{parent}/children");
    let children = std::fs::read_to_string(path).ok()?;
    Pid::from_raw(children.split_whitespace().next()?.parse().ok()?)
}

fn name_of(process: Pid) -> String {
    let path = format!("/proc/{}/comm", process.as_raw_nonzero());
    let name = std::fs::read_to_string(path).unwrap_or_default();
    name.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_harness::mount_obstacle;

    #[test]
    fn a_node_s_death_is_the_end_of_all_in_it() {
        if let Some(obstacle) = mount_obstacle() {
            println!("skipped a_node_s_death_is_the_end_of_all_in_it: {obstacle}");
            return;
        }
        let node = Node::start().expect("a node");
        let log = tempfile::NamedTempFile::new().expect("a file");
        let mut sleeper = node.command("sleep");
        let mut sleeper = Daemon::start(sleeper.arg("600"), log.path()).expect("it starts");
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().display();
        node.shell(&format!("mount -t tmpfs none {place}; touch {place}/seen"))
            .expect("mounted");
        assert!(node.path(&folder.path().join("seen")).exists());
        assert!(!folder.path().join("seen").exists(), "mounts are its own");
        let found = node.network().expect("a network").run(|| {
            Ok(std::fs::read_to_string("/proc/thread-self/net/dev")?
                .lines()
                .count())
        });
        // Two lines of heading, and the loopback interface.
        assert_eq!(found.expect("read"), 3);
        node.kill().expect("killed");
        let ended = wait_for(END_DEADLINE, || sleeper.ended());
        assert!(ended.expect("no signal").is_some());
    }
}
