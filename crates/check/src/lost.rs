//! Pages that the medium loses: while a pool runs, as a step of an actor, and in images that recovery
//! opens. A lost page reads as zeroes and is known to be lost.
//!
//! What is promised: a block whose only copy lay there is an error. A clean one comes from the backing,
//! every other one is as before, unless part of the table is lost: then what is not found there is an
//! error. Nothing becomes durable once a lost page was met, and a pool that meets one while it opens
//! refuses, and says where the medium failed.

use crate::cache::{Begins, Cache};
use crate::image::{Image, Standing, regions};
use crate::oracle::{BlockStates, Contents};
use crate::pool::{self, OpenPool};
use crate::process::Process;
use crate::scenario::{Change, Script, Shape, Step, read, write};
use crate::scheduler::Policy;
use crate::verdict::verify_known;
use crate::world::World;
use forebay::unstable::{self, BlockLocation, MediumArea, locate_block};
use forebay::{Backing, Error, ErrorKind, Volume};
use forebay_pmem::{PAGE_BYTES, PmemErrorKind};
use std::collections::HashSet;
use std::ops::Range;

/// Scenarios of a round; seeds that follow each other make one.
pub const ROUND_SCENARIOS: u64 = 12;

/// Chances in 256 that a moment's crash is looked at.
pub const CHANCES: u32 = 4;

/// Numbers of the incarnations in which an image is verified; no incarnation before it has them.
const VERIFYING: u64 = 1 << 34;

/// What is lost of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Nothing.
    Nothing,
    /// Part of a copy that its backing has as well.
    Copy,
    /// Part of its only copy.
    OnlyCopy,
    /// The table does not have it, and part of the table is lost.
    Entry,
}

impl Loss {
    /// What is lost of a block, where these pages of each member are. A mirror may be left without a member that has lost
    /// one, and has then lost what was hit on the other one of the block's two.
    pub fn of(shape: &Shape, volume: &Volume, block: u64, lost: &[Vec<u64>]) -> Loss {
        let Some(BlockLocation { is_dirty, bytes }) = locate_block(volume, block) else {
            return match forebay::unstable::is_table_lost(volume) {
                true => Loss::Entry,
                false => Loss::Nothing,
            };
        };
        let is_hit = |(member, bytes): &(usize, Range<u64>)| {
            let mut pages = lost[*member].iter();
            pages.any(|page| *page < bytes.end && bytes.start < *page + PAGE_BYTES as u64)
        };
        let has_lost = |(member, _): &(usize, Range<u64>)| !lost[*member].is_empty();
        let has_any = |pages: &&Vec<u64>| !pages.is_empty();
        let is_hit = match shape.mirrored {
            // A column, of which the others tell as long as one member alone is out.
            true if bytes.len() == 1 => lost.iter().filter(has_any).count() > 1,
            true => bytes
                .chunks(2)
                .any(|halves| halves.iter().any(is_hit) && halves.iter().all(has_lost)),
            false => bytes.iter().any(is_hit),
        };
        match (is_hit, is_dirty) {
            (false, _) => Loss::Nothing,
            (true, false) => Loss::Copy,
            (true, true) => Loss::OnlyCopy,
        }
    }

    /// Whether a read of the block may fail so.
    pub fn excuses(self, error: &Error) -> bool {
        match error.kind() {
            // Of an entry that goes while it is looked at, half may still be seen.
            ErrorKind::Corrupt { .. } => matches!(self, Loss::OnlyCopy | Loss::Entry),
            ErrorKind::Damaged { .. } => self == Loss::Entry,
            _ => false,
        }
    }
}

/// The blocks of all volumes that their backings lack.
pub fn dirty_blocks(shape: &Shape, handle: impl Fn(usize) -> Volume) -> Vec<usize> {
    let is_dirty = |block: &usize| {
        let (volume, number) = (block / shape.volume_blocks, block % shape.volume_blocks);
        locate_block(&handle(volume), number as u64).is_some_and(|found| found.is_dirty)
    };
    (0..shape.blocks()).filter(is_dirty).collect()
}

