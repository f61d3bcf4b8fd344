//! GlusterFS with two replicas on four nodes. A step is acknowledged when `fsync` of a file on the clients' mount returns:
//! both replicas have synced it then, or the one that is up, which notes what the other lacks.

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_harness::{Result, output, sleep, wait_for};

use crate::cluster::engine::{Client, Engine};
use crate::cluster::hosts::{CLIENT, Hosts, address};
use crate::cluster::workload::Workload;

const NODES: usize = 4;
const REPLICAS: usize = 2;
const VOLUME: &str = "v";
const SETTLE_DEADLINE: Duration = Duration::from_secs(180);
const TOOL_DEADLINE: Duration = Duration::from_secs(150);
const PAUSE: Duration = Duration::from_millis(500);
/// How often in a row nothing is to be healed: the crawl that finds it takes its time.
const HEALED_LOOKS: u32 = 3;
/// Until clients give a dead brick up; all of them wait meanwhile. 42 by default.
const PING_TIMEOUT_S: &str = "3";

#[derive(Debug, Default)]
pub struct Gluster;

impl Gluster {
    /// What `gluster` prints, asked of the first node that is alive.
    fn ask(&self, hosts: &Hosts<'_>, arguments: &[&str]) -> Result<String> {
        let mut numbers = hosts.numbers();
        let number = numbers.find(|number| hosts.is_alive(*number));
        self.ask_at(hosts, number.ok_or("no node is alive")?, arguments)
    }

    fn ask_at(&self, hosts: &Hosts<'_>, number: usize, arguments: &[&str]) -> Result<String> {
        let mut command = hosts.node(number)?.command("gluster");
        command.arg("--mode=script").args(arguments);
        output(&mut command, TOOL_DEADLINE)
    }

    /// Asks until it is not refused: GlusterFS refuses while another command or an election runs.
    fn insist(&self, hosts: &Hosts<'_>, arguments: &[&str]) -> Result<()> {
        let mut last = None;
        let done = wait_for(SETTLE_DEADLINE, || match self.ask(hosts, arguments) {
            Ok(_) => Ok(Some(())),
            Err(error) => {
                last = Some(error);
                sleep(PAUSE)?;
                Ok(None)
            }
        })?;
        match (done, last) {
            (None, Some(error)) => Err(error),
            _ => Ok(()),
        }
    }

    /// Starts the daemon that starts the node's bricks. Its state is the node's own, and as durable as the machine's.
    fn start_daemon(&self, hosts: &Hosts<'_>, number: usize) -> Result<()> {
        own_folders(hosts, number)?;
        hosts
            .node(number)?
            .shell("glusterd --pid-file=/run/glusterd.pid")?;
        let answers = wait_for(SETTLE_DEADLINE, || {
            let answered = self.ask_at(hosts, number, &["pool", "list"]);
            if answered.is_err() {
                sleep(PAUSE)?;
            }
            Ok(answered.ok())
        })?;
        answers
            .map(drop)
            .ok_or_else(|| format!("glusterd of node {number} does not answer").into())
    }

    /// Mounts the volume for clients, without anything that an earlier mount had cached.
    fn mount(&self, hosts: &Hosts<'_>) -> Result<()> {
        let at = mount_point(hosts);
        let at = at.display();
        let mut numbers = hosts.numbers();
        let number = numbers.find(|number| hosts.is_alive(*number));
        let server = address(number.ok_or("no node is alive")?);
        hosts.node(CLIENT)?.shell(&format!(
            "if mountpoint -q {at}; then umount -l {at}; fi; mount -t glusterfs {server}:/{VOLUME} {at}"
        ))?;
        Ok(())
    }

    /// Entries that are to be healed; none while not all bricks are connected.
    fn unhealed(&self, hosts: &Hosts<'_>) -> Result<Option<u64>> {
        let told = self.ask(hosts, &["volume", "heal", VOLUME, "info"]);
        Ok(told.ok().and_then(|told| unhealed_in(&told)))
    }
}

impl Engine for Gluster {
    fn nodes(&self) -> usize {
        NODES
    }

    fn workload(&self) -> Workload {
        Workload::Mail
    }

    fn stale_workload(&self) -> Workload {
        Workload::Overwrites
    }

    fn has_quorum(&self) -> bool {
        false
    }

