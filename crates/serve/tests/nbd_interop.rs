//! The tools that people use speak with our server and find what they expect: libnbd's, QEMU's,
//! nbdkit's, nbd-client's and fio's engine, all on a volume of a real pool.

mod nbd_client;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay::{Backing, Pool, PoolOptions};
use forebay_serve::VolumeDevice;
use forebay_serve::nbd::NbdOptions;
use nbd_client::Rig;

const MIB: u64 = 1 << 20;
const DISK_BYTES: u64 = 64 * MIB;
/// Smaller than the disk, so that blocks are evicted and read back.
const POOL_BYTES: u64 = 32 * MIB;

/// Says, past the capture of test output, that a test could not run here.
fn skip(test: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "skipped {test}: {why}");
}

/// Whether all of these tools are installed; says so if not.
fn have(test: &str, tools: &[&str]) -> bool {
    let is_there = |tool: &&&str| {
        let found = Command::new("sh")
            .args(["-c", &format!("command -v {tool}")])
            .env("PATH", search_path())
            .output();
        !found.is_ok_and(|output| output.status.success())
    };
    let missing: Vec<_> = tools.iter().filter(is_there).copied().collect();
    if !missing.is_empty() {
        skip(test, &format!("needs {}", missing.join(", ")));
    }
    missing.is_empty()
}

/// Where the system's tools are, first: nbdsh wants the system's Python.
fn search_path() -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    format!("/usr/bin:/bin:/usr/sbin:/sbin:{path}")
}

