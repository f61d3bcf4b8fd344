//! Power cuts of a node of an engine of several machines, its page cache gone: etcd in a guest, its data on ext4 on a
//! disk of `forebay`, guest and daemon killed in mid-load. When they are back, every key whose put was answered is there.
//!
//! The control is a disk that answers writes and flushes before it has done them; etcd on it has to lose keys.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use forebay_harness::{
    Row, RunOptions, SeedOption, SubjectOptions, find_program, progress_bar, rows, sleep, wait_for,
};
use forebay_lab::engines::EngineName;
use forebay_serve::vhost::{VhostUserOptions, VhostUserServer};
use forebay_serve::{BlockDevice, MemoryDevice};
use rustix::process::Signal;
use serde_json::Value;

use super::early_device::EarlyDevice;
use super::file_system::{self, FileSystem};
use super::killed::{DEVICE, TestEnv};
use crate::{Disk, Guest, GuestOptions, Job, Result, Scratch, guest};

const ROUNDS: u32 = 6;
const QUICK_ROUNDS: u32 = 2;
const FILE_SYSTEM: FileSystem = FileSystem::Ext4Ordered;
/// Of the control: etcd's log takes 64 MiB at once.
const DISK_BYTES: usize = 320 << 20;
const SECTOR_BYTES: u32 = 4096;
const COPY_BYTES: usize = 1 << 20;
/// Puts of a round that are answered before the power may fail.
const WARM_PUTS: usize = 20;
const WARM_LIMIT: Duration = Duration::from_secs(180);
const LOAD_MS_MAX: u64 = 800;
const SCRIPT_LIMIT: Duration = Duration::from_secs(180);
/// Where the guest notes which puts were answered.
const REPORTS: &str = "acknowledged";
const FOUND: &str = "found";

