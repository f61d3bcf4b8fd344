//! The file systems that a disk is tested under, and how each is made, mounted and checked.

use std::path::Path;
use std::time::Duration;

use crate::workload::verify::Acknowledged;
use crate::{Guest, Job, Output, Result};

/// Making, mounting and checking take seconds at most.
const LIMIT: Duration = Duration::from_secs(180);

/// Threads of the load.
pub const THREADS: u32 = 4;

/// A file system and its mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum FileSystem {
    /// ext4, `data=ordered`, its default: data first, then the journal.
    Ext4Ordered,
    /// ext4, `data=journal`: data in the journal, too.
    Ext4Journal,
    /// XFS.
    Xfs,
    /// btrfs.
    Btrfs,
}

impl FileSystem {
    /// All of them.
    pub const ALL: [FileSystem; 4] = [
        FileSystem::Ext4Ordered,
        FileSystem::Ext4Journal,
        FileSystem::Xfs,
        FileSystem::Btrfs,
    ];

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            FileSystem::Ext4Ordered => "ext4 ordered",
            FileSystem::Ext4Journal => "ext4 journal",
            FileSystem::Xfs => "xfs",
            FileSystem::Btrfs => "btrfs",
        }
    }

    /// The program that makes one; those that check it come with it.
    pub fn maker(self) -> &'static str {
        self.make().split(' ').next().unwrap_or_default()
    }

    fn make(self) -> &'static str {
        match self {
            // Nothing is left for a background thread to do.
            FileSystem::Ext4Ordered | FileSystem::Ext4Journal => {
                "mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0"
            }
            FileSystem::Xfs => "mkfs.xfs -q -f",
            FileSystem::Btrfs => "mkfs.btrfs -q -f",
        }
    }

    fn mount(self) -> &'static str {
        match self {
            FileSystem::Ext4Ordered => "mount -t ext4 -o data=ordered,errors=remount-ro",
            FileSystem::Ext4Journal => "mount -t ext4 -o data=journal,errors=remount-ro",
            FileSystem::Xfs => "mount -t xfs",
            FileSystem::Btrfs => "mount -t btrfs",
        }
    }

    /// A script that mounts the one on `device` at `/mnt/a`.
    pub fn mounted(self, device: &str) -> String {
        format!("{} {device} /mnt/a", self.mount())
    }

    /// A script that checks the one on `device`, which is not mounted.
    pub fn checked(self, device: &str) -> String {
        format!("{} {device}", self.check())
    }

    fn check(self) -> &'static str {
        match self {
            FileSystem::Ext4Ordered | FileSystem::Ext4Journal => "e2fsck -fn",
            FileSystem::Xfs => "xfs_repair -n",
            FileSystem::Btrfs => "btrfs check --readonly",
        }
    }
}

/// A load on a disk of a guest.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Decides its steps.
    pub seed: u64,
    /// Tells it from other loads on the same file system.
    pub number: u64,
    /// Whether it waits for fsync before it reports; the control does not.
    pub is_syncing: bool,
}

/// What became of a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Everything acknowledged is there and the file system checks clean.
    Survived,
    /// The file system is in order, but something acknowledged is not there.
    Lost(String),
    /// It cannot be mounted, read or checked clean.
    Broken(String),
}

const STATUS_LOST: i32 = 1;

impl Load {
    fn folder(&self) -> String {
        format!("/mnt/a/load-{}", self.number)
    }

    fn reports(&self) -> String {
        format!("load-{}", self.number)
    }

    /// Starts it on the file system mounted at `/mnt/a`.
    pub fn start(&self, guest: &mut Guest) -> Result<Job> {
        let without_fsync = if self.is_syncing {
            ""
        } else {
            "--without-fsync"
        };
        let reports = guest.shared().join(self.reports());
        std::fs::create_dir(reports)?;
        guest.start(&format!(
            "exec $GUEST load --folder {} --reports $RIG/{} --seed {} --threads {THREADS} \
             {without_fsync}",
            self.folder(),
            self.reports(),
            self.seed
        ))
    }

    /// How many steps each thread has reported so far.
    pub fn acknowledged(&self, guest: &Guest) -> Result<Vec<u64>> {
        self.acknowledged_in(guest.shared())
    }