/// A page among the slots of a mirror's member goes bad, which `pick` chooses, and is met, if all members are in.
pub fn lose_slot(world: &World, pool: &OpenPool, (shape, member, pick): (&Shape, usize, u64)) {
    let standings = world.standings();
    let are_all_in = standings.iter().all(|one| *one == Standing::In);
    if standings.len() < shape.members || !are_all_in {
        return;
    }
    let map = pool.medium_map(shape, member);
    let mut areas = map.areas.iter();
    let slots = areas.find(|(area, _)| *area == MediumArea::Slots);
    let (_, slots) = slots.expect("a pool has slots");
    let page = PAGE_BYTES as u64;
    let pages = slots.start.div_ceil(page)..slots.end / page;
    let dirty = dirty_blocks(shape, |volume| pool.volume(volume));
    let number = pages.start + pick % (pages.end - pages.start);
    world.lose_page(member, number, dirty);
    unstable::load(&pool.pool, member, number * page);
}

/// A pool that has more than one page, mostly.
pub fn shape(rng: &mut fastrand::Rng) -> Shape {
    let checksums = rng.u8(..4) > 0;
    let block_bytes = [128, 512, 512, 4096][rng.usize(..4)];
    let volume_blocks = rng.usize(3..=6);
    Shape {
        block_bytes,
        checksums,
        strict: !checksums || rng.bool(),
        pages: rng.u8(..4) == 0,
        members: [1, 1, 1, 2][rng.usize(..4)],
        slots: rng.usize(9..14),
        lanes: rng.u32(1..=2),
        lane_bytes: match rng.u8(..4) {
            0 => 16384,
            _ => 4096,
        },
        volume_blocks,
        first_blocks: volume_blocks,
        fill_on_read: rng.bool(),
        verifies: rng.bool(),
        ..Shape::smallest(false)
    }
}

/// One of the pool's pages. The first ones have its table.
fn page(rng: &mut fastrand::Rng, shape: &Shape) -> (usize, u64) {
    let pages = shape.member_bytes().div_ceil(PAGE_BYTES as u64);
    match rng.u8(..4) {
        0 => (0, rng.u64(..pages.min(7))),
        _ => (rng.usize(..shape.members), rng.u64(..pages)),
    }
}

/// Some write, and one of them loses a page; all of them go on.
pub fn script(rng: &mut fastrand::Rng, shape: &Shape) -> Script {
    if rng.u8(..3) == 0 {
        return readers(rng, shape);
    }
    let mut first: Vec<Step> = (0..rng.usize(2..6)).map(|_| change(rng, shape)).collect();
    if rng.bool() {
        first.push(Step::WriteBack);
        first.extend((0..rng.usize(..3)).map(|_| change(rng, shape)));
    }
    if rng.u8(..4) == 0 {
        first.push(Step::Checkpoint);
    }
    if rng.u8(..8) > 0 {
        let (member, page) = page(rng, shape);
        first.push(Step::LosePage { member, page });
    }
    first.extend((0..rng.usize(1..5)).map(|_| after(rng, shape)));
    let second = (0..rng.usize(4..12)).map(|_| match rng.u8(..4) {
        0 => change(rng, shape),
        _ => look(rng, shape),
    });
    let mut script = vec![first, second.collect()];
    if rng.u8(..4) == 0 {
        script.push((0..rng.usize(2..6)).map(|_| after(rng, shape)).collect());
    }
    script
}

/// The process that comes after the first one, if any does: it finds what is lost by itself.
pub fn next_process(rng: &mut fastrand::Rng, shape: &Shape) -> Option<Process> {
    let actors = rng.usize(..3);
    let mut one = || (0..rng.usize(2..6)).map(|_| after(rng, shape)).collect();
    let script: Script = (0..actors).map(|_| one()).collect();
    (actors > 0).then(|| Process {
        begins: Begins::Opened,
        policy: policy(rng, actors),
        script,
        kill: None,
        closes: rng.bool(),
        is_spared: true,
    })
}

/// What one has written others read, while it loses the table.
fn readers(rng: &mut fastrand::Rng, shape: &Shape) -> Script {
    let mut first: Vec<Step> = (0..shape.volume_blocks)
        .map(|block| write(block, Change::Whole(rng.u64(..))))
        .collect();
    let page = 0;
    first.push(Step::LosePage { member: 0, page });
    let mut script = vec![first];
    for _ in 0..rng.usize(1..3) {
        script.push((0..rng.usize(6..16)).map(|_| look(rng, shape)).collect());
    }
    script
}