    fn start(&mut self, hosts: &Hosts<'_>) -> Result<()> {
        for number in hosts.numbers() {
            self.start_daemon(hosts, number)?;
        }
        for number in hosts.numbers().skip(1) {
            let peer = address(number).to_string();
            self.insist(hosts, &["peer", "probe", &peer])?;
        }
        let is_connected = wait_for(SETTLE_DEADLINE, || {
            let peers = self.ask(hosts, &["peer", "status"])?;
            let count = peers.matches("Peer in Cluster (Connected)").count();
            if count + 1 < hosts.count() {
                sleep(PAUSE)?;
            }
            Ok((count + 1 == hosts.count()).then_some(()))
        })?;
        is_connected.ok_or("GlusterFS's nodes do not connect")?;
        let bricks: Vec<String> = hosts.numbers().map(|number| brick(hosts, number)).collect();
        let replicas = REPLICAS.to_string();
        let mut create = vec!["volume", "create", VOLUME, "replica", &replicas];
        create.extend(bricks.iter().map(String::as_str));
        // The folder of a brick lies on what GlusterFS takes for the system's disk.
        create.push("force");
        self.insist(hosts, &create)?;
        let ping = [
            "volume",
            "set",
            VOLUME,
            "network.ping-timeout",
            PING_TIMEOUT_S,
        ];
        self.insist(hosts, &ping)?;
        self.insist(hosts, &["volume", "start", VOLUME])?;
        own_folders(hosts, CLIENT)?;
        std::fs::create_dir_all(mount_point(hosts))?;
        self.settle(hosts, &[])
    }

    fn stop(&mut self, hosts: &Hosts<'_>, number: usize) -> Result<()> {
        // Each has written its own number; /run is the node's.
        let script = "for file in /run/glusterd.pid $(find /run/gluster -name '*.pid'); do
            process=$(cat $file)
            kill -KILL $process || continue
            while [ -e /proc/$process ]; do sleep 0.1; done
        done";
        hosts.node(number)?.shell(script).map(drop)
    }

    fn restart(&mut self, hosts: &Hosts<'_>, number: usize) -> Result<()> {
        self.start_daemon(hosts, number)
    }

    fn settle(&mut self, hosts: &Hosts<'_>, _: &[usize]) -> Result<()> {
        let are_all_alive = hosts.numbers().all(|number| hosts.is_alive(number));
        if are_all_alive {
            // Bricks whose ports were in use are started now.
            self.insist(hosts, &["volume", "start", VOLUME, "force"])?;
            let mut looks = 0;
            let healed = wait_for(SETTLE_DEADLINE, || {
                let heal = self.ask(hosts, &["volume", "heal", VOLUME, "full"]);
                sleep(PAUSE)?;
                let is_healed = heal.is_ok() && self.unhealed(hosts)? == Some(0);
                looks = if is_healed { looks + 1 } else { 0 };
                Ok((looks >= HEALED_LOOKS).then_some(()))
            })?;
            healed.ok_or("GlusterFS does not heal")?;
        }
        self.mount(hosts)
    }

    fn readmit(&mut self, hosts: &Hosts<'_>, number: usize) -> Result<()> {
        self.start_daemon(hosts, number)?;
        let brick = brick(hosts, number);
        self.insist(hosts, &["volume", "reset-brick", VOLUME, &brick, "start"])?;
        std::fs::create_dir_all(directory(hosts, number)?)?;
        let commit = [
            "volume",
            "reset-brick",
            VOLUME,
            &brick,
            &brick,
            "commit",
            "force",
        ];
        self.insist(hosts, &commit)?;
        self.insist(hosts, &["volume", "heal", VOLUME, "full"])
    }

    fn clients(&self, hosts: &Hosts<'_>, count: usize) -> Result<Vec<Box<dyn Client>>> {
        let mount = hosts.node(CLIENT)?.path(&mount_point(hosts));
        let client = |_| Box::new(Mounted(mount.clone())) as Box<dyn Client>;
        Ok((0..count).map(client).collect())
    }

    fn client_of(&self, hosts: &Hosts<'_>, number: usize) -> Result<Box<dyn Client>> {
        let directories = hosts.numbers().map(|number| directory(hosts, number));
        let directories = directories.collect::<Result<Vec<_>>>()?;
        Ok(Box::new(Replica {
            own: number - 1,
            directories,
        }))
    }
}

/// What GlusterFS calls the brick of a node.
fn brick(hosts: &Hosts<'_>, number: usize) -> String {
    let folder = hosts.places(number).brick.join(VOLUME);
    format!("{}:{}", address(number), folder.display())
}

/// Where the brick can be read past GlusterFS.
fn directory(hosts: &Hosts<'_>, number: usize) -> Result<PathBuf> {
    let folder = hosts.places(number).brick.join(VOLUME);
    Ok(hosts.node(number)?.path(&folder))
}

