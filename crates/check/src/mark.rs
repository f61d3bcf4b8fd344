//! Backings by their marks alone, when the pool is lost.

use crate::image::Image;
use crate::oracle::{BlockStates, Contents, Found};
use crate::pool;
use crate::scenario::Shape;
use forebay::Backing;
use forebay::internals::{Mark, MarkState};
use std::collections::HashSet;

/// One image in so many is also verified with its pool lost.
const LOST_ONE_IN: u64 = 16;

/// Whether an image of this hash is.
pub fn may_be_lost(shape: &Shape, hash: u64) -> bool {
    // What lies behind the odd end of a volume is the backing's own.
    shape.engine.is_none() && shape.odd_end().is_none() && hash.is_multiple_of(LOST_ONE_IN)
}

/// Whether each backing of an image says that it has everything.
pub fn are_whole(image: &Image) -> bool {
    let mut marks = image.marks.iter().map(|mark| Mark::decode(mark));
    let is_whole = |mark: Option<Mark>| mark.is_some_and(|mark| mark.state == MarkState::Whole);
    !image.marks.is_empty() && marks.all(is_whole)
}

/// The pool of an image is lost, and a new one is made: each backing is refused, or alone has
/// everything that was acknowledged.
pub fn verify_lost(
    shape: &Shape,
    image: &Image,
    legal: &HashSet<BlockStates>,
    contents: &Contents,
) -> Result<(), String> {
    let stores = image.crash_stores(shape, 0);
    let admitted = pool::admitted(shape, |volume| Backing::from_store(stores[volume].clone()))?;
    if !admitted.iter().any(|admitted| *admitted) {
        return Ok(());
    }
    let found: Found = image
        .stores
        .iter()
        .flat_map(|bytes| bytes.chunks(shape.block_bytes).take(shape.volume_blocks))
        .map(<[u8]>::to_vec)
        .collect();
    let ids: Vec<Option<u32>> = found.iter().map(|bytes| contents.find(bytes)).collect();
    let agrees = |state: &BlockStates| {
        let mut blocks = state.iter().zip(&ids).enumerate();
        blocks.all(|(block, (want, have))| {
            !admitted[block / shape.volume_blocks] || Some(*want) == *have
        })
    };
    if legal.iter().any(agrees) {
        return Ok(());
    }
    Err(format!(
        "the pool is lost, and a new one is admitted to volumes {admitted:?}, which alone lack what \
         was acknowledged"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::Templates;

    #[test]
    fn a_lost_pool_is_noticed_by_the_mark_alone() {
        let shape = Shape::smallest(false);
        let mut image = Templates::default().get(&shape).unwrap().clone();
        let mut contents = Contents::default();
        let mut state = |bytes: &[Vec<u8>]| -> BlockStates {
            let blocks = bytes
                .iter()
                .flat_map(|bytes| bytes.chunks(shape.block_bytes));
            blocks
                .map(|bytes| contents.intern(bytes, || String::from("a test")))
                .collect()
        };
        let as_it_is = HashSet::from([state(&image.stores)]);
        let mut acknowledged = image.stores.clone();
        acknowledged[0][0] ^= 1;
        let acknowledged = HashSet::from([state(&acknowledged)]);
        verify_lost(&shape, &image, &acknowledged, &contents).expect("refused");
        image.marks.clear();
        verify_lost(&shape, &image, &as_it_is, &contents).expect("it has everything");
        verify_lost(&shape, &image, &acknowledged, &contents).expect_err("admitted");
    }
}
