//! What a mirror must refuse: one of two members alone, while nothing says that the other one is gone, and of three and
//! more those of which two are missing, whatever is said; and members that were served without each other.

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

/// `image` without these members.
fn without(image: &Image, gone: &[usize]) -> Image {
    let media = image.media.iter().enumerate();
    let left = media.filter(|(member, _)| !gone.contains(member));
    Image {
        media: left.map(|(_, bytes)| bytes.clone()).collect(),
        ..image.clone()
    }
}

/// Verifies that of an image of members that are all in, too few are refused, and all of them after some were served
/// without each other.
pub fn verify_refusals(shape: &Shape, image: &Image) -> std::result::Result<(), String> {
    let members = image.media.len();
    if members < 2 || members != shape.members {
        return Ok(());
    }
    let is_told = members == 2;
    let mut number = 0;
    let mut next = || {
        number += 1;
        number
    };
    for one in 0..members {
        match is_told {
            true => {
                let alone = without(image, &[one]);
                let opened = opened(shape, &alone, next(), false);
                must_refuse("a member alone", opened)?;
            }
            false => {
                for another in 0..one {
                    let few = without(image, &[one, another]);
                    for says_so in [false, true] {
                        let opened = opened(shape, &few, next(), says_so);
                        must_refuse("a pool without two members", opened)?;
                    }
                }
            }
        }
    }
    let mut both = image.clone();
    for gone in [0, 1] {
        let served = opened(shape, &without(image, &[gone]), next(), is_told);
        let served = served.map_err(|error| format!("all but member {gone}: {error}"))?;
        // The first of them that the other history is without.
        both.media[1 - gone].clone_from(&served.media[0]);
        for (own, after) in both.media[2..].iter_mut().zip(&served.media[1..]) {
            own.clone_from(after);
        }
    }
    let opened = opened(shape, &both, next(), false);
    must_refuse("a pool of two histories", opened)
}
