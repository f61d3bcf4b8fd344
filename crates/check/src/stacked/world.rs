//! The two pools and their disk: at work, crashed, and opened again.

use super::disk::{Disk, DiskState};
use forebay::{Backing, Behind, ErrorKind, Pool, PoolOptions, Region, RuntimeOptions, Volume};
use forebay_log::Options as LogOptions;
use forebay_log::shadow::{Image, ShadowDevice, ShadowState};
use forebay_pmem::shadow::{Shadow, ShadowModel};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const BLOCK: usize = 4096;
const BLOCKS: u64 = 24;
/// The smallest pool in memory but for a little.
const FRONT_BYTES: u64 = 1 << 20;
const SEGMENT_PAGES: u32 = 64;
const SEGMENTS: u32 = 12;
/// Bytes that a crash of the SSD leaves or loses together.
const UNIT: usize = 512;
/// A moment's crash is looked at in one of so many.
const MOMENT_ONE_IN: u32 = 24;

fn quiet() -> RuntimeOptions {
    RuntimeOptions::default().background(false)
}

fn log_options(rng: &mut fastrand::Rng) -> LogOptions {
    LogOptions {
        gathers: false,
        seed: Some(rng.u64(..)),
        segment_pages: Some(SEGMENT_PAGES),
        ..LogOptions::default()
    }
}

/// Is told of each image, and whether a kill led to it; says whether to go on.
pub type Tally<'t> = &'t mut dyn FnMut(u64, bool) -> bool;

/// What a block holds that was written with this number; 0 is a block of zeroes.
fn content(number: u64) -> Vec<u8> {
    number.to_le_bytes().repeat(BLOCK / 8)
}

/// What is acknowledged, and what is under way.
#[derive(Clone, Default)]
struct Oracle {
    blocks: Vec<u64>,
    under_way: Vec<(u64, u64)>,
}

impl Oracle {
    /// What the blocks are: what was acknowledged, with what was under way or without.
    fn find(&self, found: &[u64]) -> Result<Vec<u64>, String> {
        let mut done = self.blocks.clone();
        for (block, number) in &self.under_way {
            done[*block as usize] = *number;
        }
        if found == done || found == self.blocks {
            return Ok(found.to_vec());
        }
        let differs = |block: &usize| ![done[*block], self.blocks[*block]].contains(&found[*block]);
        let block = (0..found.len()).find(differs).unwrap_or_default();
        Err(format!(
            "block {block} is {}, and {} was acknowledged, {} under way; {found:?}",
            found[block], self.blocks[block], done[block]
        ))
    }
}

/// What a crash left of all three.
pub struct Left {
    front: Vec<u8>,
    behind: ShadowState,
    disk: DiskState,
    oracle: Oracle,
    is_killed: bool,
}

impl Left {
    /// Two pools that were just made.
    pub fn fresh(rng: &mut fastrand::Rng) -> Result<Left, String> {
        let pages = (SEGMENT_PAGES * (SEGMENTS + 1)) as usize;
        let device = ShadowDevice::new(ShadowState::new(Image::zeroed(pages), UNIT));
        let device = Arc::new(device);
        let log = forebay_log::create(device.clone(), log_options(rng));
        drop(log.map_err(|error| error.to_string())?);
        let shadow = Arc::new(Shadow::new(FRONT_BYTES, ShadowModel::Lines));
        let options = PoolOptions::default().runtime(quiet());
        let pool = Pool::create_on(vec![Region::on_shadow(shadow.clone())], &options);
        pool.and_then(Pool::close)
            .map_err(|error| error.to_string())?;
        Ok(Left {
            front: shadow.crash_state().durable().to_vec(),
            behind: device.state(),
            disk: DiskState::new(vec![0; BLOCKS as usize * BLOCK]),
            oracle: Oracle {
                blocks: vec![0; BLOCKS as usize],
                under_way: Vec::new(),
            },
            is_killed: false,
        })
    }

    fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.front.hash(&mut hasher);
        self.disk.bytes.hash(&mut hasher);
        self.behind.hash() ^ hasher.finish()
    }
}

/// All three, opened.
struct Opened {
    front: Pool,
    behind: Arc<Pool>,
    volume: Volume,
    lower: Volume,
}

