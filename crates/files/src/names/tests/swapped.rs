//! Another file system at the same place: roots of one kind have the same number and generation.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use std::collections::HashSet;

use crate::metadata::FileId;
use crate::names::log::tests::MemoryArea;
use crate::names::reconcile::Reconciled;
use crate::names::{Names, RealSpace};

/// Two file systems that can be mounted at one place.
struct Disks {
    scratch: tempfile::TempDir,
    area: Arc<MemoryArea>,
    ids: AtomicU64,
    is_mounted: bool,
}

fn does(program: &str, arguments: &[&Path]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

impl Disks {
    /// None (said aloud) where they cannot be made or mounted.
    fn new() -> Option<Disks> {
        let mut disks = Disks {
            scratch: tempfile::tempdir().unwrap(),
            area: MemoryArea::new(256 << 10),
            ids: AtomicU64::new(1),
            is_mounted: false,
        };
        fs::create_dir_all(disks.place()).unwrap();
        for name in ["one", "other"] {
            let image = disks.scratch.path().join(name);
            fs::File::create(&image).unwrap().set_len(4 << 20).unwrap();
            if !does("mkfs.ext4", &[Path::new("-q"), &image]) {
                println!("skipped: no mkfs.ext4");
                return None;
            }
        }
        if !disks.mount("one") {
            println!("skipped: needs root and loop devices");
            return None;
        }
        Some(disks)
    }

    /// The root's path; the file systems are mounted on `sub` in it.
    fn root(&self) -> PathBuf {
        self.scratch.path().join("root")
    }

    fn place(&self) -> PathBuf {
        self.root().join("sub")
    }

    fn mount(&mut self, name: &str) -> bool {
        self.unmount();
        let image = self.scratch.path().join(name);
        let options = [Path::new("-o"), Path::new("loop")];
        self.is_mounted = does("mount", &[options[0], options[1], &image, &self.place()]);
        self.is_mounted
    }

    fn unmount(&mut self) {
        if std::mem::take(&mut self.is_mounted) {
            assert!(does("umount", &[&self.place()]), "it is in use");
        }
    }

    fn names(&self, root: &Path) -> Names<RealSpace> {
        let root = fs::File::open(root).unwrap();
        let next = self.ids.fetch_add(1000, Ordering::Relaxed);
        let ids = AtomicU64::new(next);
        let draw = Box::new(move || Ok(FileId(ids.fetch_add(1, Ordering::Relaxed))));
        Names::open(self.area.clone(), RealSpace::new(root.into()), draw).unwrap()
    }

    fn recover(&self, root: &Path) -> io::Result<(Names<RealSpace>, Reconciled<RealSpace>)> {
        let names = self.names(root);
        let found = names.recover(&HashSet::new())?;
        Ok((names, found))
    }

    /// Makes a file in the mounted one.
    fn make_file(&self, names: &Names<RealSpace>) {
        let place = Arc::new(fs::File::open(self.place()).unwrap().into());
        let make = || fs::write(self.place().join("file"), "x");
        names.create(&place, "file".as_ref(), make).unwrap();
    }

    fn tells_uuids(&self) -> bool {
        let place = fs::File::open(self.place()).unwrap();
        crate::names::file_system::uuid_of(std::os::fd::AsFd::as_fd(&place)).is_some()
    }
}

impl Drop for Disks {
    fn drop(&mut self) {
        if self.is_mounted {
            does("umount", &[Path::new("-l"), &self.place()]);
        }
    }
}

#[test]
fn another_file_system_at_the_roots_place_is_refused_until_the_right_one_is_back() {
    let Some(mut disks) = Disks::new() else {
        return;
    };
    let (names, _) = disks.recover(&disks.place()).unwrap();
    names.begin().unwrap();
    drop(names);
    if disks.tells_uuids() {
        // With nothing to lose, any may take its place.
        assert!(disks.mount("other"));
        drop(disks.recover(&disks.place()).unwrap());
        assert!(disks.mount("one"));
    }
    let (names, _) = disks.recover(&disks.place()).unwrap();
    names.begin().unwrap();
    disks.make_file(&names);
    drop(names);
    assert!(disks.mount("other"));
    let text = disks.recover(&disks.place()).map(drop).unwrap_err();
    let text = text.to_string();
    assert!(text.contains("another one is mounted there"), "{text}");
    assert!(!disks.place().join("file").exists());
    assert!(disks.mount("one"));
    let (_, found) = disks.recover(&disks.place()).unwrap();
    assert_eq!((found.complaints, found.made), (Vec::new(), Vec::new()));
}

#[test]
fn another_file_system_below_the_root_is_taken_for_missing() {
    let Some(mut disks) = Disks::new() else {
        return;
    };
    if !disks.tells_uuids() {
        println!("skipped: the kernel tells no UUIDs of file systems");
        return;
    }
    let (names, _) = disks.recover(&disks.root()).unwrap();
    names.begin().unwrap();
    disks.make_file(&names);
    drop(names);
    assert!(disks.mount("other"));
    let (_, found) = disks.recover(&disks.root()).unwrap();
    assert!(!disks.place().join("file").exists());
    assert!(found.made.is_empty(), "{:?}", found.made);
    assert!(!found.complaints.is_empty());
    assert!(disks.mount("one"));
    let (_, found) = disks.recover(&disks.root()).unwrap();
    assert_eq!(found.complaints, [""; 0]);
}