/// Runs a tool, for two minutes at most, and returns what it said.
fn run(tool: &str, arguments: &[&str]) -> Output {
    Command::new("timeout")
        .args(["--kill-after=5", "120", tool])
        .args(arguments)
        .env("PATH", search_path())
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// Runs a tool that must succeed; its standard output.
fn succeed(tool: &str, arguments: &[&str]) -> String {
    let output = run(tool, arguments);
    assert!(
        output.status.success(),
        "{tool} {arguments:?}: {}\n{}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A server of a volume whose backing is a sparse file.
struct PoolRig {
    rig: Rig,
    pool: Option<Pool>,
    folder: tempfile::TempDir,
}

impl PoolRig {
    fn new() -> PoolRig {
        // In memory where there is such a folder: these tests are about the protocol.
        let memory = Path::new("/dev/shm");
        let folder = match memory.is_dir() {
            true => tempfile::tempdir_in(memory).unwrap(),
            false => tempfile::tempdir().unwrap(),
        };
        let backing = folder.path().join("backing");
        std::fs::File::create(&backing)
            .unwrap()
            .set_len(DISK_BYTES)
            .unwrap();
        let pool = Pool::create(&PoolOptions::new(folder.path().join("pool"), POOL_BYTES)).unwrap();
        let volume = pool.attach(Backing::file(&backing).unwrap()).unwrap();
        PoolRig {
            rig: Rig::new(Arc::new(VolumeDevice::new(volume)), NbdOptions::default()),
            pool: Some(pool),
            folder,
        }
    }

    fn uri(&self) -> String {
        self.rig.uri("disk")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A file of the disk's size: pieces of data between holes.
    fn image(&self, name: &str, seed: u64) -> PathBuf {
        use std::os::unix::fs::FileExt;
        let path = self.path(name);
        let file = std::fs::File::create(&path).unwrap();
        file.set_len(DISK_BYTES).unwrap();
        let mut state = seed;
        let mut random = move || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            state >> 33
        };
        for piece in 0..48_u64 {
            let length = 512 * (1 + random() % 1024);
            let at = piece * MIB + random() % 512 * 512;
            let bytes: Vec<u8> = (0..length).map(|_| random() as u8).collect();
            file.write_all_at(&bytes[..bytes.len().min((DISK_BYTES - at) as usize)], at)
                .unwrap();
        }
        path
    }
}

impl Drop for PoolRig {
    fn drop(&mut self) {
        assert!(self.rig.server.drain(Duration::from_secs(60)));
        if let (Some(pool), false) = (self.pool.take(), std::thread::panicking()) {
            self.rig.exports.remove("disk");
            pool.close().unwrap();
        }
    }
}

fn same(a: &Path, b: &Path) {
    succeed("cmp", &[a.to_str().unwrap(), b.to_str().unwrap()]);
}

#[test]
fn nbdinfo_says_what_the_export_can_do() {
    if !have("nbdinfo_says_what_the_export_can_do", &["nbdinfo"]) {
        return;
    }
    let rig = PoolRig::new();
    let text = succeed("nbdinfo", &["--json", &rig.uri()]);
    let info: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(info["protocol"], "newstyle-fixed");
    assert_eq!(info["structured"], true);
    let export = &info["exports"][0];
    assert_eq!(export["export-name"], "disk");
    assert_eq!(export["description"], "a disk for tests");
    assert_eq!(export["export-size"], DISK_BYTES);
    for can in ["cache", "df", "flush", "fua", "multi_conn", "trim", "zero"] {
        assert_eq!(export[format!("can_{can}")], true, "{can}: {text}");
    }
    for is in ["can_fast_zero", "is_read_only", "is_rotational"] {
        assert_eq!(export[is], false, "{is}: {text}");
    }
    assert_eq!(export["block_size_minimum"], 1);
    assert_eq!(export["block_size_preferred"], 4096);
    assert_eq!(export["block_size_maximum"], 32 << 20);
    assert_eq!(export["contexts"][0], "base:allocation");
    let listed = succeed("nbdinfo", &["--list", &rig.rig.uri("")]);
    assert!(listed.contains("disk"), "{listed}");
    let default = succeed("nbdinfo", &["--size", &rig.rig.uri("")]);
    assert_eq!(default.trim(), DISK_BYTES.to_string());
    let unknown = run("nbdinfo", &[&rig.rig.uri("nobody")]);
    let said = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert!(
        !unknown.status.success() && said.contains("nobody"),
        "{said}"
    );
}

#[test]
fn nbdcopy_there_and_back_over_several_connections() {
    if !have(
        "nbdcopy_there_and_back_over_several_connections",
        &["nbdcopy", "nbdinfo"],
    ) {
        return;
    }
    let rig = PoolRig::new();
    let (image, back) = (rig.image("image", 1), rig.path("back"));
    let (image_text, back_text) = (image.to_str().unwrap(), back.to_str().unwrap());
    for options in [
        &["--connections=4", "--requests=32", "--flush"][..],
        &["--synchronous", "--allocated"],
        &["--connections=1", "--request-size=33554432"],
    ] {
        succeed("nbdcopy", &[options, &[image_text, &rig.uri()]].concat());
        let _ = std::fs::remove_file(&back);
        succeed("nbdcopy", &[options, &[&rig.uri(), back_text]].concat());
        same(&image, &back);
    }
    let totals = succeed("nbdinfo", &["--map", "--totals", &rig.uri()]);
    assert!(totals.contains("data"), "{totals}");
}

#[test]
fn nbdsh_reads_what_it_wrote_zeroed_and_trimmed() {
    let script = "
h.pwrite(b'a' * 8192, 4096, nbd.CMD_FLAG_FUA)
h.pwrite(b'b' * 3, 5000)
assert h.pread(10, 4998) == b'aa' + b'b' * 3 + b'a' * 5
h.zero(4096, 4096, nbd.CMD_FLAG_NO_HOLE)
h.trim(4096, 8192, nbd.CMD_FLAG_FUA)
h.flush()
h.cache(1 << 20, 0)
assert h.pread(8192, 4096) == bytearray(8192)
assert h.pread_structured(4096, 4096, lambda *chunk: None, nbd.CMD_FLAG_DF) == bytearray(4096)
h.pwrite(b'c' * 65536, 1 << 20)
found = []
def extent(context, offset, entries, error):
    found.extend(entries)
h.block_status(4 << 20, 0, extent)
spans = [(found[i], found[i + 1]) for i in range(0, len(found), 2)]
at = 0
for length, state in spans:
    data = h.pread(length, at)
    if state & 2:
        assert data == bytearray(length), 'not zero at %d' % at
    at += length
assert at == 4 << 20, at
assert any(state & 2 for length, state in spans), spans
assert any(not state & 2 for length, state in spans), spans
for bad in [lambda: h.pread(1, 64 << 20), lambda: h.pwrite(b'x', 64 << 20), lambda: h.trim(1, 64 << 20)]:
    h.set_strict_mode(0)
    try:
        bad()
        raise SystemExit('past the end')
    except nbd.Error as error:
        assert error.errnum in (22, 28), error
        assert 'past the end' in str(error) or error.errnum, error
";
    if !have("nbdsh_reads_what_it_wrote_zeroed_and_trimmed", &["nbdsh"]) {
        return;
    }
    let rig = PoolRig::new();
    succeed(
        "nbdsh",
        &["--base-allocation", "-u", &rig.uri(), "-c", script],
    );
}

#[test]
fn qemu_img_converts_compares_and_maps() {
    if !have(
        "qemu_img_converts_compares_and_maps",
        &["qemu-img", "qemu-io"],
    ) {
        return;
    }
    let rig = PoolRig::new();
    let (image, back) = (rig.image("image", 2), rig.path("back"));
    let (image_text, back_text) = (image.to_str().unwrap(), back.to_str().unwrap());
    let raw = ["-f", "raw", "-O", "raw"];
    let to_us = ["convert", "-n", "-W", "-m", "16", "--target-is-zero"];
    succeed(
        "qemu-img",
        &[&to_us[..], &raw, &[image_text, &rig.uri()]].concat(),
    );
    let compare = ["compare", "-f", "raw", "-F", "raw"];
    succeed(
        "qemu-img",
        &[&compare[..], &[image_text, &rig.uri()]].concat(),
    );
    succeed(
        "qemu-img",
        &[&["convert"][..], &raw, &[&rig.uri(), back_text]].concat(),
    );
    same(&image, &back);
    // What is mapped as zero is zero: the map drives a second copy.
    let map = succeed(
        "qemu-img",
        &["map", "--output=json", "-f", "raw", &rig.uri()],
    );
    let extents: serde_json::Value = serde_json::from_str(&map).unwrap();
    let bytes = std::fs::read(&image).unwrap();
    let mut zero_bytes = 0;
    for extent in extents.as_array().unwrap() {
        let start = extent["start"].as_u64().unwrap() as usize;
        let length = extent["length"].as_u64().unwrap() as usize;
        if extent["zero"] == true {
            assert!(bytes[start..start + length].iter().all(|byte| *byte == 0));
            zero_bytes += length;
        }
    }
    assert!(
        zero_bytes > 0,
        "the backing has holes: {map}\n{}",
        succeed("nbdinfo", &["--map", &rig.uri()])
    );
    let io = |commands: &[&str]| {
        let mut arguments = vec!["-f", "raw", "--cache=none"];
        commands
            .iter()
            .for_each(|command| arguments.extend(["-c", command]));
        let uri = rig.uri();
        arguments.push(&uri);
        succeed("qemu-io", &arguments)
    };
    let said = io(&[
        "write -f -P 0x5a 1M 1M",
        "write -z -u 1M 4k",
        "write -z 1028k 4k",
        "discard 1032k 4k",
        "aio_write -P 0x3c 4M 1M",
        "aio_read 8M 1M",
        "aio_flush",
        "flush",
        "read -P 0 1M 12k",
        "read -P 0x5a 1036k 1012k",
        "read -P 0x3c 4M 1M",
        "read -P 0x3c 5242368 512",
    ]);
    assert!(!said.contains("failed"), "{said}");
}

/// A process that is ended when this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn qemu_storage_daemon_is_a_client() {
    if !have(
        "qemu_storage_daemon_is_a_client",
        &["qemu-storage-daemon", "qemu-img", "qemu-io"],
    ) {
        return;
    }
    let rig = PoolRig::new();
    let image = rig.image("image", 3);
    let socket = rig.path("qsd");
    let child = Command::new("qemu-storage-daemon")
        .arg("--blockdev")
        .arg(format!(
            "driver=nbd,node-name=disk,export=disk,server.type=unix,server.path={}",
            rig.rig.socket.display()
        ))
        .arg("--nbd-server")
        .arg(format!("addr.type=unix,addr.path={}", socket.display()))
        .args([
            "--export",
            "type=nbd,id=e,node-name=disk,name=disk,writable=on",
        ])
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let mut daemon = Running(child);
    let start = Instant::now();
    while !socket.exists() {
        assert!(daemon.0.try_wait().unwrap().is_none(), "it ended");
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "it does not listen"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    let uri = format!("nbd+unix:///disk?socket={}", socket.display());
    let image_text = image.to_str().unwrap();
    let convert = ["convert", "-n", "-f", "raw", "-O", "raw", image_text];
    succeed("qemu-img", &[&convert[..], &[&uri]].concat());
    let compare = ["compare", "-f", "raw", "-F", "raw", image_text];
    succeed("qemu-img", &[&compare[..], &[&rig.uri()]].concat());
    succeed("qemu-img", &[&compare[..], &[&uri]].concat());
}

#[test]
fn nbdkit_and_nbd_client_are_clients() {
    let test = "nbdkit_and_nbd_client_are_clients";
    if have(test, &["nbdkit", "nbdcopy"]) {
        let rig = PoolRig::new();
        let (image, back) = (rig.image("image", 4), rig.path("back"));
        let run = format!(
            "nbdcopy {} \"$uri\" && nbdcopy \"$uri\" {} && nbdinfo --map \"$uri\" >/dev/null",
            image.display(),
            back.display()
        );
        let uri = format!("uri={}", rig.uri());
        succeed(
            "nbdkit",
            &["--exit-with-parent", "-U", "-", "nbd", &uri, "--run", &run],
        );
        same(&image, &back);
    }
    if have(test, &["nbd-client"]) {
        let rig = PoolRig::new();
        let socket = rig.rig.socket.to_str().unwrap();
        let listed = succeed("nbd-client", &["-l", "-unix", socket]);
        assert!(listed.contains("disk"), "{listed}");
    }
}

#[test]
fn fio_verifies_at_depth_32() {
    let test = "fio_verifies_at_depth_32";
    if !have(test, &["fio"]) {
        return;
    }
    if !succeed("fio", &["--enghelp"]).contains("nbd") {
        return skip(test, "this fio has no nbd engine");
    }
    let rig = PoolRig::new();
    let uri = format!("--uri={}", rig.uri());
    for sizes in ["--bsrange=4k-128k", "--bs=4k", "--bs=512"] {
        succeed(
            "fio",
            &[
                "--name=verify",
                "--ioengine=nbd",
                &uri,
                "--rw=randwrite",
                "--iodepth=32",
                sizes,
                "--size=48m",
                "--io_size=48m",
                "--verify=crc32c",
                "--verify_fatal=1",
                "--do_verify=1",
                "--fsync=64",
                "--randrepeat=0",
                "--verify_state_save=0",
            ],
        );
    }
}