fn open_behind(device: &Arc<ShadowDevice>, rng: &mut fastrand::Rng) -> Result<Pool, String> {
    let log = forebay_log::open(device.clone(), log_options(rng));
    let log = log.map_err(|error| format!("the log behind did not open: {error}"))?;
    let pool = Pool::on_log(log, quiet());
    pool.map_err(|error| format!("the pool behind did not open: {error}"))
}

fn open_front(shadow: &Arc<Shadow>) -> Result<Pool, String> {
    let pool = Pool::open_on(vec![Region::on_shadow(shadow.clone())], quiet());
    pool.map_err(|error| format!("the pool in front did not open: {error}"))
}

fn backing(disk: &Arc<Disk>) -> Backing {
    Backing::from_store(disk.clone())
}

impl Opened {
    fn new(
        (shadow, device, disk): (&Arc<Shadow>, &Arc<ShadowDevice>, &Arc<Disk>),
        rng: &mut fastrand::Rng,
    ) -> Result<Opened, String> {
        let behind = Arc::new(open_behind(device, rng)?);
        let front = open_front(shadow)?;
        Opened::stack(front, behind, disk)
    }

    fn stack(front: Pool, behind: Arc<Pool>, disk: &Arc<Disk>) -> Result<Opened, String> {
        let Behind {
            volume: lower,
            backing,
        } = behind
            .attach_behind(backing(disk))
            .map_err(|error| format!("the disk behind: {error}"))?;
        let volume = front
            .attach(backing)
            .map_err(|error| format!("the disk in front: {error}"))?;
        Ok(Opened {
            front,
            behind,
            volume,
            lower,
        })
    }
}

/// The number of each block.
fn read_all(volume: &Volume) -> Result<Vec<u64>, String> {
    let read = |block| {
        let mut bytes = vec![0; BLOCK];
        let read = volume.read(block, &mut bytes);
        read.map_err(|error| format!("block {block}: {error}"))?;
        let number = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
        match bytes == content(number) {
            true => Ok(number),
            false => Err(format!("block {block} is torn")),
        }
    };
    (0..BLOCKS).map(read).collect()
}

/// What a process that is killed leaves of a region.
fn view_of(shadow: &Arc<Shadow>) -> Vec<u8> {
    let region = Region::on_shadow(shadow.clone());
    let mut bytes = vec![0; FRONT_BYTES as usize];
    region.read(0, &mut bytes);
    bytes
}

type Moments = Arc<Mutex<(fastrand::Rng, Vec<Left>)>>;

/// Both pools at work.
pub struct World {
    shadow: Arc<Shadow>,
    device: Arc<ShadowDevice>,
    disk: Arc<Disk>,
    opened: Option<Opened>,
    oracle: Arc<Mutex<Oracle>>,
    moments: Moments,
    next: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn note(
    moments: &Moments,
    shadow: &Arc<Shadow>,
    (behind, disk, oracle): (&ShadowState, &Disk, &Mutex<Oracle>),
) {
    let mut moments = lock(moments);
    let (rng, noted) = &mut *moments;
    if rng.u32(..MOMENT_ONE_IN) != 0 {
        return;
    }
    let is_killed = rng.u8(..3) == 0;
    noted.push(left_by(is_killed, shadow, (behind, disk, oracle), rng));
}

/// What a kill or a power cut at this moment leaves of all three.
fn left_by(
    is_killed: bool,
    shadow: &Arc<Shadow>,
    (behind, disk, oracle): (&ShadowState, &Disk, &Mutex<Oracle>),
    rng: &mut fastrand::Rng,
) -> Left {
    let (front, behind) = match is_killed {
        true => (view_of(shadow), behind.killed(rng)),
        false => (
            shadow.crash_state().sample(rng),
            ShadowState::new(behind.cut(rng), UNIT),
        ),
    };
    Left {
        front,
        behind,
        disk: disk.state(),
        oracle: lock(oracle).clone(),
        is_killed,
    }
}

impl World {
    /// Opens what a crash has left.
    pub fn open(left: Left, rng: &mut fastrand::Rng) -> Result<World, String> {
        let shadow = Arc::new(Shadow::from_image(&left.front, ShadowModel::Lines));
        let device = Arc::new(ShadowDevice::new(left.behind));
        let disk = Arc::new(Disk::new(left.disk));
        let oracle = Arc::new(Mutex::new(left.oracle));
        let moments: Moments = Arc::new(Mutex::new((rng.fork(), Vec::new())));
        watch(&shadow, &device, (&disk, &oracle, &moments));
        let opened = Opened::new((&shadow, &device, &disk), rng)?;
        let found = read_all(&opened.volume)?;
        let blocks = lock(&oracle).find(&found)?;
        let next = blocks.iter().max().copied().unwrap_or(0) + 1;
        *lock(&oracle) = Oracle {
            blocks,
            under_way: Vec::new(),
        };
        Ok(World {
            shadow,
            device,
            disk,
            opened: Some(opened),
            oracle,
            moments,
            next,
        })
    }

