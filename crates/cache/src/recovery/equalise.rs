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

/// Brings members to the incarnation and the checkpoint of the one that leads, which may be one ahead of them in either.
/// In steps, so that at each moment one of a member's own checkpoint lines counts; and each step of all of them before the
/// next one of any: if power fails again and the one that leads dies, none that has both lines new stands beside one that
/// has neither, and would be taken for an old copy.
pub(super) fn checkpoint_lines(
    media: &Media,
    pool_uuid: &[u8; 16],
    current: &Incarnation,
) -> Result<()> {
    let geometry = &media.geometry;
    let stands = |own: &Incarnation| {
        (own.number, own.checkpoint, own.checkpoint_line)
            == (current.number, current.checkpoint, current.checkpoint_line)
    };
    let others = media.metadata().skip(1);
    let with_own = others.map(|member| (member, incarnation::read(member, geometry, pool_uuid)));
    let behind: Vec<_> = with_own
        .filter(|(_, own)| !own.as_ref().is_some_and(stands))
        .map(|(member, own)| Behind::new(member, own, current))
        .collect();
    let line = line_of(current);
    let store = |which: &[Behind<'_>], offset: &dyn Fn(&Behind<'_>) -> u64, bytes: &[u8]| {
        for one in which {
            one.member.store(offset(one), bytes);
            one.member.flush(offset(one), LINE_BYTES as usize);
        }
        match which.is_empty() {
            true => Ok(()),
            false => media.fence(),
        }
    };
    let spare = |one: &Behind<'_>| geometry.checkpoint_line(one.spare);
    // Orders this S before the incarnation that it belongs to, and before the end of the members' own.
    store(&behind, &spare, &line.encode())?;
    let begins: Vec<_> = behind.iter().copied().filter(|one| one.begins).collect();
    let offset = geometry.incarnation_line((current.number % 2) as usize);
    let begun = IncarnationLine::new(*pool_uuid, &line).encode();
    // Orders the incarnation before the end of the members' own S.
    store(&begins, &|_| offset, &begun)?;
    let is_elsewhere = |one: &Behind<'_>| one.spare != current.checkpoint_line;
    let moved: Vec<_> = behind.into_iter().filter(is_elsewhere).collect();
    let offset = geometry.checkpoint_line(current.checkpoint_line);
    // Orders it before the switch, which stores over the other one.
    store(&moved, &|_| offset, &line.encode())
}

/// A member that is behind in incarnation or checkpoint.
#[derive(Clone, Copy)]
struct Behind<'m> {
    member: &'m Region,
    /// Its checkpoint line that does not count.
    spare: usize,
    /// It is in another incarnation.
    begins: bool,
}

impl<'m> Behind<'m> {
    fn new(member: &'m Region, own: Option<Incarnation>, current: &Incarnation) -> Behind<'m> {
        Behind {
            member,
            spare: own.map_or(current.checkpoint_line, |own| own.checkpoint_line ^ 1),
            begins: own.is_none_or(|own| own.number != current.number),
        }
    }
}

/// The checkpoint line of an incarnation as it stands.
fn line_of(current: &Incarnation) -> CheckpointLine {
    let line = CheckpointLine::new(
        current.number,
        current.salt,
        current.checkpoint,
        current.sizes,
        current.scrub,
    )
    .after_round(current.round);
    match current.is_confirmed {
        true => line.confirmed(),
        false => line,
    }
}
