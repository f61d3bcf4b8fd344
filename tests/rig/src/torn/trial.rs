//! One case tried: pages written through a front end while cuts are taken, and what the cuts left
//! checked.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use forebay_harness::{Group, must};
use forebay_serve::vhost::{VhostUserOptions, VhostUserServer};

use super::arrivals::Notes;
use super::cases::{Case, Expectation, FrontEnd};
use super::mounted::Looped;
use super::page_disk::PageDisk;
use crate::machine::Cut;
use crate::{Disk, Guest, GuestOptions, Result, Scratch, guest};

/// Less than the disks, more than the pages.
const POOL_BYTES: u64 = 32 << 20;
const BETWEEN_CUTS_MS: std::ops::Range<u64> = 20..200;
const WARM_UP: Duration = Duration::from_millis(300);
const LIMIT: Duration = Duration::from_secs(120);
/// The disk, in the guest.
const DEVICE: &str = "/dev/vda";

/// What came of a case.
pub struct Trial {
    /// Sampled states that were checked.
    pub images: u64,
    /// Torn pages in all of them.
    pub torn: u64,
    /// How the writes of pages arrived.
    pub arrived: Notes,
    /// What the kernel says of the disk.
    queue: String,
}

/// Names in `/sys/block/…/queue` that say how requests are split.
const QUEUE: [&str; 6] = [
    "logical_block_size",
    "max_sectors_kb",
    "max_hw_sectors_kb",
    "max_segments",
    "max_segment_size",
    "atomic_write_unit_max_bytes",
];

impl Trial {
    /// Tries it.
    pub fn run(case: &Case, scratch: &Scratch, is_quick: bool, seed: u64) -> Result<Trial> {
        let mut rng = Rng::with_seed(seed);
        let folder = scratch.new_folder("torn")?;
        let pool_bytes = (!case.is_plain).then_some(POOL_BYTES);
        let disk = PageDisk::new(pool_bytes, case.disk_bytes(), case.page_bytes)?;
        let env = TestEnv {
            case,
            scratch,
            folder: &folder,
        };
        // Cuts, and images of each.
        let (cuts, images) = if is_quick { (3, 2) } else { (12, 4) };
        let (cuts, arrived, queue) = match case.front_end {
            FrontEnd::Loop { is_direct } => env.cut_loop(&disk, is_direct, cuts, &mut rng)?,
            FrontEnd::Vhost => env.cut_guest(&disk, cuts, &mut rng)?,
        };
        drop(disk);
        let torn = match case.front_end {
            FrontEnd::Loop { .. } => env.verify_loop(&cuts, images, &mut rng)?,
            FrontEnd::Vhost => env.verify_guest(&cuts, images, &mut rng)?,
        };
        std::fs::remove_dir_all(&folder)?;
        Ok(Trial {
            images: (cuts.len() * images) as u64,
            torn,
            arrived,
            queue,
        })
    }

    /// A line for people.
    pub fn line(&self, case: &Case, is_as_expected: bool) -> String {
        let sign = if is_as_expected { "ok" } else { "FAILED" };
        let Trial { images, torn, .. } = self;
        format!(
            "  {sign}: {}: {torn} torn pages in {images} states; writes arrived as {}; {}",
            case.name, self.arrived, self.queue
        )
    }
}

/// A case and where it works.
struct TestEnv<'a> {
    case: &'a Case,
    scratch: &'a Scratch,
    folder: &'a Path,
}

type Cuts = (Vec<Cut>, Notes, String);

