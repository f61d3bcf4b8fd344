//! The nodes of a cluster on one machine, joined by a bridge in the network of a node for clients. The rest of the machine
//! and its network see nothing of it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use forebay_harness::{Result, TestEnv, output};
use serde_json::Value;

use crate::cluster::brick::{Brick, Places, Site, Trust};
use crate::cluster::kind::Kind;
use crate::cluster::node::{Network, Node};
use crate::tpcc::counters::{Cache, parse};

const TOOL_DEADLINE: Duration = Duration::from_secs(60);
/// The number of the node that only has clients.
pub const CLIENT: usize = 0;
/// The last part of its address.
const CLIENT_ADDRESS: u8 = 254;

/// A node that has been up, and may be dead.
#[derive(Debug)]
struct Host {
    places: Places,
    node: Option<Node>,
    brick: Option<Brick>,
    /// How often it was started.
    starts: u32,
}

/// What daemons below bricks have counted, all together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Cache lines sent to memory.
    pub lines: u64,
    /// Blocks written to disks.
    pub disk_blocks: u64,
    /// The same of the node that wrote the fewest.
    pub disk_blocks_least: u64,
    /// How full the emptiest cache is, in thousandths.
    pub full_per_mille: u64,
}

/// Nothing of it is left when it is dropped.
#[derive(Debug)]
pub struct Hosts<'a> {
    pub site: &'a Site,
    pub kind: Kind,
    /// Numbered from 1 on; before them the clients'.
    hosts: Vec<Host>,
    client: Node,
    // Dropped last: the folders of all others.
    pub env: TestEnv,
}

