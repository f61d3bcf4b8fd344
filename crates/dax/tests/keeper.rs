//! A keeper, and programs that know nothing of it: they open an extent, map it, store into it, end or are killed.

#![allow(unsafe_code, reason = "programs store into what they have mapped")]

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use forebay_dax::{
    CreateOptions, DaxPool, DaxRegion, ErrorKind, Keeper, KeptRegion, OpenOptions, RegionState,
    list, seal,
};

const PAGE: u64 = 4096;
const SIZE: u64 = 16 * PAGE;
const EXTENT: &str = "FOREBAY_DAX_TEST_EXTENT";
/// Long enough for anything that ends at all.
const PATIENCE: Duration = Duration::from_secs(60);

struct Place {
    _directory: tempfile::TempDir,
    pool: DaxPool,
    extent: PathBuf,
}

fn place() -> Place {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let members = [directory.path().join("a"), directory.path().join("b")];
    let pool = DaxPool::new(&members, [4; 16]);
    let created = DaxRegion::create(&pool, "r", &CreateOptions::new(SIZE)).unwrap();
    Place {
        extent: created.paths[0].clone(),
        pool,
        _directory: directory,
    }
}

/// A program that has mapped an extent, and does what it is told.
struct Program {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
}

impl Program {
    fn start(extent: &Path) -> Program {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "program",
                "--ignored",
                "--nocapture",
                "--test-threads=1",
            ])
            .env(EXTENT, extent)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let to = child.stdin.take();
        let from = BufReader::new(child.stdout.take().unwrap());
        let mut program = Program { child, to, from };
        program.expect("mapped");
        program
    }

    fn expect(&mut self, wanted: &str) {
        let mut line = String::new();
        while line.trim() != wanted {
            line.clear();
            let read = self.from.read_line(&mut line).unwrap();
            assert_ne!(read, 0, "the program ended before it said {wanted:?}");
        }
    }

    /// Stores a byte all over a page.
    fn store(&mut self, page: u64, byte: u8) {
        let to = self.to.as_mut().unwrap();
        writeln!(to, "{page} {byte}").unwrap();
        self.expect("stored");
    }

    fn end(mut self) {
        drop(self.to.take());
        assert!(self.child.wait().unwrap().success());
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
#[ignore = "the program of the other tests"]
fn program() {
    let Ok(extent) = std::env::var(EXTENT) else {
        return;
    };
    let file = File::options().read(true).write(true).open(extent).unwrap();
    let (protection, size) = (libc::PROT_READ | libc::PROT_WRITE, SIZE as usize);
    // SAFETY: a new mapping of a file that this process opened.
    let start = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            size,
            protection,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    assert_ne!(start, libc::MAP_FAILED);
    // The mapping alone keeps the extent in use.
    drop(file);
    println!("\nmapped");
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let (page, byte) = line.split_once(' ').unwrap();
        let (page, byte): (usize, u8) = (page.parse().unwrap(), byte.parse().unwrap());
        // SAFETY: inside the mapping.
        unsafe { std::ptr::write_bytes(start.cast::<u8>().add(page * 4096), byte, 4096) };
        println!("\nstored");
    }
}

/// Waits until the region stands as wanted.
fn wait(keeper: &Keeper, wanted: impl Fn(&KeptRegion) -> bool) -> KeptRegion {
    let begun = Instant::now();
    loop {
        let status = keeper.status();
        if let Some(region) = status.iter().find(|region| wanted(region)) {
            return region.clone();
        }
        assert!(begun.elapsed() < PATIENCE, "{status:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn start(place: &Place) -> Keeper {
    Keeper::start(place.pool.clone(), Duration::from_millis(100)).unwrap()
}

fn page_of(place: &Place, page: u64) -> Vec<u8> {
    let bytes = std::fs::read(&place.extent).unwrap();
    bytes[(page * PAGE) as usize..][..PAGE as usize].to_vec()
}

fn state(place: &Place) -> RegionState {
    list(&place.pool).unwrap()[0].state
}

#[test]
fn a_program_s_stores_are_covered_and_sealed_when_it_ends() {
    let place = place();
    let keeper = start(&place);
    let region = wait(&keeper, |region| region.leased);
    assert_eq!(
        (region.state, state(&place)),
        (RegionState::Sealed, RegionState::Sealed)
    );
    let mut program = Program::start(&place.extent);
    // The mark was durable before its open returned.
    assert_eq!(state(&place), RegionState::Open);
    program.store(3, 7);
    let region = wait(&keeper, |region| region.passes > 1);
    assert_eq!((region.lease_breaks, region.leased), (1, false));
    program.store(5, 9);
    program.end();
    let region = wait(&keeper, |region| region.leased);
    assert_eq!(
        (region.state, state(&place)),
        (RegionState::Sealed, RegionState::Sealed)
    );
    keeper.stop();
    let region = DaxRegion::open(&place.pool, "r", &OpenOptions::default()).unwrap();
    assert_eq!(region.verify(0..SIZE).unwrap().looked_at, SIZE / PAGE);
    region.close().unwrap();
    assert_eq!(page_of(&place, 3), [7; PAGE as usize]);
    assert_eq!(page_of(&place, 5), [9; PAGE as usize]);
}

#[test]
fn what_a_killed_program_stored_is_kept() {
    let place = place();
    let keeper = start(&place);
    wait(&keeper, |region| region.leased);
    let mut program = Program::start(&place.extent);
    program.store(1, 3);
    program.kill();
    wait(&keeper, |region| region.leased);
    keeper.stop();
    let sealed = seal(&place.pool, "r").unwrap();
    assert_eq!(sealed.pages, SIZE / PAGE);
    assert_eq!(page_of(&place, 1), [3; PAGE as usize]);
}

#[test]
fn a_region_that_a_program_has_is_not_sealed() {
    let place = place();
    let mut program = Program::start(&place.extent);
    // No keeper was there when it was opened: the seal is no authority any more.
    let error = seal(&place.pool, "r").unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Mapped { .. }), "{error}");
    assert_eq!(state(&place), RegionState::Open);
    let keeper = start(&place);
    let region = wait(&keeper, |region| region.passes > 1);
    assert_eq!(
        (region.state, state(&place)),
        (RegionState::Open, RegionState::Open)
    );
    program.store(0, 1);
    // A process of the library may have it, too, and compares every page as long as the other one has it.
    keeper.stop();
    let region = DaxRegion::open(&place.pool, "r", &OpenOptions::default()).unwrap();
    program.store(2, 8);
    region.sync(0..SIZE).unwrap();
    assert_eq!(region.verify(0..SIZE).unwrap().looked_at, SIZE / PAGE);
    let error = region.close().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Mapped { .. }), "{error}");
    program.end();
    let sealed = seal(&place.pool, "r").unwrap();
    // The keeper may have covered page 0 before it ended.
    assert!(sealed.unverified_pages <= 1, "{sealed:?}");
    assert_eq!(page_of(&place, 2), [8; PAGE as usize]);
}