/// A one-member etcd on the file system at /mnt/a, and `post PATH BODY`, which leaves the answer to be read from 3.
const FUNCTIONS: &str = r#"
start() {
    ip link set lo up || exit 20
    etcd --name m --data-dir /mnt/a/etcd --log-level error \
        --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
        --listen-peer-urls http://127.0.0.1:2380 --initial-advertise-peer-urls http://127.0.0.1:2380 \
        --initial-cluster m=http://127.0.0.1:2380 >/run/etcd.log 2>&1 &
    engine=$!
}
post() {
    exec 3<>/dev/tcp/127.0.0.1/2379 || return 1
    printf 'POST %s HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s' "$1" ${#2} "$2" >&3
}
is_good() {
    read -r _ status _ <&3 && [ "$status" = 200 ]
}
until_it_serves() {
    until post /v3/kv/range '{"key":"AAAA"}' 2>/dev/null && is_good; do
        kill -0 $engine || { tail -n 20 /run/etcd.log; exit 21; }
        sleep 0.2
    done
}
"#;

/// Puts from a number on, one after the other, until the power fails. Eight digits are base64 of six bytes.
const LOAD: &str = r#"
start; until_it_serves
while true; do
    printf -v key '%08d' $number
    if post /v3/kv/put "{\"key\":\"$key\",\"value\":\"$key$key$key$key\"}" && is_good; then
        echo $number >>$RIG/acknowledged
    fi
    number=$((number + 1))
done
"#;

/// Everything that is there.
const LOOK: &str = r#"
start; until_it_serves
post /v3/kv/range '{"key":"AA==","range_end":"AA=="}' || exit 22
cat <&3 >$RIG/found
kill $engine; wait $engine
umount /mnt/a || exit 23
"#;

/// etcd on a node whose power fails
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:
  forebay-verify power etcd --forebay target/checked/forebay --quick")]
pub struct Arguments {
    #[command(flatten)]
    subject: SubjectOptions,
    #[command(flatten)]
    seed: SeedOption,
    #[command(flatten)]
    run: RunOptions,
}

/// What all rounds came to.
#[derive(Debug, Default)]
struct Tally {
    rounds: u64,
    acknowledged: u64,
    losses: u64,
    clean_pools: u64,
    control_losses: u64,
}

/// True if nothing was lost, no pool was clean, and the control lost something.
///
/// # Errors
/// A guest, a daemon or etcd does not do what it has to, or a signal came.
pub fn run(arguments: &Arguments) -> Result<bool> {
    if let Some(why) = obstacle() {
        println!("skipped power etcd: {why}");
        return Ok(true);
    }
    let forebay = arguments.subject.forebay()?;
    let mut rng = Rng::with_seed(arguments.seed.seed("power etcd"));
    let rounds = arguments.run.pick(QUICK_ROUNDS, ROUNDS);
    let bar = progress_bar(u64::from(rounds) + 1);
    let scratch = Scratch::new()?;
    let mut tally = Tally::default();
    bar.set_message("etcd on forebay");
    on_forebay(&scratch, &forebay, (rounds, &mut rng), &mut |round| {
        bar.inc(1);
        tally.rounds += 1;
        tally.acknowledged += round.acknowledged;
        tally.losses += round.lost.len() as u64;
        tally.clean_pools += u64::from(round.dirty_blocks == 0);
        if let Some(key) = round.lost.first() {
            let (count, number) = (round.lost.len(), tally.rounds);
            bar.suspend(|| eprintln!("round {number}: {count} keys lost, {key} among them"));
        }
    })?;
    bar.set_message("the control");
    tally.control_losses = on_a_disk_that_lies(&scratch)?;
    bar.finish_and_clear();
    let list = rows_of(&tally);
    rows::merge(&arguments.run.report("rig"), &list)?;
    rows::print(&list, arguments.run.json)?;
    if tally.control_losses == 0 {
        eprintln!("the control lost nothing: the check is blind");
    }
    Ok(tally.losses == 0 && tally.clean_pools == 0 && tally.control_losses > 0)
}

fn obstacle() -> Option<String> {
    let how = "`scripts/setup.sh rig cluster` installs it";
    let programs = ["etcd", "ip", FILE_SYSTEM.maker()];
    let is_missing = |name: &&str| find_program(name).is_none();
    let missing = || programs.into_iter().find(is_missing);
    guest::obstacle().or_else(|| missing().map(|name| format!("no {name} here; {how}")))
}

fn rows_of(tally: &Tally) -> Vec<Row> {
    [
        ("rounds", tally.rounds, "rounds"),
        ("acknowledged", tally.acknowledged, "keys"),
        ("losses", tally.losses, "keys"),
        ("clean_pools", tally.clean_pools, "pools"),
        ("control_losses", tally.control_losses, "keys"),
    ]
    .map(|(name, value, unit)| Row::new(format!("power_etcd_{name}"), value as f64, unit))
    .into()
}

/// One cut.
struct Round {
    /// Puts of this round and those before it that were answered while daemon and guest lived.
    acknowledged: u64,
    lost: Vec<u64>,
    /// What the pool had and the disk may have lacked.
    dirty_blocks: u64,
}

fn on_forebay(
    scratch: &Scratch,
    forebay: &Path,
    (rounds, rng): (u32, &mut Rng),
    done: &mut dyn FnMut(Round),
) -> Result<()> {
    let env = TestEnv::new(scratch, forebay.to_path_buf(), EngineName::Forebay, rng)?;
    let mut server = env.serve()?;
    let mut guest = env.boot()?;
    file_system::make(&mut guest, FILE_SYSTEM, DEVICE)?;
    let mut acknowledged = BTreeSet::new();
    for index in 0..rounds {
        let first = u64::from(index) * 1_000_000;
        let job = load(&mut guest, first)?;
        let reports = guest.shared().join(REPORTS);
        warm_up(&guest, &job, WARM_PUTS)?;
        sleep(Duration::from_millis(rng.u64(..LOAD_MS_MAX)))?;
        // A guest whose disk is dead reports what proves nothing of the daemon.
        acknowledged.extend(reported(&reports)?);
        server.status_after(Signal::KILL)?;
        guest.cut_power()?;
        let dirty_blocks = env.dirty_blocks()?;
        server = env.serve()?;
        guest = env.boot()?;
        guest.must_run(&FILE_SYSTEM.mounted(DEVICE), SCRIPT_LIMIT)?;
        let found = look(&mut guest)?;
        done(Round {
            acknowledged: acknowledged.len() as u64,
            lost: lost(&acknowledged, &found),
            dirty_blocks,
        });
        guest.must_run(&FILE_SYSTEM.checked(DEVICE), SCRIPT_LIMIT)?;
        guest.must_run(&FILE_SYSTEM.mounted(DEVICE), SCRIPT_LIMIT)?;
    }
    guest.must_run("umount /mnt/a", SCRIPT_LIMIT)?;
    guest.shut_down()?;
    server.status_after(Signal::TERM).map(drop)
}

/// Keys that etcd lost, or all that it was asked for where it does not come up at all.
fn on_a_disk_that_lies(scratch: &Scratch) -> Result<u64> {
    let socket = scratch.path("lies");
    let disk = Arc::new(MemoryDevice::new(DISK_BYTES, SECTOR_BYTES));
    let early = Arc::new(EarlyDevice::new(Arc::clone(&disk) as _));
    let options = GuestOptions::with_disks([Disk::Vhost(socket.clone())]);
    let server = VhostUserServer::start(
        Arc::clone(&early) as _,
        &socket,
        VhostUserOptions::default(),
    )?;
    let mut guest = Guest::boot(scratch, &options)?;
    file_system::make(&mut guest, FILE_SYSTEM, DEVICE)?;
    let job = load(&mut guest, 0)?;
    warm_up(&guest, &job, WARM_PUTS)?;
    early.hold(true);
    let before = reported(&guest.shared().join(REPORTS))?.len();
    warm_up(&guest, &job, before + WARM_PUTS)?;
    let acknowledged: BTreeSet<u64> = reported(&guest.shared().join(REPORTS))?
        .into_iter()
        .collect();
    let left = copy_of(&disk)?;
    guest.cut_power()?;
    drop((server, early));
    let server = VhostUserServer::start(left, &socket, VhostUserOptions::default())?;
    let mut guest = Guest::boot(scratch, &options)?;
    let mounted = guest.run(&FILE_SYSTEM.mounted(DEVICE), SCRIPT_LIMIT)?;
    let found = match mounted.status {
        0 => look(&mut guest).unwrap_or_default(),
        _ => BTreeMap::new(),
    };
    guest.cut_power()?;
    drop(server);
    Ok(lost(&acknowledged, &found).len() as u64)
}

/// The bytes of a disk in another.
fn copy_of(disk: &MemoryDevice) -> Result<Arc<dyn BlockDevice>> {
    let copy = MemoryDevice::new(DISK_BYTES, SECTOR_BYTES);
    let mut buffer = vec![0; COPY_BYTES];
    for offset in (0..DISK_BYTES).step_by(COPY_BYTES) {
        disk.read_at(offset as u64, &mut buffer)?;
        copy.write_at(offset as u64, &buffer)?;
    }
    Ok(Arc::new(copy))
}

fn load(guest: &mut Guest, first: u64) -> Result<Job> {
    guest.start(&format!("{FUNCTIONS}\nnumber={first}\n{LOAD}"))
}

/// Waits until so many puts were answered.
fn warm_up(guest: &Guest, job: &Job, puts: usize) -> Result<()> {
    let reports = guest.shared().join(REPORTS);
    let warm = wait_for(WARM_LIMIT, || {
        if let Some(output) = guest.poll(job)? {
            return Err(format!("the load ended with {}: {}", output.status, output.text).into());
        }
        Ok((reported(&reports)?.len() >= puts).then_some(()))
    })?;
    let console = || guest.console_tail();
    warm.ok_or_else(|| format!("etcd did not answer {puts} puts in time:\n{}", console()).into())
}

/// The numbers of puts that were answered; a last line that is not whole was not reported yet.
fn reported(path: &Path) -> Result<Vec<u64>> {
    let text = match std::fs::read_to_string(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        read => read?,
    };
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole.lines().map(|line| Ok(line.parse()?)).collect()
}

/// What etcd has when it is started again: values by keys.
fn look(guest: &mut Guest) -> Result<BTreeMap<String, String>> {
    guest.must_run(&format!("{FUNCTIONS}\n{LOOK}"), SCRIPT_LIMIT)?;
    values_in(&std::fs::read_to_string(guest.shared().join(FOUND))?)
}

/// In an answer of HTTP.
fn values_in(answer: &str) -> Result<BTreeMap<String, String>> {
    let (_, body) = answer.split_once("\r\n\r\n").ok_or("no answer of HTTP")?;
    let told: Value = serde_json::from_str(body)?;
    let values = told["kvs"].as_array().into_iter().flatten();
    let pair = |one: &Value| {
        let text = |name: &str| one[name].as_str().map(str::to_owned);
        Some((text("key")?, text("value")?))
    };
    let pairs =
        values.map(|one| pair(one).ok_or_else(|| format!("no key and value: {one}").into()));
    pairs.collect()
}

/// Puts that were answered and are not there with their bytes.
fn lost(acknowledged: &BTreeSet<u64>, found: &BTreeMap<String, String>) -> Vec<u64> {
    let is_there = |number: &u64| {
        let key = format!("{number:08}");
        found.get(&key).is_some_and(|value| *value == key.repeat(4))
    };
    acknowledged
        .iter()
        .copied()
        .filter(|number| !is_there(number))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_put_that_was_answered_is_there_with_its_bytes_or_lost() {
        let value = |key: &str| key.repeat(4);
        let kvs = [
            ("00000001", value("00000001")),
            ("00000002", value("00000009")),
        ]
        .map(|(key, value)| serde_json::json!({"key": key, "value": value}));
        let body = serde_json::json!({"kvs": kvs, "count": "2"});
        let found = values_in(&format!("HTTP/1.0 200 OK\r\nA: b\r\n\r\n{body}")).expect("values");
        assert_eq!(lost(&BTreeSet::from([1, 2, 3]), &found), [2, 3]);
        assert!(values_in("HTTP/1.0 200 OK\r\n\r\n{\"kvs\": [{}]}").is_err());
        assert!(
            values_in("HTTP/1.0 200 OK\r\n\r\n{}")
                .expect("none")
                .is_empty()
        );
    }

    #[test]
    fn half_a_report_counts_for_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(REPORTS);
        assert!(reported(&path).expect("none yet").is_empty());
        std::fs::write(&path, "7\n8\n1").expect("written");
        assert_eq!(reported(&path).expect("read"), [7, 8]);
    }
}