impl Hosts<'_> {
    /// Makes so many nodes with a brick each.
    pub fn start(site: &Site, kind: Kind, count: usize) -> Result<Hosts<'_>> {
        let env = TestEnv::with_memory(&site.forebay, &site.memory, &site.disk)?;
        let client = Node::start()?;
        client.network_shell(&format!(
            "ip link set lo up; ip link add br0 type bridge; ip addr add {}/24 dev br0; ip link set br0 up",
            address(CLIENT)
        ))?;
        let mut hosts = Hosts {
            site,
            kind,
            hosts: Vec::new(),
            client,
            env,
        };
        for number in 1..=count {
            hosts.hosts.push(Host {
                places: Places::make(site, &hosts.env, number)?,
                node: None,
                brick: None,
                starts: 0,
            });
            hosts.restart(number, Trust::Marks)?;
        }
        Ok(hosts)
    }

    pub fn count(&self) -> usize {
        self.hosts.len()
    }

    /// The numbers of all nodes but the clients'.
    pub fn numbers(&self) -> std::ops::RangeInclusive<usize> {
        1..=self.count()
    }

    fn host(&self, number: usize) -> &Host {
        &self.hosts[number - 1]
    }

    pub fn places(&self, number: usize) -> &Places {
        &self.host(number).places
    }

    /// The node of that number, 0 for that of the clients.
    ///
    /// # Errors
    /// It is dead.
    pub fn node(&self, number: usize) -> Result<&Node> {
        if number == CLIENT {
            return Ok(&self.client);
        }
        let node = self.host(number).node.as_ref();
        node.ok_or_else(|| format!("node {number} is dead").into())
    }

    pub fn is_alive(&self, number: usize) -> bool {
        self.host(number).node.is_some()
    }

    /// Where clients' sockets are.
    pub fn network(&self) -> Result<Network> {
        self.client.network()
    }

    /// Brings a dead node up, with its network and its brick.
    ///
    /// # Errors
    /// Whatever failed; the node is dead then.
    pub fn restart(&mut self, number: usize, trust: Trust) -> Result<()> {
        let node = self.start_node(number)?;
        let mut brick = Brick::new(self.kind, self.places(number).clone());
        if let Err(error) = brick.start(self.site, &self.env, &node, trust) {
            node.kill()?;
            brick.wait_until_released()?;
            return Err(error);
        }
        let host = &mut self.hosts[number - 1];
        (host.node, host.brick) = (Some(node), Some(brick));
        Ok(())
    }

    fn start_node(&mut self, number: usize) -> Result<Node> {
        let host = &mut self.hosts[number - 1];
        assert!(host.node.is_none(), "node {number} is alive");
        host.starts += 1;
        // The kernel takes a dead node's link away in its own time.
        let link = format!("v{number}s{}", host.starts);
        let node = Node::start()?;
        let first = node.first_process().as_raw_nonzero();
        // The same hardware address each time, so that neighbours need not ask anew.
        self.client.network_shell(&format!(
            "ip link add {link} type veth peer name eth0 address 02:00:00:00:00:{number:02} netns {first}; \
             ip link set {link} master br0 up"
        ))?;
        node.shell(&format!(
            "ip link set lo up; ip addr add {}/24 dev eth0; ip link set eth0 up; mount -t tmpfs run /run",
            address(number)
        ))?;
        Ok(node)
    }

    /// Kills a node: its processes and its mounts are gone together, whatever they are at. Pool and image stay.
    pub fn kill(&mut self, number: usize) -> Result<()> {
        let host = &mut self.hosts[number - 1];
        let node = host.node.take().ok_or("the node is dead already")?;
        let brick = host.brick.take();
        node.kill()?;
        brick.map_or(Ok(()), |brick| brick.wait_until_released())
    }

    /// Ends a node's brick in order, so that the disk has everything, and then the node.
    pub fn put_away(&mut self, number: usize) -> Result<()> {
        let host = &mut self.hosts[number - 1];
        let node = host.node.take().ok_or("the node is dead already")?;
        let closed = host.brick.take().map(|brick| brick.close(&node));
        node.kill()?;
        closed.unwrap_or(Ok(()))
    }

    /// What a power cut takes from a dead node whose pool is in memory.
    pub fn lose_pool(&self, number: usize) -> Result<()> {
        assert!(!self.is_alive(number));
        Ok(std::fs::remove_file(&self.places(number).pool)?)
    }

    /// Empties what a dead node has on its disk, as the guide says, so that it can be added anew.
    pub fn wipe(&self, number: usize) -> Result<()> {
        assert!(!self.is_alive(number));
        let places = self.places(number);
        if self.kind != Kind::Mount {
            // A new file system is made at the next start.
            return match &places.delayed {
                Some(delayed) => {
                    std::fs::remove_dir_all(&places.marks)?;
                    delayed.replace()
                }
                None => Ok(std::fs::remove_file(&places.image)?),
            };
        }
        let mut command = Command::new("unshare");
        let (image, data) = (places.image.display(), places.data.display());
        let script = format!(
            "mount -t ext4 -o loop {image} {data}; find {data} -mindepth 1 -delete; umount {data}"
        );
        command.args(["--mount", "sh", "-e", "-c", &script]);
        output(&mut command, TOOL_DEADLINE).map(drop)
    }

    /// Blocks that a dead node's pool has and its disk may lack.
    pub fn dirty_blocks(&self, number: usize) -> Result<u64> {
        assert!(!self.is_alive(number));
        let mut command = self.env.command(&["info", "--json"]);
        let told = output(command.arg(&self.places(number).pool), TOOL_DEADLINE)?;
        let told: Value = serde_json::from_str(&told)?;
        let blocks = told["dirty_blocks"].as_u64();
        blocks.ok_or_else(|| format!("no dirty blocks in {told}").into())
    }

    /// What has been counted below all bricks; none where nothing counts.
    pub fn counted(&self) -> Result<Option<Counted>> {
        if !self.kind.is_served() {
            return Ok(None);
        }
        let mut all = Counted {
            full_per_mille: 1000,
            disk_blocks_least: u64::MAX,
            ..Counted::default()
        };
        for number in self.numbers() {
            let program: &Path = match self.kind.design() {
                None => &self.site.forebay,
                Some(_) => &self.site.laboratory,
            };
            let mut command = Command::new(program);
            command.arg("stat").arg(&self.places(number).pool);
            let told = output(command.arg("--json"), TOOL_DEADLINE)?;
            let (Cache { lines, .. }, disk_blocks, full_per_mille) = parse(&told)?;
            all.lines += lines;
            all.disk_blocks += disk_blocks;
            all.disk_blocks_least = all.disk_blocks_least.min(disk_blocks);
            all.full_per_mille = all.full_per_mille.min(full_per_mille);
        }
        Ok(Some(all))
    }
}

/// A node's address.
pub fn address(number: usize) -> IpAddr {
    let last = match number {
        CLIENT => CLIENT_ADDRESS,
        number => u8::try_from(number).expect("few nodes"),
    };
    IpAddr::V4(Ipv4Addr::new(10, 77, 0, last))
}

/// A server's.
pub fn server(number: usize, port: u16) -> SocketAddr {
    SocketAddr::new(address(number), port)
}