#[test]
fn the_library_opens_what_a_keeper_has_under_lease() {
    let place = place();
    let keeper = start(&place);
    wait(&keeper, |region| region.leased);
    let region = DaxRegion::open(&place.pool, "r", &OpenOptions::default()).unwrap();
    assert_eq!(state(&place), RegionState::Open);
    wait(&keeper, |region| {
        region.lease_breaks == 1 && region.trouble.is_some()
    });
    region.sync(0..SIZE).unwrap();
    let sealed = region.close().unwrap();
    let region = wait(&keeper, |region| region.leased);
    assert_eq!(
        (region.state, sealed.unverified_pages),
        (RegionState::Sealed, 0)
    );
    keeper.stop();
    assert_eq!(state(&place), RegionState::Sealed);
}

/// A region that nobody ended has damage, and a program has it when a keeper comes: nobody can tell that from a store.
#[test]
fn what_a_keeper_finds_in_use_after_an_end_without_order_is_unverified() {
    let place = place();
    let region = DaxRegion::open(&place.pool, "r", &OpenOptions::default()).unwrap();
    region.sync(0..SIZE).unwrap();
    drop(region);
    let mut bytes = std::fs::read(&place.extent).unwrap();
    bytes[5 * PAGE as usize] ^= 1;
    std::fs::write(&place.extent, bytes).unwrap();
    let mut program = Program::start(&place.extent);
    let keeper = start(&place);
    let region = wait(&keeper, |region| region.passes > 0);
    assert_eq!(region.unverified_pages, 1);
    // What it stores from now on is known to be a store.
    program.store(3, 7);
    let passes = wait(&keeper, |region| region.passes > 0).passes;
    let region = wait(&keeper, |region| region.passes > passes + 1);
    assert_eq!(region.unverified_pages, 1);
    program.end();
    let region = wait(&keeper, |region| region.leased);
    assert_eq!(region.unverified_pages, 1);
    keeper.stop();
}

#[test]
fn another_file_in_an_extent_s_place_is_named_and_no_store() {
    let place = place();
    let keeper = start(&place);
    let replace = |bytes: &[u8]| {
        let other = place.extent.with_extension("other");
        std::fs::write(&other, bytes).unwrap();
        let only_own = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&other, only_own).unwrap();
        std::fs::rename(&other, &place.extent).unwrap();
    };
    wait(&keeper, |region| region.leased);
    // The reading is an opening, so that the region is open when its file is replaced.
    let mut bytes = std::fs::read(&place.extent).unwrap();
    bytes[3 * PAGE as usize..][..PAGE as usize].fill(7);
    replace(&bytes);
    wait(&keeper, |region| {
        region.leased && region.unverified_pages == 1
    });
    // And sealed, which no lease tells.
    bytes[5 * PAGE as usize] = 1;
    replace(&bytes);
    wait(&keeper, |region| {
        region.leased && region.unverified_pages == 2
    });
    keeper.stop();
    assert_eq!(page_of(&place, 3), [7; PAGE as usize]);
}

#[test]
fn a_file_that_is_cut_short_is_named_and_made_anew() {
    let place = place();
    let keeper = start(&place);
    wait(&keeper, |region| region.leased);
    let mut program = Program::start(&place.extent);
    program.store(3, 7);
    wait(&keeper, |region| region.passes > 1);
    program.end();
    wait(&keeper, |region| region.leased);
    let extent = File::options().write(true).open(&place.extent).unwrap();
    extent.set_len(SIZE / 2).unwrap();
    drop(extent);
    let is_cut = |why: &String| why.contains("cut short");
    wait(&keeper, |region| {
        region.trouble.as_ref().is_some_and(is_cut)
    });
    assert!(list(&place.pool).unwrap()[0].faults.iter().any(is_cut));
    std::fs::rename(&place.extent, place.extent.with_extension("cut")).unwrap();
    let how = OpenOptions::default().without_missing(true);
    let region = DaxRegion::open(&place.pool, "r", &how).unwrap();
    region.close().unwrap();
    wait(&keeper, |region| region.leased && region.trouble.is_none());
    keeper.stop();
    assert_eq!(page_of(&place, 3), [7; PAGE as usize]);
}
