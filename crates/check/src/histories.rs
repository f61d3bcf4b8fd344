//! What a mirror must refuse: a member alone, while nothing says that the other one is gone, and two members of which
//! each was served without the other.

use crate::image::{Image, regions};
use crate::pool;
use crate::scenario::Shape;
use forebay::{Backing, ErrorKind, Result};

/// Numbers of the incarnations of these openings.
const REFUSING: u64 = 1 << 34;

/// Opens members of `image`, without those that are missing if `without_missing`; returns what it leaves.
fn opened(shape: &Shape, image: &Image, number: u64, without_missing: bool) -> Result<Image> {
    let shadows = image.shadows(shape);
    let stores = image.crash_stores(shape, 0);
    let backing = |volume: usize| Backing::from_store(stores[volume].clone());
    let opened = pool::open_members(
        shape,
        REFUSING + number,
        regions(&shadows),
        backing,
        without_missing,
    )?;
    drop(opened);
    let durable = |shadow: &std::sync::Arc<forebay_pmem::shadow::Shadow>| {
        shadow.crash_state().durable().to_vec()
    };
    Ok(Image {
        media: shadows.iter().map(durable).collect(),
        ..image.clone()
    })
}

/// What must be refused was.
pub fn must_refuse(what: &str, result: Result<Image>) -> std::result::Result<(), String> {
    match result {
        Ok(_) => Err(format!("{what} is served")),
        Err(error) if matches!(error.kind(), ErrorKind::Refused { .. }) => Ok(()),
        Err(error) => Err(format!("{what} is not refused, but: {error}")),
    }
}

/// Verifies that of an image of two members that are both in, each alone is refused, and both after each was served
/// alone.
pub fn verify_refusals(shape: &Shape, image: &Image) -> std::result::Result<(), String> {
    let [first, second] = &image.media[..] else {
        return Ok(());
    };
    let alone = [first, second].map(|media| Image {
        media: vec![media.clone()],
        ..image.clone()
    });
    let mut served = Vec::new();
    for (number, one) in (0..).zip(&alone) {
        must_refuse("a member alone", opened(shape, one, number, false))?;
        let after = opened(shape, one, number + 2, true);
        let after = after.map_err(|error| format!("member {number} alone: {error}"))?;
        served.extend(after.media);
    }
    let both = Image {
        media: served,
        ..image.clone()
    };
    must_refuse("a pool of two histories", opened(shape, &both, 4, false))
}