fn mount_point(hosts: &Hosts<'_>) -> PathBuf {
    hosts.env.path("volume")
}

/// GlusterFS has its state and its logs in fixed places.
fn own_folders(hosts: &Hosts<'_>, number: usize) -> Result<()> {
    let folder = hosts.env.path(&format!("gluster{number}"));
    let folder = folder.display();
    hosts.node(number)?.shell(&format!(
        "mkdir -p {folder}/lib/groups {folder}/log /var/lib/glusterd /var/log/glusterfs
         mount --bind {folder}/lib /var/lib/glusterd
         mount --bind {folder}/log /var/log/glusterfs"
    ))?;
    Ok(())
}

/// The sum of what bricks have to heal, in what `gluster volume heal NAME info` prints; none while one is not connected.
fn unhealed_in(told: &str) -> Option<u64> {
    let counts = told
        .lines()
        .filter_map(|line| line.strip_prefix("Number of entries: "));
    counts.map(|count| count.trim().parse::<u64>().ok()).sum()
}

/// A client on the mount.
struct Mounted(PathBuf);

impl Client for Mounted {
    fn write(&mut self, workload: Workload, key: &str, version: u32) -> Result<()> {
        let path = self.0.join(key);
        if workload.content(key, version).is_none() {
            return Ok(std::fs::remove_file(&path)?);
        }
        let (from, bytes) = workload.written(key, version);
        let file = OpenOptions::new()
            .write(true)
            .create(version == 1)
            .truncate(false)
            .open(path)?;
        file.write_all_at(&bytes, from as u64)?;
        Ok(file.sync_all()?)
    }

    fn read(&mut self, key: &str) -> Result<Option<Vec<u8>>> {
        found(&self.0.join(key))
    }
}

/// What the brick of one node has, read past GlusterFS. Which replicas have a file is GlusterFS's choice: what is on the
/// node's own is asked of that, and of another set what its first brick has.
struct Replica {
    own: usize,
    directories: Vec<PathBuf>,
}

impl Client for Replica {
    fn write(&mut self, _: Workload, _: &str, _: u32) -> Result<()> {
        Err("bricks are only read".into())
    }

    fn read(&mut self, key: &str) -> Result<Option<Vec<u8>>> {
        let set = self.own / REPLICAS;
        let own = found(&self.directories[self.own].join(key))?;
        if own.is_some() {
            return Ok(own);
        }
        for (number, directory) in self.directories.iter().enumerate() {
            let elsewhere = found(&directory.join(key))?;
            match elsewhere {
                // Its replica has it, and it does not.
                Some(_) if number / REPLICAS == set => return Ok(None),
                Some(bytes) => return Ok(Some(bytes)),
                None => {}
            }
        }
        Ok(None)
    }
}

fn found(path: &Path) -> Result<Option<Vec<u8>>> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_healed_before_all_bricks_are_connected() {
        let told = "Brick 10.77.0.1:/b\nStatus: Connected\nNumber of entries: 2\n\n\
                    Brick 10.77.0.2:/b\nStatus: Connected\nNumber of entries: 1\n";
        assert_eq!(unhealed_in(told), Some(3));
        assert_eq!(unhealed_in(&told.replace("entries: 1", "entries: -")), None);
    }

    #[test]
    fn a_replica_lacks_what_only_the_other_has() {
        let folder = tempfile::tempdir().expect("a folder");
        let directories: Vec<PathBuf> = (0..4).map(|n| folder.path().join(n.to_string())).collect();
        for directory in &directories {
            std::fs::create_dir(directory).expect("made");
        }
        std::fs::write(directories[0].join("a"), b"one").expect("written");
        for directory in &directories[2..] {
            std::fs::write(directory.join("b"), b"two").expect("written");
        }
        let read = |own, key| {
            let directories = directories.clone();
            Replica { own, directories }.read(key).expect("read")
        };
        assert_eq!(read(0, "a").as_deref(), Some(&b"one"[..]));
        assert_eq!(read(1, "a"), None, "its replica has it");
        assert_eq!(read(2, "a").as_deref(), Some(&b"one"[..]), "another set's");
        assert_eq!(read(0, "b").as_deref(), Some(&b"two"[..]));
        assert_eq!(read(3, "c"), None);
    }

    #[test]
    fn a_client_writes_what_a_version_has() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut client = Mounted(folder.path().to_owned());
        let mail = Workload::Mail;
        for version in 1..=4 {
            client.write(mail, "c0-1", version).expect("written");
            assert_eq!(
                client.read("c0-1").expect("read"),
                mail.content("c0-1", version)
            );
        }
    }
}
