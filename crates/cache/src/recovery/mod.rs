//! Recovery: from whatever a crash left to a pool that holds exactly what was acknowledged.
//!
//! `scan` reads the lanes, `classify` tells committed from torn, `replay` brings the committed
//! records onto the table, `switch` starts a new incarnation. Until the switch is durable nothing that
//! the next attempt needs has been changed, so recovery may be interrupted anywhere and repeated.

mod base;
mod claims;
mod classify;
mod equalise;
mod mappings;
mod replay;
mod report;
mod scan;
mod store;
mod switch;

use std::time::Instant;

use crate::error::{Result, refused};
use crate::media::Media;
use crate::media::incarnation::{self, Incarnation};
use crate::media::layout::{INCARNATION_BYTES, ROSTER_BYTES};
use crate::media::seals::Round;
use crate::media::volumes;
use crate::mutants::{Mutant, mutated};

pub(crate) use mappings::Mappings;
use report::Notes;
pub use report::RecoveryReport;
use store::SealedTable;

/// A recovered medium, before the switch.
pub(crate) struct Recovered {
    pub(crate) mappings: Mappings,
    pub(crate) current: Incarnation,
    /// The greatest sequence seen anywhere: the next incarnation goes on after it.
    pub(crate) last_sequence: u64,
    /// The round of the lines that were sent, of a table with seals.
    pub(crate) round: Round,
    pub(crate) report: RecoveryReport,
}

/// Brings table and slots up to date. Everything is flushed and fenced, but the old incarnation still
/// holds: `switch` ends it.
pub(crate) fn recover(
    media: &Media,
    pool_uuid: &[u8; 16],
    strict: bool,
    volumes: &[u32],
    accept_loss: bool,
) -> Result<Recovered> {
    let started = Instant::now();
    let mut notes = Notes {
        report: RecoveryReport::default(),
        accept_loss,
        path: media.path(),
    };
    let current = current_incarnation(media, pool_uuid)?;
    notes.report.incarnation = current.number;
    notes.report.checkpoint_sequence = current.checkpoint;
    let log = scan::scan(media, current.salt, current.checkpoint, strict, &mut notes)?;
    let last_sequence = log
        .records
        .iter()
        .map(|record| record.sequence)
        .max()
        .unwrap_or(0)
        .max(current.checkpoint);
    let log = classify::classify(media, current.salt, strict, log, &mut notes)?;
    if media.has_copies() {
        equalise::log(media, current.salt, &log);
        if strict {
            equalise::commit_words(media, current.salt, &log);
        }
        equalise::checkpoint_lines(media, pool_uuid, &current)?;
        volumes::equalise(media);
        media.equalise_table();
    }
    let table = media
        .is_sealed()
        .then(|| SealedTable::examine(media, current.round));
    if !mutated(Mutant::SettlingSkipped) {
        settle(media)?;
    }
    let mappings = replay::replay(media, &log, table.as_ref(), volumes, &mut notes)?;
    notes.report.took = started.elapsed();
    Ok(Recovered {
        mappings,
        current,
        last_sequence,
        round: match media.is_sealed() {
            true => current.round.of_recovery(),
            false => Round::default(),
        },
        report: notes.report,
    })
}

/// Makes durable what recovery has believed so far: a killed process may have left it in the CPU's
/// cache or the kernel's, and after a failed sync the kernel's is not even written by itself. (The
/// classifier has flushed the records that nothing proves to be fenced.)
fn settle(media: &Media) -> Result<()> {
    let geometry = &media.geometry;
    let lines = (0..2).flat_map(|which| {
        [
            geometry.incarnation_line(which),
            geometry.checkpoint_line(which),
        ]
    });
    let words = (0..geometry.lanes).map(|lane| geometry.commit_word(lane));
    for member in media.members() {
        for offset in lines.clone().chain(words.clone()) {
            media.flush_found(member, offset, INCARNATION_BYTES);
        }
        if geometry.is_mirrored {
            for which in 0..2 {
                media.flush_found(member, geometry.roster_line(which), ROSTER_BYTES);
            }
        }
    }
    if !mutated(Mutant::VolumeLinesUnsettled) {
        volumes::flush_found(media);
    }
    // Orders all this before the first store that relies on it.
    media.fence()
}

/// The incarnation that is current on the first member, which alone decides.
fn current_incarnation(media: &Media, pool_uuid: &[u8; 16]) -> Result<Incarnation> {
    incarnation::read(media.main(), &media.geometry, pool_uuid).ok_or_else(|| {
        refused(
            &media.path(),
            "neither its incarnation lines nor its checkpoint lines are valid, so no log record can \
             be told from garbage",
            "the file is damaged; restore it from a copy",
        )
    })
}

pub(crate) use switch::{Kept, NewIncarnation, start_incarnation};
