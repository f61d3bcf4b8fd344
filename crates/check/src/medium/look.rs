//! An image, looked at: everything is read again and again, and compared with what it may be.

use crate::cache::{Begins, Cache};
use crate::image::{Image, regions};
use crate::incarnation::caught;
use crate::oracle::{BlockStates, Contents};
use crate::pool::{self, OpenPool};
use crate::scenario::Shape;
use crate::verdict::{verify_known, whole};
use forebay::{Backing, MemberState};
use forebay_pmem::Region;
use forebay_pmem::shadow::Shadow;
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Numbers of the incarnations in which images are looked at; no process of a trial has them.
const LOOKING: u64 = 1 << 35;
const TURNS: u64 = 2;

/// What came of a look.
#[derive(Debug, Default)]
pub struct Look {
    /// Errors that the pool gave.
    pub errors: Vec<String>,
    /// Why it did not open.
    pub refusal: Option<String>,
    /// It said that something was wrong.
    pub has_told: bool,
    /// What it leaves; nothing if the pool was not opened.
    pub after: Option<Image>,
    /// Members that did not count any more and were rebuilt.
    pub rebuilt: u32,
}

/// What is right.
#[derive(Clone, Copy)]
pub struct Right<'a> {
    /// Any of these states.
    pub legal: &'a HashSet<BlockStates>,
    /// What they are made of.
    pub contents: &'a Contents,
}

/// Opens an image and reads it; evicts what can be, reads it, closes it, and does it once more. The error says what
/// read wrong. What a look leaves may be in the image that a later one of the trial looks at: each has its own `number`,
/// or an old commit word would have the salt of the pool's last process.
pub fn look_at(
    shape: &Shape,
    image: &Image,
    right: Right<'_>,
    number: u64,
) -> Result<Look, String> {
    caught(|| {
        let mut look = Look::default();
        let mut image = image.clone();
        for turn in 0..TURNS {
            let incarnation = LOOKING + number * TURNS + turn;
            let Some(after) = turn_of(shape, &image, right, &mut look, (turn, incarnation))? else {
                break;
            };
            image = after;
            look.after = Some(image.clone());
        }
        Ok(look)
    })?
}

/// Opens an image, and says what that leaves.
fn turn_of(
    shape: &Shape,
    image: &Image,
    right: Right<'_>,
    look: &mut Look,
    (turn, incarnation): (u64, u64),
) -> Result<Option<Image>, String> {
    let mut shadows = image.shadows(shape);
    let stores = image.crash_stores(shape, 0);
    let backing = |volume: usize| Backing::from_store(stores[volume].clone());
    let on = regions(&shadows);
    let opened = match pool::open(shape, Begins::Opened, incarnation, on, backing) {
        Ok(opened) => opened,
        Err(refusal) => {
            look.refusal = Some(refusal.text);
            return Ok(None);
        }
    };
    let mut read = |what: &str| {
        let found = read_each(&opened, shape, image, look);
        verify_known(shape, &found, right.legal, right.contents)
            .map_err(|error| format!("{what} of opening {turn}: {error}"))
    };
    read("the first reads")?;
    for shadow in &shadows {
        shadow.evict(0, shadow.len());
    }
    read("the second reads")?;
    match opened.scrub() {
        Ok(has_told) => look.has_told |= has_told,
        Err(error) => look.errors.push(format!("scrub: {error}")),
    }
    let evicted = opened.evict_clean(shape.slots);
    look.errors.extend(evicted.err());
    read_each_right(&opened, shape, image, (right, look))?;
    look.has_told |= opened.check().is_err();
    rebuild_each(&opened, shape, &mut shadows, look);
    let closed = opened.close();
    look.errors
        .extend(closed.err().map(|error| format!("close: {error}")));
    let states = stores.iter().map(|store| store.crash_state());
    let (stores, marks) = states
        .map(|state| (state.durable(), state.mark.durable()))
        .unzip();
    let media = shadows.iter().map(|shadow| {
        shadow.evict(0, shadow.len());
        shadow.crash_state().durable().to_vec()
    });
    Ok(Some(Image {
        media: media.collect(),
        stores,
        marks,
        lost: shadows.iter().map(|shadow| shadow.lost_pages()).collect(),
        is_replaced: false,
    }))
}

fn read_each_right(
    opened: &OpenPool,
    shape: &Shape,
    image: &Image,
    (right, look): (Right<'_>, &mut Look),
) -> Result<(), String> {
    let found = read_each(opened, shape, image, look);
    verify_known(shape, &found, right.legal, right.contents)
        .map_err(|error| format!("reads of what is left when clean blocks went: {error}"))
}

/// Rebuilds members that are out: where they are, or on something new in the place of those that are not there or have
/// lost pages.
fn rebuild_each(opened: &OpenPool, shape: &Shape, shadows: &mut Vec<Arc<Shadow>>, look: &mut Look) {
    for member in opened.pool.members() {
        if member.state != MemberState::Out {
            continue;
        }
        let number = member.number as usize;
        let blank = Arc::new(Shadow::new(shape.medium_bytes(), shape.model()));
        if shadows.len() < shape.members {
            shadows.insert(number, blank);
        } else if !shadows[number].lost_pages().is_empty() {
            shadows[number] = blank;
        }
        let region = Region::on_shadow(Arc::clone(&shadows[number]));
        let watcher = &mut |_| ControlFlow::Continue(());
        let done = opened
            .pool
            .replace_member_on(member.number, region, watcher);
        match done {
            Ok(()) => look.rebuilt += 1,
            Err(error) => look.errors.push(format!("rebuilding {number}: {error}")),
        }
    }
}

/// Every block as it reads; nothing of those that are errors.
fn read_each(
    opened: &OpenPool,
    shape: &Shape,
    image: &Image,
    look: &mut Look,
) -> Vec<Option<Vec<u8>>> {
    let all = (0..shape.volumes)
        .flat_map(|volume| (0..shape.volume_blocks).map(move |block| (volume, block)));
    let read = |(volume, block)| match opened.read_block(shape, volume, block) {
        Ok(read) => Some(whole(shape, image, (volume, block), read)),
        Err(error) => {
            look.errors
                .push(format!("read of volume {volume} block {block}: {error}"));
            None
        }
    };
    all.map(read).collect()
}
