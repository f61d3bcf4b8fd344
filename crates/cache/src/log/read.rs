//! Reading one record back from the medium.

use forebay_pmem::Region;

use super::record::{is_whole, lines_of, tagged_position};
use crate::media::geometry::Geometry;
use crate::media::layout::LINE_BYTES;
use crate::media::salt::Salt;
use crate::mutants::{Mutant, mutated};

/// Reads what may be a record at `offset` of a lane, from one member; returns its position if it is whole.
pub(crate) fn read_record(
    region: &Region,
    geometry: &Geometry,
    salt: Salt,
    lane: u32,
    offset: u64,
    raw: &mut Vec<u8>,
) -> Option<u64> {
    let lane_bytes = geometry.lane_bytes;
    let base = geometry.lane_offset(lane);
    let tag = region.load_u64(base + offset);
    if tag == 0 {
        return None;
    }
    let lap_word = region.load_u64(base + offset + 16);
    let position = tagged_position(salt, lane, lane_bytes, offset, tag, lap_word)?;
    let bytes = lines_of(region.load_u64(base + offset + 24)) * LINE_BYTES;
    if bytes == 0 || bytes > lane_bytes - offset {
        return None;
    }
    raw.resize(bytes as usize, 0);
    region.read(base + offset, raw);
    (is_whole(salt, raw.as_mut_slice()) || mutated(Mutant::RecordCrcSkipped)).then_some(position)
}
