//! The numbers that have a bar, by name.

use forebay_harness::Bar;

use crate::judged::{Asked, DISK};

/// What is asked for.
pub const BARS: &[Asked] = &[
    ("etcd_1client_mount_vs_disk", Bar::AtLeast(1.6)),
    ("etcd_16clients_mount_vs_disk", Bar::Reported),
    ("gluster_mail_r2_mount_vs_disk", Bar::AtLeast(1.3)),
    ("gluster_mail_r2_serve_vs_disk", Bar::AtLeast(1.2)),
    ("nats_1client_mount_vs_disk", Bar::AtLeast(2.4)),
    ("hdfs_hsync_r3_mount_vs_disk", Bar::AtLeast(1.4)),
    ("teragen_r3_mount_vs_disk", Bar::AtLeast(0.9)),
    (DISK, Bar::Reported),
    ("cluster_kill_rounds", Bar::AtLeast(20.0)),
    ("cluster_kill_rounds_an_engine", Bar::AtLeast(5.0)),
    ("cluster_clean_pools", Bar::AtMost(0.0)),
    ("cluster_losses", Bar::AtMost(0.0)),
    ("cluster_failures", Bar::AtMost(0.0)),
];