    /// As [`Load::acknowledged`], from what is the shared folder of its guest, or was.
    pub fn acknowledged_in(&self, shared: &Path) -> Result<Vec<u64>> {
        crate::workload::read_reports(&shared.join(self.reports()), THREADS)
    }
}

/// Makes a file system on `device` and mounts it at `/mnt/a`.
pub fn make(guest: &mut Guest, file_system: FileSystem, device: &str) -> Result<()> {
    let script = format!(
        "{} {device} && {} {device} /mnt/a",
        file_system.make(),
        file_system.mount()
    );
    guest.must_run(&script, LIMIT).map(drop)
}

/// Mounts the file system on `device` at `/mnt/a`, which replays its journal, compares it with what was
/// acknowledged of the load, unmounts and checks it.
pub fn verify(
    guest: &mut Guest,
    file_system: FileSystem,
    device: &str,
    load: &Load,
    acknowledged: &[Acknowledged],
) -> Result<Verdict> {
    let acknowledged: Vec<String> = acknowledged.iter().map(ToString::to_string).collect();
    let script = format!(
        "{mount} {device} /mnt/a || exit 10\n\
         $GUEST verify --folder {folder} --seed {seed} --acknowledged {acknowledged}\n\
         verified=$?\n\
         umount /mnt/a || exit 11\n\
         {check} {device} >/run/check 2>&1 || {{ tail -n 20 /run/check; exit 12; }}\n\
         exit $verified",
        mount = file_system.mount(),
        folder = load.folder(),
        seed = load.seed,
        acknowledged = acknowledged.join(","),
        check = file_system.check(),
    );
    let Output { status, text } = guest.run(&script, LIMIT)?;
    Ok(match status {
        0 => Verdict::Survived,
        STATUS_LOST => Verdict::Lost(text),
        status => Verdict::Broken(format!("status {status}: {text}\n{}", guest.console_tail())),
    })
}

/// Mounts the file system at `/mnt/a` for the next load, and removes what an earlier one left.
pub fn mount_again(
    guest: &mut Guest,
    file_system: FileSystem,
    device: &str,
    earlier: &Load,
) -> Result<()> {
    let script = format!(
        "{} {device} /mnt/a && rm -rf {}",
        file_system.mount(),
        earlier.folder()
    );
    guest.must_run(&script, LIMIT).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuts::killed::warm_up;
    use crate::{Disk, GuestOptions, Scratch, guest};

    const DEVICE: &str = "/dev/ubda";

    /// Kills a guest under a load on a plain file, and looks at what the file holds.
    fn cut_once(scratch: &Scratch, file_system: FileSystem, is_syncing: bool) -> Verdict {
        let name = format!("{file_system:?}-{is_syncing}");
        let disk = scratch.sparse_file(&name, 320 << 20).unwrap();
        let options = GuestOptions::with_disks([Disk::File(disk)]);
        let load = Load {
            seed: 5,
            number: 0,
            is_syncing,
        };
        let mut guest = Guest::boot(scratch, &options).unwrap();
        make(&mut guest, file_system, DEVICE).unwrap();
        let job = load.start(&mut guest).unwrap();
        warm_up(&load, &mut guest, &job).unwrap();
        let shared = guest.shared().to_path_buf();
        guest.cut_power().unwrap();
        let steps = load.acknowledged_in(&shared).unwrap();
        let exactly = steps.iter().map(|&steps| Acknowledged {
            least: steps,
            most: steps,
        });
        let exactly: Vec<_> = exactly.collect();
        let mut guest = Guest::boot(scratch, &options).unwrap();
        let verdict = verify(&mut guest, file_system, DEVICE, &load, &exactly).unwrap();
        guest.shut_down().unwrap();
        verdict
    }

    #[test]
    fn a_plain_disk_keeps_what_was_synced_and_nothing_else() {
        if let Some(why) = guest::obstacle() {
            eprintln!("skipped a_plain_disk_keeps_what_was_synced_and_nothing_else: {why}");
            return;
        }
        let scratch = Scratch::new().unwrap();
        for file_system in FileSystem::ALL {
            let kept = cut_once(&scratch, file_system, true);
            assert_eq!(kept, Verdict::Survived, "{file_system:?}");
        }
        let lost = cut_once(&scratch, FileSystem::Xfs, false);
        assert!(matches!(lost, Verdict::Lost(_)), "{lost:?}");
    }
}
