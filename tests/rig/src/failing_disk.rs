//! A pool on a plain file whose disk fails, under a real kernel: a daemon that is started again without a reboot
//! sees a page cache that the disk does not have.
//!
//! After a failed write-back Linux calls the pages clean. They read as they should until they leave memory, or the
//! power fails. So a recovery that reads them and writes nothing loses what was acknowledged.

use std::time::Duration;

use forebay_harness::{Row, RunOptions, find_program};

use crate::{Disk, Guest, GuestOptions, Result, Scratch, guest};

const LIMIT: Duration = Duration::from_secs(120);
const DISK_BYTES: u64 = 64 << 20;
const LINES_SHOWN: usize = 5;
const MODULES: [&str; 2] = ["dm-mod", "dm-flakey"];

/// How it is told
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:
  forebay-verify power failing-disk")]
pub struct Arguments {
    #[command(flatten)]
    run: RunOptions,
}

/// What happens to the page cache after the pool was opened again: whether the next process after the failure ends
/// without closing the pool, and whether the power fails; the caches are dropped if not.
const CASES: [(bool, bool); 4] = [(false, false), (true, false), (false, true), (true, true)];

const FILES: &str = "--pool /mnt/a/pool --backing /mnt/b/backing";
/// A disk that can be made to fail, with a file system whose own metadata is not in the way.
const MAKE: &str = "
mkfs.ext4 -q -O ^has_journal -E lazy_itable_init=0 /dev/mapper/disk
mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 /dev/ubdb
";
const MOUNT: &str = "
mount -t ext4 -o errors=continue /dev/mapper/disk /mnt/a
mount -t ext4 /dev/ubdb /mnt/b
";
/// Before [`MAKE`], or of a disk that was made before.
const FIND: &str = "
sectors=$(blockdev --getsz /dev/ubda)
dmsetup create disk --table \"0 $sectors linear /dev/ubda 0\"
";

/// Without freezing the file system, which would write what is dirty.
fn table(target: &str) -> String {
    format!(
        "dmsetup suspend --nolockfs --noflush disk && \
         dmsetup load disk --table \"0 $(blockdev --getsz /dev/ubda) {target}\" && dmsetup resume disk"
    )
}

/// True if nothing acknowledged was lost.
pub fn run(arguments: &Arguments) -> Result<bool> {
    if let Some(why) = obstacle() {
        println!("skipped failing disk: {why}");
        return Ok(true);
    }
    let scratch = Scratch::new()?;
    let mut lost = 0;
    for (is_killed, is_cut) in CASES {
        forebay_harness::check_interrupt()?;
        let end = if is_killed { "killed" } else { "closed" };
        let then = if is_cut {
            "power cut"
        } else {
            "caches dropped"
        };
        let name = format!("failing disk, reopened, {end}, {then}");
        let wrong = try_case(&scratch, is_killed, is_cut);
        let wrong = wrong.map_err(|error| format!("{name}: {error}"))?;
        let sign = if wrong.is_empty() { "ok" } else { "FAILED" };
        println!("  {sign}: {name}: {} blocks lost", wrong.len());
        for line in wrong.iter().take(LINES_SHOWN) {
            println!("    {line}");
        }
        lost += wrong.len();
    }
    let row = |name: &str, value: usize, unit: &str| Row::new(name, value as f64, unit);
    let rows = [
        row("failing_disk_cases", CASES.len(), "cases"),
        row("failing_disk_blocks_lost", lost, "blocks"),
    ];
    forebay_harness::rows::merge(&arguments.run.report("rig"), &rows)?;
    forebay_harness::rows::print(&rows, arguments.run.json)?;
    Ok(lost == 0)
}

fn obstacle() -> Option<String> {
    guest::obstacle().or_else(|| {
        let needed = ["dmsetup", "mkfs.ext4"];
        let missing = needed.iter().find(|name| find_program(name).is_none())?;
        Some(format!("no {missing} here"))
    })
}

/// What is lost, a line a block.
fn try_case(scratch: &Scratch, is_killed: bool, is_cut: bool) -> Result<Vec<String>> {
    let folder = scratch.new_folder("failing")?;
    let disks = ["disk", "backing"].map(|name| folder.join(name));
    for disk in &disks {
        std::fs::File::create(disk)?.set_len(DISK_BYTES)?;
    }
    let options = GuestOptions {
        modules: MODULES.map(String::from).to_vec(),
        ..GuestOptions::with_disks(disks.map(Disk::File))
    };
    let mut guest = Guest::boot(scratch, &options)?;
    let fail = table("flakey /dev/ubda 0 0 600 1 error_writes");
    let script = format!(
        "set -e\n{FIND}{MAKE}{MOUNT}truncate -s 16M /mnt/b/backing; sync\n\
         $GUEST write-pool {FILES} --fail '{fail}'"
    );
    guest.must_run(&script, LIMIT)?;
    let without_close = if is_killed { "--without-close" } else { "" };
    let mend = table("linear /dev/ubda 0");
    // What it finds now comes from memory.
    let script = format!("set -e\n{mend}\n$GUEST verify-pool {FILES} {without_close}");
    guest.must_run(&script, LIMIT)?;
    let last = if is_cut {
        guest.cut_power()?;
        guest = Guest::boot(scratch, &options)?;
        format!("set -e\n{FIND}{MOUNT}$GUEST verify-pool {FILES}")
    } else {
        format!("echo 3 >/proc/sys/vm/drop_caches; $GUEST verify-pool {FILES}")
    };
    let output = guest.run(&last, LIMIT)?;
    let wrong = match output.status {
        0 => Vec::new(),
        1 => output.text.lines().map(String::from).collect(),
        status => vec![format!("status {status}: {}", output.text.trim_end())],
    };
    guest.cut_power()?;
    std::fs::remove_dir_all(folder)?;
    Ok(wrong)
}
