//! The engines that there are, and what is measured of each.

use forebay_harness::find_program;

use crate::cluster::engine::Engine;
use crate::cluster::etcd::Etcd;
use crate::cluster::gluster::Gluster;
use crate::cluster::hdfs::{Hdfs, jars};
use crate::cluster::kind::Kind;
use crate::cluster::nats::{Nats, nats_server};
use crate::cluster::speed::Case;
use crate::cluster::workload::Workload;

/// An engine, and what it needs.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// By which it is chosen.
    pub name: &'static str,
    pub title: &'static str,
    programs: &'static [&'static str],
    pub cases: &'static [Case],
    /// Of which is counted what the memory and the disks pay, besides what is done in one piece; none of most engines.
    pub costs: Option<&'static [Case]>,
    /// What nodes are killed on.
    pub killed_on: &'static [Kind],
    /// What pools are lost on.
    pub lost_on: &'static [Kind],
    pub make: fn() -> Box<dyn Engine>,
}

pub const ENGINES: &[Known] = &[ETCD, GLUSTER, NATS, HDFS];

const ETCD: Known = Known {
    name: "etcd",
    title: "etcd",
    programs: &["etcd", "etcdctl"],
    cases: &[
        Case {
            name: "etcd_1client",
            clients: 1,
            unit: "puts/s",
            workload: Workload::Puts,
        },
        Case {
            name: "etcd_16clients",
            clients: 16,
            unit: "puts/s",
            workload: Workload::Puts,
        },
    ],
    costs: None,
    killed_on: &[Kind::Mount, Kind::Serve],
    lost_on: &[Kind::Mount],
    make: || Box::<Etcd>::default(),
};

const GLUSTER: Known = Known {
    name: "gluster",
    title: "GlusterFS",
    programs: &["glusterd", "gluster", "mount.glusterfs"],
    cases: &[gluster_case("gluster_mail_r2", Workload::Mail)],
    costs: Some(&[
        gluster_case("gluster_mail_r2_full_cache", Workload::Mail),
        gluster_case("gluster_fileserver_r2_full_cache", Workload::Fileserver),
        gluster_case("gluster_webproxy_r2_full_cache", Workload::Webproxy),
    ]),
    killed_on: &[Kind::Mount, Kind::Serve],
    lost_on: &[Kind::Mount, Kind::Serve],
    make: || Box::<Gluster>::default(),
};

const fn gluster_case(name: &'static str, workload: Workload) -> Case {
    Case {
        name,
        clients: 4,
        unit: "steps/s",
        workload,
    }
}

const NATS: Known = Known {
    name: "nats",
    title: "NATS JetStream",
    programs: &["nats-server"],
    cases: &[
        Case {
            name: "nats_1client",
            clients: 1,
            unit: "puts/s",
            workload: Workload::Puts,
        },
        Case {
            name: "nats_16clients",
            clients: 16,
            unit: "puts/s",
            workload: Workload::Puts,
        },
    ],
    costs: None,
    killed_on: &[Kind::Mount, Kind::Serve],
    lost_on: &[Kind::Mount],
    make: || Box::<Nats>::default(),
};

const fn hsync_case(name: &'static str, replicas: u8) -> Case {
    Case {
        name,
        clients: 4,
        unit: "records/s",
        workload: Workload::Records { replicas },
    }
}

const HDFS: Known = Known {
    name: "hdfs",
    title: "HDFS",
    programs: &["java", "the jars of HDFS"],
    cases: &[
        hsync_case("hdfs_hsync_r3", 3),
        hsync_case("hdfs_hsync_r2", 2),
        hsync_case("hdfs_hsync_r1", 1),
    ],
    costs: Some(&[]),
    killed_on: &[Kind::Mount, Kind::Serve],
    lost_on: &[Kind::Mount],
    make: || Box::<Hdfs>::default(),
};

impl Known {
    /// What this machine lacks, and what to do about it.
    pub fn obstacle(&self) -> Option<String> {
        let missing = self.programs.iter().find(|name| !is_there(name))?;
        let name = self.name;
        Some(format!(
            "skipped {name}: {missing} not found here; `scripts/setup.sh cluster` installs what it can"
        ))
    }
}

fn is_there(program: &str) -> bool {
    match program {
        "nats-server" => nats_server().is_some(),
        "the jars of HDFS" => jars().is_some(),
        other => find_program(other).is_some(),
    }
}
