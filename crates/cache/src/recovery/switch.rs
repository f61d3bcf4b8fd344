//! The switch: one line ends the old incarnation and starts a new one.
//!
//! Before it is durable, a crash finds the old incarnation with all its records. After it, nothing that
//! was written earlier has a valid tag, so nothing rejected or stale is ever valid again.

use forebay_pmem::Region;

use crate::error::Result;
use crate::media::Media;
use crate::media::incarnation;
use crate::media::layout::{CheckpointLine, INCARNATION_BYTES, IncarnationLine, ScrubMark};
use crate::media::salt::Salt;
use crate::media::seals::Round;
use crate::mutants::{Mutant, mutated};

/// What the new incarnation starts with.
pub(crate) struct NewIncarnation {
    pub(crate) incarnation: u64,
    pub(crate) salt: Salt,
    /// Sequences of the new incarnation are greater.
    pub(crate) sequence: u64,
    /// The checkpoint line that the next checkpoint overwrites.
    pub(crate) next_checkpoint_line: usize,
    pub(crate) kept: Kept,
}

/// What goes on from one incarnation to the next.
#[derive(Clone, Copy, Default)]
pub(crate) struct Kept {
    /// How scrubs stand.
    pub(crate) scrub: ScrubMark,
    /// The last round of lines of the table.
    pub(crate) round: Round,
}

/// Makes everything stored so far durable, then starts incarnation number `incarnation` with S = `sequence`.
/// `checkpoint_line` is the one that may be overwritten: not the one that holds the old S.
pub(crate) fn start_incarnation(
    media: &Media,
    pool_uuid: [u8; 16],
    incarnation: u64,
    old_salt: Salt,
    sequence: u64,
    checkpoint_line: usize,
    kept: Kept,
) -> Result<NewIncarnation> {
    let salt = if mutated(Mutant::SaltKept) {
        old_salt
    } else {
        fresh_salt()?
    };
    clear_torn_place(media, &pool_uuid, incarnation)?;
    let sizes = media.geometry.sizes();
    let checkpoint = CheckpointLine::new(incarnation, salt, sequence, sizes, kept.scrub);
    let checkpoint = checkpoint.after_round(kept.round);
    let offset = media.geometry.checkpoint_line(checkpoint_line);
    store_line(media.metadata(), offset, &checkpoint.encode());
    let line = IncarnationLine::new(pool_uuid, &checkpoint).encode();
    let offset = media.geometry.incarnation_line((incarnation % 2) as usize);
    if !media.is_mirrored() {
        // The other members follow or precede member 0 by one incarnation; it alone decides.
        store_line(media.others(), offset, &line);
    }
    if !mutated(Mutant::SwitchBeforeFence) {
        // Orders the replayed table and slots and the new S before the switch. A crash before it
        // repeats recovery.
        media.fence()?;
    }
    store_line(media.metadata(), offset, &line);
    // Orders the switch before the first record of the new incarnation overwrites a lane.
    media.fence()?;
    if media.geometry.is_sealed() {
        // Over a switch that was lost the next opening would go on with the incarnation before.
        media.ensure_kept(offset, &line)?;
    }
    let next_checkpoint_line = match media.is_mirrored() {
        true => confirm_mirror(media, checkpoint, checkpoint_line)?,
        false => {
            confirm(media, &checkpoint)?;
            checkpoint_line ^ 1
        }
    };
    Ok(NewIncarnation {
        incarnation,
        salt,
        sequence,
        next_checkpoint_line,
        kept,
    })
}

fn store_line<'m>(
    members: impl IntoIterator<Item = &'m Region>,
    offset: u64,
    line: &[u8; INCARNATION_BYTES],
) {
    for member in members {
        member.store(offset, line);
        member.flush(offset, INCARNATION_BYTES);
    }
}

/// All members have begun the incarnation, and say so before anything is served in it: one that is found in the
/// incarnation before is an old copy from here on. Returns which checkpoint line is to be written next.
fn confirm_mirror(media: &Media, checkpoint: CheckpointLine, written: usize) -> Result<usize> {
    let confirmed = checkpoint.confirmed().encode();
    let offset = media.geometry.checkpoint_line(written ^ 1);
    store_line(media.metadata(), offset, &confirmed);
    // Orders the confirmation before the first change that an old copy would not have.
    media.fence()?;
    Ok(written)
}

/// An incarnation line that a crash tore is still known by its checkpoint line, and its place stays torn
/// until it is this incarnation's turn. Beside the checkpoint line that is written next it would say that
/// this incarnation has begun, so it goes first.
fn clear_torn_place(media: &Media, pool_uuid: &[u8; 16], incarnation: u64) -> Result<()> {
    let offset = media.geometry.incarnation_line((incarnation % 2) as usize);
    let mut is_cleared = false;
    for member in media.members() {
        let is_damaged =
            incarnation::is_place_damaged(member, &media.geometry, pool_uuid, incarnation);
        if is_damaged && !mutated(Mutant::TornIncarnationPlaceKept) {
            member.store(offset, &[0; INCARNATION_BYTES]);
            member.flush(offset, INCARNATION_BYTES);
            is_cleared = true;
        }
    }
    if is_cleared {
        // Orders the clearing before the checkpoint line of the incarnation to come.
        media.fence()?;
    }
    Ok(())
}

/// Tells the other members that the switch is done: from here on a first member that is still in
/// the incarnation before is an old copy, and no longer one that a crash stopped on the way.
fn confirm(media: &Media, checkpoint: &CheckpointLine) -> Result<()> {
    let others = media.others();
    if others.is_empty() {
        return Ok(());
    }
    let offset = media
        .geometry
        .checkpoint_line((checkpoint.incarnation % 2) as usize);
    store_line(others, offset, &checkpoint.encode());
    // Orders the confirmation before the first change that an old first member would not have.
    media.fence()
}

/// A secret that clients' data cannot contain but by chance.
fn fresh_salt() -> Result<Salt> {
    let mut bytes = [0; 8];
    crate::repeatable::random_bytes(&mut bytes)
        .map_err(|error| crate::error::ErrorKind::Options(format!("no randomness: {error}")))?;
    Ok(Salt(u64::from_le_bytes(bytes)))
}