impl TestEnv<'_> {
    fn directory(&self, name: &str) -> Result<PathBuf> {
        let path = self.folder.join(name);
        std::fs::create_dir_all(&path)?;
        Ok(path)
    }

    /// Runs the program of pages on this machine.
    fn pages(&self, arguments: &str) -> Result<Command> {
        let mut command = Command::new(guest::guest_program()?);
        command.args(arguments.split(' ')).stdin(Stdio::null());
        Ok(command)
    }

    fn cut_loop(
        &self,
        disk: &PageDisk,
        is_direct: bool,
        cuts: usize,
        rng: &mut Rng,
    ) -> Result<Cuts> {
        let (file, place) = (self.directory("file")?, self.directory("mounted")?);
        let mut looped = Looped::new(Arc::clone(&disk.device), &file, is_direct)?;
        if self.case.is_stable {
            looped.keep_pages_stable()?;
        }
        let make = self.case.make();
        must(make[0], &[&make[1..], &[looped.device()]].concat())?;
        looped.mount(self.case.file_system, self.case.options(), &place)?;
        let place = place.to_string_lossy();
        let mut make = self.pages(&self.case.make_arguments(&place))?;
        forebay_harness::output(&mut make, LIMIT)?;
        disk.device.take();
        let mut write = self.pages(&self.case.write_arguments(&place, rng.u64(..)))?;
        let mut writing = Group::start(&mut write)?;
        let taken = self.take_cuts(disk, cuts, rng)?;
        let arrived = disk.device.take();
        writing.kill()?;
        let queue = QUEUE.map(|name| format!("{name} {}", looped.queue(name)));
        Ok((taken, arrived, queue.join(", ")))
    }

    /// Cuts at random moments; of a control, when a page is there in part.
    fn take_cuts(&self, disk: &PageDisk, cuts: usize, rng: &mut Rng) -> Result<Vec<Cut>> {
        forebay_harness::sleep(WARM_UP)?;
        let mut taken = Vec::new();
        for _ in 0..cuts {
            forebay_harness::sleep(Duration::from_millis(rng.u64(BETWEEN_CUTS_MS)))?;
            taken.push(match self.case.expectation {
                Expectation::Torn => disk.cut_within_a_page()?,
                Expectation::Whole | Expectation::Open => disk.cut(),
            });
        }
        Ok(taken)
    }

    fn verify_loop(&self, cuts: &[Cut], images: usize, rng: &mut Rng) -> Result<u64> {
        let (file, place) = (self.directory("file")?, self.directory("mounted")?);
        let pool = self.folder.join("pool");
        let mut torn = 0;
        for cut in cuts {
            for _ in 0..images {
                forebay_harness::check_interrupt()?;
                let disk = PageDisk::recover(cut, rng, &pool)?;
                let mut looped = Looped::new(Arc::clone(&disk.device), &file, true)?;
                looped.mount(self.case.file_system, self.case.options(), &place)?;
                let arguments = self.case.verify_arguments(&place.to_string_lossy());
                let output = forebay_harness::run(&mut self.pages(&arguments)?, LIMIT)?;
                let text = output.printed + &output.complaints;
                torn += torn_pages(output.status.code(), &text)?;
            }
        }
        Ok(torn)
    }

    fn boot(&self, sockets: Vec<PathBuf>) -> Result<Guest> {
        let disks = sockets.into_iter().map(Disk::Vhost);
        Guest::boot(self.scratch, &GuestOptions::with_disks(disks))
    }

    fn mount(&self, device: &str) -> String {
        let (file_system, options) = (self.case.file_system, self.case.options());
        format!("mount -t {file_system} -o {options} {device} /mnt/a")
    }

    fn cut_guest(&self, disk: &PageDisk, cuts: usize, rng: &mut Rng) -> Result<Cuts> {
        let socket = self.folder.join("socket");
        let device = Arc::clone(&disk.device);
        let _server = VhostUserServer::start(device, &socket, VhostUserOptions::default())?;
        let mut guest = self.boot(vec![socket])?;
        let script = format!(
            "{} {DEVICE} && {} && $GUEST {}",
            self.case.make().join(" "),
            self.mount(DEVICE),
            self.case.make_arguments("/mnt/a")
        );
        guest.must_run(&script, LIMIT)?;
        let script = format!("cd /sys/block/vda/queue; head -qn1 {}", QUEUE.join(" "));
        let values = guest.run(&format!("{script} 2>/dev/null"), LIMIT)?.text;
        let mut values = values.lines();
        let queue = QUEUE.map(|name| format!("{name} {}", values.next().unwrap_or("-")));
        disk.device.take();
        let arguments = self.case.write_arguments("/mnt/a", rng.u64(..));
        guest.start(&format!("exec $GUEST {arguments}"))?;
        let taken = self.take_cuts(disk, cuts, rng)?;
        let arrived = disk.device.take();
        guest.cut_power()?;
        Ok((taken, arrived, queue.join(", ")))
    }

    fn verify_guest(&self, cuts: &[Cut], images: usize, rng: &mut Rng) -> Result<u64> {
        let mut torn = 0;
        for (index, cut) in cuts.iter().enumerate() {
            // All images of a cut are disks of one guest.
            let mut served = Vec::new();
            for image in 0..images {
                let name = |kind: &str| self.folder.join(format!("{kind}-{index}-{image}"));
                let disk = PageDisk::recover(cut, rng, &name("pool"))?;
                let socket = name("socket");
                let device = Arc::clone(&disk.device);
                let server = VhostUserServer::start(device, &socket, VhostUserOptions::default())?;
                served.push((socket, server, disk));
            }
            let sockets = served.iter().map(|(socket, ..)| socket.clone());
            let mut guest = self.boot(sockets.collect())?;
            for letter in ('a'..).take(images) {
                let script = format!(
                    "{} || exit 9; $GUEST {}; status=$?; umount /mnt/a; exit $status",
                    self.mount(&format!("/dev/vd{letter}")),
                    self.case.verify_arguments("/mnt/a")
                );
                let output = guest.run(&script, LIMIT)?;
                torn += torn_pages(Some(output.status), &output.text)?;
            }
            guest.shut_down()?;
            drop(served);
            std::fs::remove_file(self.folder.join(format!("pool-{index}-0"))).unwrap_or_default();
        }
        Ok(torn)
    }
}

/// How many pages the program of pages found torn.
fn torn_pages(status: Option<i32>, text: &str) -> Result<u64> {
    match status {
        Some(0) => Ok(0),
        Some(1) => {
            let pages = text.lines().filter(|line| line.starts_with("page "));
            Ok(pages.count() as u64)
        }
        status => Err(format!("the pages cannot be verified: {status:?}: {text}").into()),
    }
}
