//! A pool on a plain file whose disk fails, under a real kernel: a daemon that is started again without a reboot
//! sees a page cache that the disk does not have.
//!
//! After a failed write-back Linux calls the pages clean. They read as they should until they leave memory, or the
//! power fails. So a recovery that reads them and writes nothing loses what was acknowledged.

use std::time::Duration;

use forebay_harness::{Row, RunOptions};

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

/// What happens to the page cache after the pool was opened again.
#[derive(Clone, Copy, Debug)]
struct Case {
    name: &'static str,
    /// Whether the next process after the failure ends without closing the pool.
    is_killed: bool,
    /// Whether the power fails; the caches are dropped if not.
    is_cut: bool,
}

const CASES: [Case; 4] = [
    Case {
        name: "reopened, closed, caches dropped",
        is_killed: false,
        is_cut: false,
    },
    Case {
        name: "reopened, killed, caches dropped",
        is_killed: true,
        is_cut: false,
    },
    Case {
        name: "reopened, closed, power cut",
        is_killed: false,
        is_cut: true,
    },
    Case {
        name: "reopened, killed, power cut",
        is_killed: true,
        is_cut: true,
    },
];

const FILES: &str = "--pool /mnt/a/pool --backing /mnt/b/backing";
/// A disk that can be made to fail, with a file system whose own metadata is not in the way.
const MAKE: &str = "
sectors=$(blockdev --getsz /dev/ubda)
dmsetup create disk --table \"0 $sectors linear /dev/ubda 0\"
mkfs.ext4 -q -O ^has_journal -E lazy_itable_init=0 /dev/mapper/disk
mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 /dev/ubdb
";
const MOUNT: &str = "
mount -t ext4 -o errors=continue /dev/mapper/disk /mnt/a
mount -t ext4 /dev/ubdb /mnt/b
";
/// As [`MAKE`], of a disk that was made before.
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
///
/// # Errors
/// Something could not be done, or a signal came.
pub fn run(arguments: &Arguments) -> Result<bool> {
    if let Some(why) = obstacle() {
        println!("skipped failing disk: {why}");
        return Ok(true);
    }
    let scratch = Scratch::new()?;
    let mut lost = 0;
    for case in CASES {
        forebay_harness::check_interrupt()?;
        let wrong = try_case(&scratch, case).map_err(|error| format!("{}: {error}", case.name))?;
        let sign = if wrong.is_empty() { "ok" } else { "FAILED" };
        println!(
            "  {sign}: failing disk, {}: {} blocks lost",
            case.name,
            wrong.len()
        );
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
        let missing = needed.iter().find(|name| !guest::has_program(name))?;
        Some(format!("no {missing} here"))
    })
}

/// What is lost, a line a block.
fn try_case(scratch: &Scratch, case: Case) -> Result<Vec<String>> {
    let folder = scratch.new_folder("failing")?;
    let disks = ["disk", "backing"].map(|name| folder.join(name));
    for disk in &disks {
        std::fs::File::create(disk)?.set_len(DISK_BYTES)?;
    }
    let options = GuestOptions {
        disks: disks
            .map(|path| Disk::File {
                path,
                is_synchronous: false,
            })
            .to_vec(),
        modules: MODULES.map(String::from).to_vec(),
        ..GuestOptions::default()
    };
    let mut guest = Guest::boot(scratch, &options)?;
    let fail = table("flakey /dev/ubda 0 0 600 1 error_writes");
    guest.must_run(
        &format!(
            "set -e\n{MAKE}{MOUNT}truncate -s 16M /mnt/b/backing; sync\n\
             $GUEST write-pool {FILES} --fail '{fail}'"
        ),
        LIMIT,
    )?;
    let without_close = if case.is_killed {
        "--without-close"
    } else {
        ""
    };
    let mend = table("linear /dev/ubda 0");
    // What it finds now comes from memory.
    guest.must_run(
        &format!("set -e\n{mend}\n$GUEST verify-pool {FILES} {without_close}"),
        LIMIT,
    )?;
    let last = if case.is_cut {
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