    fn opened(&self) -> &Opened {
        self.opened.as_ref().expect("it is open")
    }

    /// Does something; what it was.
    pub fn step(&mut self, rng: &mut fastrand::Rng) -> Result<&'static str, String> {
        let opened = self.opened.as_ref().expect("it is open");
        let (name, done) = match rng.u8(..100) {
            0..45 => ("write", self.write(rng)),
            45..53 => ("discard", self.discard(rng)),
            53..68 => ("write back", opened.front.write_back_once().map(drop)),
            68..74 => ("reclaim", opened.front.reclaim_once(8).map(drop)),
            74..78 => ("checkpoint", opened.front.checkpoint()),
            78..84 => ("flush to the pool behind", opened.volume.flush()),
            84..89 => ("flush to the disk", opened.lower.flush()),
            89..93 => ("clean behind", opened.behind.write_back_once().map(drop)),
            93..97 => ("recycle behind", opened.behind.reclaim_once(8).map(drop)),
            _ => return self.take_apart().map(|()| "take apart"),
        };
        done.map_err(|error| format!("{name}: {error}"))?;
        let found = read_all(&self.opened().volume)?;
        let acknowledged = lock(&self.oracle).clone();
        match acknowledged.under_way.is_empty() && found == acknowledged.blocks {
            true => Ok(name),
            false => Err(format!("after {name} a block is not what it was")),
        }
    }

    fn write(&mut self, rng: &mut fastrand::Rng) -> forebay::Result<()> {
        let count = 1 + rng.u64(..6);
        let first = rng.u64(..BLOCKS - count);
        let writes: Vec<(u64, u64)> = (first..first + count)
            .filter(|_| count == 1 || rng.u8(..4) != 0)
            .map(|block| (block, self.next + block))
            .collect();
        self.next += BLOCKS;
        lock(&self.oracle).under_way.clone_from(&writes);
        let mut transaction = self.opened().volume.begin();
        for (block, number) in &writes {
            transaction.write(*block, &content(*number))?;
        }
        transaction.commit()?;
        self.acknowledge();
        Ok(())
    }

    fn discard(&mut self, rng: &mut fastrand::Rng) -> forebay::Result<()> {
        let first = rng.u64(..BLOCKS);
        let blocks = first..(first + 1 + rng.u64(..4)).min(BLOCKS);
        // A discard of several blocks is all or nothing in one transaction.
        let zeroes = blocks.clone().map(|block| (block, 0)).collect();
        lock(&self.oracle).under_way = zeroes;
        let mut transaction = self.opened().volume.begin();
        transaction.discard(blocks)?;
        transaction.commit()?;
        self.acknowledge();
        Ok(())
    }

    fn acknowledge(&self) {
        let mut oracle = lock(&self.oracle);
        for (block, number) in std::mem::take(&mut oracle.under_way) {
            oracle.blocks[block as usize] = number;
        }
    }