/// Which of the actors runs next.
pub fn policy(rng: &mut fastrand::Rng, actors: usize) -> Policy {
    match rng.u8(..3) {
        0 => Policy::random(rng, actors, 200),
        _ => Policy::windows(rng),
    }
}

/// A read.
pub fn look(rng: &mut fastrand::Rng, shape: &Shape) -> Step {
    let block = rng.usize(..shape.volume_blocks);
    match rng.u8(..8) {
        0 if block + 1 < shape.volume_blocks => Step::ReadAtomic {
            volume: 0,
            block,
            count: 2,
        },
        _ => read(block),
    }
}

/// A write.
pub fn change(rng: &mut fastrand::Rng, shape: &Shape) -> Step {
    let block = rng.usize(..shape.volume_blocks);
    let seed = rng.u64(..);
    let change = match rng.u8(..8) {
        0 => Change::Part {
            offset: rng.usize(..shape.block_bytes / 2),
            len: rng.usize(1..40),
            seed,
        },
        1 => Change::Similar(seed),
        2 => Change::Known(seed),
        3 => Change::Append {
            len: rng.usize(1..=shape.block_bytes / 3),
            seed,
        },
        4 => Change::Discard,
        _ => Change::Whole(seed),
    };
    write(block, change)
}

fn after(rng: &mut fastrand::Rng, shape: &Shape) -> Step {
    match rng.u8(..16) {
        0 => Step::WriteBack,
        1 => Step::Reclaim(rng.usize(1..4)),
        2 => Step::Checkpoint,
        3 => Step::Flush(0),
        4 => Step::Background(rng.u8(..3)),
        5 => {
            let (member, page) = page(rng, shape);
            Step::LosePage { member, page }
        }
        6 | 7 => change(rng, shape),
        _ => look(rng, shape),
    }
}

/// One of the image's pages is lost too, in half of them that have all.
pub fn lose_some(rng: &mut fastrand::Rng, shape: &Shape, image: &mut Image) {
    if image.has_lost_pages() || rng.bool() {
        return;
    }
    let (member, number) = page(rng, shape);
    let mut lost = vec![Vec::new(); image.media.len()];
    lost[member].push(number * PAGE_BYTES as u64);
    image.lose(lost);
}

/// Opens an image with lost pages, as its `hash` says with loss accepted or not. It is refused because of one of them, or everything reads as one of
/// the `legal` states has it, but for the blocks that lay there.
pub fn verify_lossy(
    shape: &Shape,
    (image, hash): (&Image, u64),
    legal: &HashSet<BlockStates>,
    contents: &Contents,
) -> Result<(), String> {
    let stores = image.crash_stores(shape, 0);
    let regions = regions(&image.shadows(shape));
    let backing = |volume: usize| Backing::from_store(stores[volume].clone());
    let accepts_loss = hash.is_multiple_of(2);
    let opened = match pool::open_or_why(shape, VERIFYING, regions, backing, accepts_loss) {
        Ok(opened) => opened,
        Err(error) => return refused_for_a_loss(&error, image),
    };
    // The second time all that is lost is known.
    for turn in ["first", "second"] {
        let mut found = Vec::new();
        for volume in 0..shape.volumes {
            for block in 0..shape.volume_blocks {
                found.push(match opened.read_block(shape, volume, block) {
                    Ok(bytes) => bytes,
                    Err(error) => {
                        let handle = opened.volume(volume);
                        let loss = Loss::of(shape, &handle, block as u64, &image.lost);
                        if !loss.excuses(&error) {
                            return Err(format!("{turn} read of block {block}: {error}: {loss:?}"));
                        }
                        None
                    }
                });
            }
        }
        verify_known(shape, &found, legal, contents)
            .map_err(|error| format!("{turn} read, pages {:?} lost: {error}", image.lost))?;
    }
    Ok(())
}

fn refused_for_a_loss(error: &Error, image: &Image) -> Result<(), String> {
    if let ErrorKind::Media(media) = error.kind()
        && let PmemErrorKind::Media { offset } = media.kind()
        && image.lost.iter().flatten().any(|page| *page == offset)
    {
        return Ok(());
    }
    let lost = &image.lost;
    Err(format!(
        "pages {lost:?} are lost, and it does not open for another reason: {error}"
    ))
}
