//! Tells committed records from those of transactions that were never acknowledged.
//!
//! | label | evidence | verdict |
//! |---|---|---|
//! | `followed` | a later record stands in its lane | committed |
//! | `acknowledged` | a record carries a watermark at or above its sequence | committed |
//! | `overtaken` | a newer whole record names one of its keys | committed |
//! | `intact` | every block it names matches its check | committed (perhaps not yet acknowledged) |
//! | `torn` | none of these | dropped |
//!
//! `followed` and `overtaken` prove the record's fence: the lane, and the locks of its keys, were
//! released only after it. Its slots may since have been changed or reused, so data may not be asked.

use std::collections::{HashMap, HashSet};

use forebay_pmem::Region;

use crate::error::Result;
use crate::log::record::{ElementKind, RawRecord, RawRecords, Records};
use crate::media::Media;
use crate::media::entry::Key;
use crate::media::salt::Salt;
use crate::mutants::{Mutant, mutated};
use crate::recovery::report::Notes;

/// The committed records, in order of sequence.
pub(super) fn classify(
    media: &Media,
    salt: Salt,
    strict: bool,
    mut log: RawRecords,
    notes: &mut Notes,
) -> Result<Records> {
    let dropped = if strict && !mutated(Mutant::StrictWordIgnored) {
        beyond_commit_words(media, salt, &log, notes)?
    } else {
        torn_records(media, &log, notes)
    };
    notes.report.records_dropped = dropped.len() as u64;
    if !dropped.is_empty() {
        log.records
            .retain(|record| !dropped.contains(&record.sequence));
    }
    Ok(log.into_committed())
}

/// Strict mode: sequences of the records that their lane's commit word does not cover. One that was
/// acknowledged for certain is kept all the same: then it is the word that is damaged.
fn beyond_commit_words(
    media: &Media,
    salt: Salt,
    log: &RawRecords,
    notes: &mut Notes,
) -> Result<Vec<u64>> {
    let unproven: HashSet<u64> = unproven_records(log)
        .iter()
        .map(|record| record.sequence)
        .collect();
    let mut dropped = Vec::new();
    for record in &log.records {
        if is_below_commit_word(media, salt, record) {
            continue;
        }
        if unproven.contains(&record.sequence) || log.elements(record).is_empty() {
            dropped.push(record.sequence);
            continue;
        }
        notes.damage(format!(
            "lane {}: the commit word does not cover sequence {}, which was acknowledged",
            record.lane, record.sequence
        ))?;
    }
    notes.report.records_proven = (log.records.len() - dropped.len()) as u64;
    Ok(dropped)
}

/// The one "committed" predicate of strict mode. Of members that have the word, one that a crash kept it from
/// tells nothing.
fn is_below_commit_word(media: &Media, salt: Salt, record: &RawRecord) -> bool {
    let is_covered = |region: &Region| {
        let word = region.load_u64(media.geometry.commit_word(record.lane));
        salt.committed_end(record.lane, word, record.position)
            .is_some_and(|end| record.position + record.bytes <= end)
    };
    media.metadata().any(is_covered)
}

/// Sequences of the records that were never acknowledged.
fn torn_records(media: &Media, log: &RawRecords, notes: &mut Notes) -> Vec<u64> {
    if mutated(Mutant::DataCheckSkipped) {
        return Vec::new();
    }
    if mutated(Mutant::ClassifyByDataAlone) {
        return log
            .records
            .iter()
            .filter(|r| !is_intact(media, log, r))
            .map(|r| r.sequence)
            .collect();
    }
    let mut torn = Vec::new();
    let unproven = unproven_records(log);
    let tested = unproven.iter().flat_map(|record| log.elements(record));
    media.read_slots_ahead(tested.filter_map(|element| media.sound(element.entry)?.slot()));
    for record in unproven {
        notes.report.records_tested += 1;
        if is_intact(media, log, record) {
            flush_tested(media, log, record);
        } else {
            torn.push(record.sequence);
        }
    }
    notes.report.records_proven = log.records.len() as u64 - notes.report.records_tested;
    torn
}

