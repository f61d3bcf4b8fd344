//! One case tried: pages written through a front end while cuts are taken, and what the cuts left
//! checked.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use forebay_serve::vhost::{VhostUserOptions, VhostUserServer};

use super::arrivals::Notes;
use super::cases::{Case, Expectation, FrontEnd};
use super::machine::{Cut, Machine};
use super::mounted::Looped;
use crate::loop_device::must;
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
const QUEUE: &[&str] = &[
    "logical_block_size",
    "max_sectors_kb",
    "max_hw_sectors_kb",
    "max_segments",
    "max_segment_size",
    "atomic_write_unit_max_bytes",
];

/// Cuts, and images of each.
fn numbers(is_quick: bool) -> (usize, usize) {
    match is_quick {
        true => (3, 2),
        false => (12, 4),
    }
}

/// A program that is killed when this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only where it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Trial {
    /// Tries it.
    ///
    /// # Errors
    /// Something could not be done, or a signal came.
    pub fn run(case: &Case, scratch: &Scratch, is_quick: bool, seed: u64) -> Result<Trial> {
        let mut rng = Rng::with_seed(seed);
        let folder = scratch.new_folder("torn")?;
        let machine = match case.is_plain {
            true => Machine::plain(case.disk_bytes(), case.page_bytes),
            false => Machine::cached(POOL_BYTES, case.disk_bytes(), case.page_bytes)?,
        };
        let env = TestEnv {
            case,
            scratch,
            folder: &folder,
        };
        let (cuts, images) = numbers(is_quick);
        let trial = match case.front_end {
            FrontEnd::Loop { is_direct } => {
                let (cuts, arrived, queue) = env.cut_loop(&machine, is_direct, cuts, &mut rng)?;
                drop(machine);
                let torn = env.verify_loop(&cuts, images, &mut rng)?;
                Trial {
                    images: (cuts.len() * images) as u64,
                    torn,
                    arrived,
                    queue,
                }
            }
            FrontEnd::Vhost => {
                let (cuts, arrived, queue) = env.cut_guest(&machine, cuts, &mut rng)?;
                drop(machine);
                let torn = env.verify_guest(&cuts, images, &mut rng)?;
                Trial {
                    images: (cuts.len() * images) as u64,
                    torn,
                    arrived,
                    queue,
                }
            }
        };
        std::fs::remove_dir_all(&folder)?;
        Ok(trial)
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
        if !path.exists() {
            std::fs::create_dir(&path)?;
        }
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
        machine: &Machine,
        is_direct: bool,
        cuts: usize,
        rng: &mut Rng,
    ) -> Result<Cuts> {
        let (file, place) = (self.directory("file")?, self.directory("mounted")?);
        let mut looped = Looped::new(Arc::clone(&machine.device), &file, is_direct)?;
        if self.case.is_stable {
            looped.keep_pages_stable()?;
        }
        let make = self.case.make();
        must(make[0], &[&make[1..], &[looped.device()]].concat())?;
        looped.mount(self.case.file_system, self.case.options(), &place)?;
        let place = place.to_string_lossy();
        let made = self.pages(&self.case.make_arguments(&place))?.output()?;
        if !made.status.success() {
            return Err(String::from_utf8_lossy(&made.stderr).into());
        }
        machine.device.take();
        let writing = self.pages(&self.case.write_arguments(&place, rng.u64(..)))?;
        let writing = Running({ writing }.spawn()?);
        let taken = self.take_cuts(machine, cuts, rng)?;
        let arrived = machine.device.take();
        drop(writing);
        let queue = QUEUE
            .iter()
            .map(|name| format!("{name} {}", looped.queue(name)));
        let queue = queue.collect::<Vec<_>>().join(", ");
        Ok((taken, arrived, queue))
    }

    /// Cuts at random moments; of a control, when a page is there in part.
    fn take_cuts(&self, machine: &Machine, cuts: usize, rng: &mut Rng) -> Result<Vec<Cut>> {
        forebay_harness::sleep(WARM_UP)?;
        let mut taken = Vec::new();
        for _ in 0..cuts {
            forebay_harness::sleep(Duration::from_millis(rng.u64(BETWEEN_CUTS_MS)))?;
            taken.push(match self.case.expectation {
                Expectation::Torn => machine.cut_within_a_page()?,
                Expectation::Whole | Expectation::Open => machine.cut(),
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
                let machine = Machine::recover(cut, rng, &pool)?;
                let mut looped = Looped::new(Arc::clone(&machine.device), &file, true)?;
                looped.mount(self.case.file_system, self.case.options(), &place)?;
                let arguments = self.case.verify_arguments(&place.to_string_lossy());
                let output = self.pages(&arguments)?.output()?;
                let text = [output.stdout, output.stderr].concat();
                torn += torn_pages(output.status.code(), &String::from_utf8_lossy(&text))?;
                drop(looped);
                drop(machine);
            }
        }
        Ok(torn)
    }

    fn boot(&self, sockets: Vec<PathBuf>) -> Result<Guest> {
        let options = GuestOptions {
            disks: sockets.into_iter().map(Disk::Vhost).collect(),
            ..GuestOptions::default()
        };
        Guest::boot(self.scratch, &options)
    }

    fn mount(&self, device: &str) -> String {
        let (file_system, options) = (self.case.file_system, self.case.options());
        format!("mount -t {file_system} -o {options} {device} /mnt/a")
    }

    fn cut_guest(&self, machine: &Machine, cuts: usize, rng: &mut Rng) -> Result<Cuts> {
        let socket = self.folder.join("socket");
        let device = Arc::clone(&machine.device);
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
        let queue = QUEUE
            .iter()
            .zip(values.lines())
            .map(|(name, value)| format!("{name} {value}"));
        let queue = queue.collect::<Vec<_>>().join(", ");
        machine.device.take();
        let arguments = self.case.write_arguments("/mnt/a", rng.u64(..));
        guest.start(&format!("exec $GUEST {arguments}"))?;
        let taken = self.take_cuts(machine, cuts, rng)?;
        let arrived = machine.device.take();
        guest.cut_power()?;
        Ok((taken, arrived, queue))
    }

    fn verify_guest(&self, cuts: &[Cut], images: usize, rng: &mut Rng) -> Result<u64> {
        let mut torn = 0;
        for (index, cut) in cuts.iter().enumerate() {
            // All images of a cut are disks of one guest.
            let mut served = Vec::new();
            for image in 0..images {
                let name = |kind: &str| self.folder.join(format!("{kind}-{index}-{image}"));
                let machine = Machine::recover(cut, rng, &name("pool"))?;
                let socket = name("socket");
                let device = Arc::clone(&machine.device);
                let server = VhostUserServer::start(device, &socket, VhostUserOptions::default())?;
                served.push((socket, server, machine));
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
        Some(1) => Ok(text
            .lines()
            .filter(|line| line.starts_with("page "))
            .count() as u64),
        status => Err(format!("the pages cannot be verified: {status:?}: {text}").into()),
    }
}
