//! Makes the members of a mirror say the same, before recovery rests anything on what one of them says alone: if
//! power failed again and that one died, the others would have half of what was decided.

use std::collections::BTreeMap;

use forebay_pmem::Region;

use crate::error::Result;
use crate::log::read_record;
use crate::log::record::Records;
use crate::media::Media;
use crate::media::copies::are_same_lines;
use crate::media::incarnation::{self, Incarnation};
use crate::media::layout::{CheckpointLine, IncarnationLine, LINE_BYTES};
use crate::media::salt::Salt;

/// Streams each committed record to the members that lack it; durable with the next fence.
pub(super) fn log(media: &Media, salt: Salt, log: &Records) {
    let geometry = &media.geometry;
    let main = media.main();
    let others: Vec<&Region> = media.metadata().skip(1).collect();
    let mut raw = Vec::new();
    for record in log.iter() {
        let (lane, position) = (record.lane(), record.position());
        let at = position % geometry.lane_bytes;
        let offset = geometry.lane_offset(lane) + at;
        let is_same = |other: &&Region| are_same_lines(main, other, offset, record.bytes());
        if others.iter().all(is_same) {
            continue;
        }
        let copies: Vec<_> = media
            .metadata()
            .map(|region| {
                let found = read_record(region, geometry, salt, lane, at, &mut raw);
                (region, found == Some(position))
            })
            .collect();
        let Some((whole, _)) = copies.iter().find(|(_, is_whole)| *is_whole) else {
            continue;
        };
        for (region, _) in copies.iter().filter(|(_, is_whole)| !is_whole) {
            let mut bytes = vec![0; record.bytes() as usize];
            whole.read(offset, &mut bytes);
            region.stream(offset, &bytes);
        }
    }
}

/// Strict: stores the word that covers a lane's last committed record where a member lacks it; durable with the next
/// fence.
pub(super) fn commit_words(media: &Media, salt: Salt, log: &Records) {
    let mut last: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for record in log.iter() {
        let end = record.position() + record.bytes();
        let known = last.entry(record.lane()).or_default();
        *known = (*known).max((record.position(), end));
    }
    for (lane, (position, end)) in last {
        let offset = media.geometry.commit_word(lane);
        let is_covered = |word: u64| {
            let committed = salt.committed_end(lane, word, position);
            committed.is_some_and(|committed| end <= committed)
        };
        let words = || {
            media
                .metadata()
                .map(|region| (region, region.load_u64(offset)))
        };
        let Some((_, covering)) = words().find(|(_, word)| is_covered(*word)) else {
            // It was acknowledged for certain, and the word is damaged on all.
            continue;
        };
        for (region, _) in words().filter(|(_, word)| !is_covered(*word)) {
            region.store_u64(offset, covering);
            region.flush(offset, 8);
        }
    }
}

/// Brings each member to the incarnation and the checkpoint of the one that leads, which may be one ahead of it in
/// either.
pub(super) fn checkpoint_lines(
    media: &Media,
    pool_uuid: &[u8; 16],
    current: &Incarnation,
) -> Result<()> {
    let mut others = media.metadata().skip(1);
    others.try_for_each(|other| checkpoint_lines_of(media, other, pool_uuid, current))
}

/// The same of one member: in two steps, so that at each moment one of its own checkpoint lines counts.
fn checkpoint_lines_of(
    media: &Media,
    member: &Region,
    pool_uuid: &[u8; 16],
    current: &Incarnation,
) -> Result<()> {
    let geometry = &media.geometry;
    let own = incarnation::read(member, geometry, pool_uuid);
    let stands = own.is_some_and(|own| {
        (own.number, own.checkpoint, own.checkpoint_line)
            == (current.number, current.checkpoint, current.checkpoint_line)
    });
    if stands {
        return Ok(());
    }
    let line = CheckpointLine::new(
        current.number,
        current.salt,
        current.checkpoint,
        current.sizes,
        current.scrub,
    )
    .after_round(current.round);
    let line = match current.is_confirmed {
        true => line.confirmed(),
        false => line,
    };
    let spare = own.map_or(current.checkpoint_line, |own| own.checkpoint_line ^ 1);
    member.store(geometry.checkpoint_line(spare), &line.encode());
    member.flush(geometry.checkpoint_line(spare), LINE_BYTES as usize);
    // Orders this S before the incarnation that it belongs to, and before the end of the member's own.
    media.fence()?;
    if own.is_none_or(|own| own.number != current.number) {
        let offset = geometry.incarnation_line((current.number % 2) as usize);
        member.store(offset, &IncarnationLine::new(*pool_uuid, &line).encode());
        member.flush(offset, LINE_BYTES as usize);
        // Orders the incarnation before the end of the member's own S.
        media.fence()?;
    }
    if spare != current.checkpoint_line {
        let offset = geometry.checkpoint_line(current.checkpoint_line);
        member.store(offset, &line.encode());
        member.flush(offset, LINE_BYTES as usize);
        // Orders it before the switch, which stores over the other one.
        media.fence()?;
    }
    Ok(())
}