/// Records whose fence nothing proves: neither `followed` nor `acknowledged` nor `overtaken`.
fn unproven_records(log: &RawRecords) -> Vec<&RawRecord> {
    let records = &log.records;
    let watermark = records
        .iter()
        .map(|record| record.acknowledged)
        .max()
        .unwrap_or(0);
    let mut last_of_lane: Vec<Option<&RawRecord>> = Vec::new();
    for record in records {
        let lane = record.lane as usize;
        if last_of_lane.len() <= lane {
            last_of_lane.resize(lane + 1, None);
        }
        if last_of_lane[lane].is_none_or(|last| record.sequence > last.sequence) {
            last_of_lane[lane] = Some(record);
        }
    }
    // All others are `followed`.
    let mut candidates: Vec<&RawRecord> = last_of_lane
        .into_iter()
        .flatten()
        .filter(|record| record.sequence > watermark)
        .collect();
    let newest = if mutated(Mutant::NewestToOldestDropped) {
        HashMap::new()
    } else {
        newest_naming(&candidates, log)
    };
    candidates.retain(|record| {
        !log.elements(record).iter().any(|element| {
            newest
                .get(&element.entry.key())
                .is_some_and(|n| *n > record.sequence)
        })
    });
    candidates
}

/// For each key of the candidates, the newest whole record that names it.
fn newest_naming(candidates: &[&RawRecord], log: &RawRecords) -> HashMap<Key, u64> {
    let oldest = candidates.iter().map(|record| record.sequence).min();
    let mut newest: HashMap<Key, u64> = candidates
        .iter()
        .flat_map(|record| log.elements(record))
        .map(|element| (element.entry.key(), 0))
        .collect();
    for record in &log.records {
        if Some(record.sequence) <= oldest {
            continue;
        }
        for element in log.elements(record) {
            if let Some(sequence) = newest.get_mut(&element.entry.key()) {
                *sequence = (*sequence).max(record.sequence);
            }
        }
    }
    newest
}

/// A record whose fence nothing proves may be whole in a cache only, where a killed process left it, or
/// one whose sync failed. What recovery believes must be durable before anything is built on it. The
/// others are: a fence that succeeded covered them, and their slots until a record that is there said
/// otherwise.
fn flush_tested(media: &Media, log: &RawRecords, record: &RawRecord) {
    if mutated(Mutant::TestedRecordNotFlushed) {
        return;
    }
    let offset =
        media.geometry.lane_offset(record.lane) + record.position % media.geometry.lane_bytes;
    media.on_metadata(|region| media.flush_found(region, offset, record.bytes as usize));
    let elements = log.elements(record).iter();
    // A delta's entry was not asked for, so it may be nonsense, which the replay refuses.
    let slots: Vec<u32> = elements
        .filter_map(|element| media.sound(element.entry)?.slot())
        .collect();
    // The columns of a row follow each other.
    for of_row in slots.chunk_by(|one, next| {
        row_of(media, *one).is_some_and(|row| row_of(media, *next) == Some(row))
    }) {
        if let Some(row) = row_of(media, of_row[0]) {
            // Each column of it matches its check, or does now.
            media.settle_parity(row);
        }
        media.flush_found_slot(of_row[0]);
    }
}

fn row_of(media: &Media, slot: u32) -> Option<u32> {
    media.column_of(slot).map(|column| column.row)
}

/// Whether everything that the record's fence had to order is there.
fn is_intact(media: &Media, log: &RawRecords, record: &RawRecord) -> bool {
    log.elements(record).iter().all(|element| {
        let covered = match element.kind {
            // Redo bytes are in the record, over a base that was fenced before.
            ElementKind::Delta { .. } => return true,
            ElementKind::Append { valid_bytes } => valid_bytes as usize,
            ElementKind::Whole => media.block_bytes(),
        };
        let Some(entry) = media.sound(element.entry) else {
            // Its record is whole, so it was written like this: the replay refuses it, aloud.
            return true;
        };
        let Some(slot) = entry.slot() else {
            return true;
        };
        media.found_copied(slot);
        if entry.is_packed() {
            return media.settle_packed(slot, entry.crc());
        }
        covered <= media.block_bytes() && media.settle_halves(slot, covered, entry.crc())
    })
}
