//! Pools that are lost, or come back when others have been in their place, and marks that are lost: what DATA's mark
//! says must be noticed.

use super::backing::Identities;
use super::env::{MARK_NAME, TestEnv};
use super::incarnation::{Image, Machine, caught, verify};
use super::pool::PoolImage;
use forebay::internals::{Mark, MarkState};
use forebay_harness::files::{Model, Tree};
use forebay_volatile::Content;

/// The mark that a folder has, if it is there.
fn found_in(folder: &Tree) -> Option<Mark> {
    let entry = folder.names.iter().find(|((_, name), _)| name == MARK_NAME);
    Mark::decode(folder.content(*entry?.1)?)
}

/// Whether an image's mark says that DATA has everything.
pub fn is_whole(image: &Image) -> bool {
    found_in(&image.mark).is_some_and(|mark| mark.state == MarkState::Whole)
}

/// A pool's file and the one beside it, at some moment.
#[derive(Clone)]
pub struct Pair {
    pub pool: PoolImage,
    pub side: Content,
}

impl Pair {
    /// The generation that the pool is in; 0 if it never had a volume.
    fn generation(&self) -> Result<u64, String> {
        self.pool.generation()
    }
}

/// What goes wrong with an image beside its crash.
pub enum Loss<'a> {
    /// The pool is lost, and a new one is made; the file beside it is lost too, or not.
    New(&'a PoolImage, bool),
    /// An older copy of pool and file beside is put back.
    Old(&'a Pair),
    /// DATA is a copy without its mark.
    Mark,
}

/// What the loss leads to must be noticed, or nothing is lost by it. `has_begun`: something was
/// acknowledged, or recovery had ended at least.
pub fn verify_loss(
    env: &TestEnv,
    image: &Image,
    loss: &Loss<'_>,
    identities: &Identities,
    legal: &[Model],
    has_begun: bool,
) -> Result<(), String> {
    let mut lost = image.clone();
    let mark = found_in(&image.mark);
    // A directory with nothing in it admits every pool that holds nothing of it.
    let mut must_be_refused = has_begun && !image.tree.names.is_empty();
    let what = match loss {
        Loss::New(pool, with_side) => {
            lost.pool = (*pool).clone();
            if *with_side {
                lost.side = Content::default();
            }
            must_be_refused &= mark.is_none_or(|mark| mark.state == MarkState::Open);
            "lost, and a new one made"
        }
        Loss::Old(pair) => {
            if mark.is_none_or(|mark| mark.generation <= pair.generation().unwrap_or(u64::MAX)) {
                // Two moments of one generation agree.
                return Ok(());
            }
            lost.pool.clone_from(&pair.pool);
            lost.side.clone_from(&pair.side);
            must_be_refused = false;
            "replaced by an older copy"
        }
        Loss::Mark => {
            lost.mark = Tree::default();
            "as it was, and the mark lost"
        }
    };
    if image.tree.names.is_empty() && !matches!(loss, Loss::Mark) {
        return Ok(());
    }
    let tried = attempt(env, &lost, identities).map_err(|error| format!("pool {what}: {error}"))?;
    match tried {
        None => Ok(()),
        Some(_) if must_be_refused => Err(format!("pool {what}: it is admitted")),
        Some(found) => verify(legal, &found)
            .map_err(|error| format!("pool {what}, it is admitted, and lost: {error}")),
    }
}

/// Opens a pool over a backing that it may not belong to. None if it is refused as stale, which must
/// leave everything as it was; else what recovery made of the directory.
fn attempt(env: &TestEnv, image: &Image, identities: &Identities) -> Result<Option<Tree>, String> {
    let machine = Machine::start(env, image.clone(), identities.clone());
    let mut machine = machine.map_err(|error| error.to_string())?;
    let opened = caught(|| Ok(machine.open(env, LOSS_NUMBER).map(drop)))?;
    let left = machine.look().map_err(|error| error.to_string())?;
    let Err(error) = opened else {
        return Ok(Some(left.tree));
    };
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    let kind = inner.map(forebay::Error::kind);
    if !matches!(kind, Some(forebay::ErrorKind::Stale { .. })) {
        return Err(format!("not refused as stale: {error}"));
    }
    let is_untouched =
        left.side == image.side && left.tree == image.tree && left.mark == image.mark;
    match is_untouched {
        true => Ok(None),
        false => Err(String::from("the refusal has changed something")),
    }
}

/// The number of incarnations that end here.
const LOSS_NUMBER: u64 = u64::MAX - 1;
