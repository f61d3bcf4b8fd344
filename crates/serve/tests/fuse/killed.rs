//! SIGKILL of a daemon: processes that wait for its disk get an error, loop devices let go, and the
//! next daemon serves from the same directory.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use forebay_serve::{BlockDevice, DeviceError, MemoryDevice};

use crate::common::{AlignedBuffer, LoopDevice, open, skip};
use crate::mounting::{mount, mount_as_offered, no_loop, while_offered};

const DISK_BYTES: usize = 16 << 20;
/// A write here or beyond is never answered.
const STUCK_FROM: u64 = 12 << 20;
/// How long a client may take to hear of the kill before the test calls it stuck.
const PATIENCE: Duration = Duration::from_secs(60);
/// Names the mount point to the process that is to be killed.
const VICTIM_VARIABLE: &str = "FOREBAY_TEST_VICTIM_DISK";

/// Memory, the end of which is a device that does not answer.
struct StuckDevice(MemoryDevice);

impl BlockDevice for StuckDevice {
    fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }
    fn block_size(&self) -> u32 {
        self.0.block_size()
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        self.0.read_at(offset, buffer)
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        if offset >= STUCK_FROM {
            loop {
                std::thread::park();
            }
        }
        self.0.write_at(offset, data)
    }
    fn write_zeroes(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        self.0.write_zeroes(offset, length)
    }
    fn discard(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        self.0.discard(offset, length)
    }
    fn flush(&self) -> Result<(), DeviceError> {
        self.0.flush()
    }
}

/// Not a test of its own: it is the process that the tests kill.
#[test]
fn victim_daemon() {
    let Ok(directory) = std::env::var(VICTIM_VARIABLE) else {
        return;
    };
    let (sender, ended) = channel();
    let device = StuckDevice(MemoryDevice::new(DISK_BYTES, 4096));
    let on_end = move || sender.send(()).unwrap_or_default();
    let mount = mount_as_offered(device, Path::new(&directory), on_end);
    let _mount = mount.unwrap();
    let _ = ended.recv();
}

fn start_victim(directory: &Path) -> (Child, PathBuf) {
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "killed::victim_daemon", "--nocapture"])
        .env(VICTIM_VARIABLE, directory)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let disk = directory.join("disk");
    for _ in 0..2000 {
        if disk.exists() {
            return (victim, disk);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    victim.kill().unwrap();
    victim.wait().unwrap();
    panic!("the victim did not mount");
}

/// Writes from `offset` on until it fails; `begun` hears of the first one, the other of the error.
fn write_until_it_fails(path: PathBuf, offset: u64) -> (Receiver<()>, Receiver<std::io::Error>) {
    let (begin, begun) = channel();
    let (end, ended) = channel();
    std::thread::spawn(move || {
        let file = open(&path, libc::O_DIRECT);
        let mut buffer = AlignedBuffer::new(65_536);
        begin.send(()).unwrap();
        for round in 0.. {
            let at = offset + round % 16 * 65_536;
            if let Err(error) = file.write_all_at(buffer.as_mut(), at) {
                drop(file);
                return end.send(error).unwrap_or_default();
            }
        }
    });
    (begun, ended)
}

#[test]
fn no_program_hangs_on_a_killed_daemon_and_the_next_one_serves() {
    if let Some(why) = no_loop() {
        return skip("no_program_hangs_on_a_killed_daemon", why);
    }
    let directory = tempfile::tempdir().unwrap();
    let (mut victim, disk) = while_offered(|| start_victim(directory.path()));
    let looped = LoopDevice::new(&disk, true);
    let clients = [
        write_until_it_fails(disk.clone(), 0),
        write_until_it_fails(disk.clone(), STUCK_FROM),
        write_until_it_fails(looped.path.clone(), 4 << 20),
        write_until_it_fails(looped.path.clone(), STUCK_FROM + (2 << 20)),
    ];
    for (begun, _) in &clients {
        begun.recv_timeout(PATIENCE).unwrap();
    }
    // Long enough for the two stuck requests to be on their way; nothing depends on it.
    std::thread::sleep(Duration::from_millis(50));
    victim.kill().unwrap();
    victim.wait().unwrap();
    for (_, ended) in &clients {
        let error = ended.recv_timeout(PATIENCE).expect("it hears of the kill");
        let errno = error.raw_os_error().unwrap();
        // Rings of a daemon that has just died answer with the last, for a moment.
        assert!(
            [
                libc::EIO,
                libc::ENOTCONN,
                libc::ECONNABORTED,
                libc::ECANCELED
            ]
            .contains(&errno),
            "{error}"
        );
    }
    let detached = Command::new("losetup").arg("-d").arg(&looped.path).output();
    assert!(detached.unwrap().status.success());
    std::mem::forget(looped);
    let device = MemoryDevice::new(DISK_BYTES, 4096);
    let mount = mount(device, directory.path(), || ()).unwrap();
    let file = open(&disk, libc::O_DIRECT);
    let mut buffer = AlignedBuffer::new(4096);
    file.write_all_at(buffer.as_mut(), STUCK_FROM).unwrap();
    file.read_exact_at(buffer.as_mut(), 0).unwrap();
    drop(file);
    // Lazily: the release of a closed file may still be on its way.
    mount.unmount(true).unwrap();
    mount.join().unwrap();
}