    /// The disk leaves both pools, the front one first, and comes back.
    fn take_apart(&mut self) -> Result<(), String> {
        let Opened {
            front,
            behind,
            volume,
            lower,
        } = self.opened.take().expect("it is open");
        let detached = front.detach(volume).and_then(|()| behind.detach(lower));
        detached.map_err(|error| format!("take apart: {error}"))?;
        let found = self.disk.state().bytes;
        let oracle = lock(&self.oracle).clone();
        for (number, bytes) in oracle.blocks.iter().zip(found.chunks(BLOCK)) {
            if bytes != content(*number) {
                return Err(String::from("the disk lacks what both pools let go"));
            }
        }
        self.opened = Some(Opened::stack(front, behind, &self.disk)?);
        Ok(())
    }

    /// Verifies what the moments since the last time could have left; false when there are enough images.
    pub fn verify_moments(
        &self,
        rng: &mut fastrand::Rng,
        tally: Tally<'_>,
    ) -> Result<bool, String> {
        let moments = std::mem::take(&mut lock(&self.moments).1);
        for left in moments {
            let kind = if left.is_killed {
                "a kill"
            } else {
                "a power cut"
            };
            let goes_on = tally(left.hash(), left.is_killed);
            verify(left, rng).map_err(|error| format!("after {kind}: {error}"))?;
            if !goes_on {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// A crash now.
    pub fn end(self, rng: &mut fastrand::Rng) -> Left {
        self.shadow.set_hook(None);
        self.device.observe(None);
        let state = self.device.state();
        left_by(false, &self.shadow, (&state, &self.disk, &self.oracle), rng)
    }
}

/// Notes some of the moments of either medium.
fn watch(
    shadow: &Arc<Shadow>,
    device: &Arc<ShadowDevice>,
    (disk, oracle, moments): (&Arc<Disk>, &Arc<Mutex<Oracle>>, &Moments),
) {
    let of_front = (
        device.clone(),
        disk.clone(),
        oracle.clone(),
        moments.clone(),
    );
    // Weak, since the region that it is set on would keep itself.
    let own = Arc::downgrade(shadow);
    shadow.set_hook(Some(Arc::new(move |_| {
        let (device, disk, oracle, moments) = &of_front;
        if let Some(shadow) = own.upgrade() {
            note(moments, &shadow, (&device.state(), disk, oracle));
        }
    })));
    let of_behind = (disk.clone(), oracle.clone(), moments.clone());
    let front = shadow.clone();
    device.observe(Some(Box::new(move |state: &ShadowState| {
        let (disk, oracle, moments) = &of_behind;
        note(moments, &front, (state, disk, oracle));
    })));
}

/// Opens what is left, and compares.
fn verify(left: Left, rng: &mut fastrand::Rng) -> Result<(), String> {
    let shadow = Arc::new(Shadow::from_image(&left.front, ShadowModel::Lines));
    let device = Arc::new(ShadowDevice::new(left.behind));
    let disk = Arc::new(Disk::new(left.disk));
    match rng.u8(..8) {
        0 => return verify_alone(open_behind(&device, rng)?, &disk, &left.oracle),
        1 => return verify_alone(open_front(&shadow)?, &disk, &left.oracle),
        _ => {}
    }
    let opened = Opened::new((&shadow, &device, &disk), rng)?;
    let found = read_all(&opened.volume)?;
    left.oracle.find(&found)?;
    if rng.u8(..4) != 0 {
        return Ok(());
    }
    let flushed = opened.volume.flush().and_then(|()| opened.lower.flush());
    flushed.map_err(|error| format!("a flush of both: {error}"))?;
    let bytes = disk.state().bytes;
    let is_there = |(number, bytes): (&u64, &[u8])| bytes == content(*number);
    match found.iter().zip(bytes.chunks(BLOCK)).all(is_there) {
        true => Ok(()),
        false => Err(String::from(
            "a flush of both left the disk without a block",
        )),
    }
}

/// Either pool without the other is refused, or has everything.
fn verify_alone(pool: Pool, disk: &Arc<Disk>, oracle: &Oracle) -> Result<(), String> {
    match pool.attach(backing(disk)) {
        Ok(volume) => {
            let found = read_all(&volume)?;
            let alone = |error| format!("a pool was taken without the other: {error}");
            oracle.find(&found).map(drop).map_err(alone)
        }
        Err(error) if matches!(error.kind(), ErrorKind::Stale { .. }) => Ok(()),
        Err(error) => Err(format!("a pool without the other: {error}")),
    }
}
