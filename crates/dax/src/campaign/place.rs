//! Where a fault is put.

use std::ops::Range;

use forebay_pmem::shadow::{Fault, ShadowModel};

use super::kinds::{Area, Combination, Kind};
use crate::format::{Geometry, PAGE_BYTES};

/// A fault at its place.
#[derive(Clone, Debug)]
pub struct Placed {
    pub role: usize,
    pub is_sidecar: bool,
    /// None where a page or a file is lost.
    pub fault: Option<Fault>,
    /// First byte.
    pub offset: u64,
    /// Rows whose page, parity or sums it may reach.
    pub rows: Vec<u64>,
}

/// Draws a place for a fault.
pub fn place(
    rng: &mut fastrand::Rng,
    (kind, area): Combination,
    geometry: Geometry,
    model: ShadowModel,
) -> Placed {
    let parity = geometry.parity_role();
    let is_sidecar = matches!(area, Area::PageSum | Area::RegionLine);
    let role = match area {
        Area::Extent => rng.usize(..parity),
        Area::Parity => parity,
        Area::PageSum | Area::RegionLine => rng.usize(..=parity),
    };
    let file = match is_sidecar {
        true => geometry.sidecar_bytes(role),
        false => geometry.extent_bytes(),
    };
    let own = area_of(rng, area, geometry, role);
    let unit = model.unit_bytes() as u64;
    let len = match rng.bool() && area != Area::PageSum {
        true => PAGE_BYTES,
        false => unit,
    };
    let at = rng.u64(own.clone());
    let offset = at / len * len;
    let target = other(rng, &own, file, len, offset);
    let fault = match kind {
        Kind::BitFlip => Some(Fault::BitFlip {
            offset: at,
            bit: rng.u8(..8),
        }),
        Kind::LostWrite => Some(Fault::LostWrite { offset, len }),
        Kind::MisdirectedWrite => Some(Fault::MisdirectedWrite {
            offset,
            len,
            target,
        }),
        Kind::MisdirectedReadOnce | Kind::MisdirectedRead => Some(Fault::MisdirectedRead {
            offset,
            len,
            source: target,
            is_once: kind == Kind::MisdirectedReadOnce,
        }),
        Kind::TornWrite => Some(Fault::TornWrite {
            offset: at,
            words: rng.u64(..),
        }),
        Kind::Nothing | Kind::Poison | Kind::DeadPair | Kind::OldPair => None,
    };
    let mut rows = rows_at(geometry, is_sidecar, offset..offset + len);
    if kind == Kind::MisdirectedWrite {
        rows.extend(rows_at(geometry, is_sidecar, target..target + len));
    }
    if kind.loses_bytes() {
        rows = (0..geometry.rows()).collect();
    }
    Placed {
        role,
        is_sidecar,
        fault,
        offset: at,
        rows,
    }
}

/// The bytes of an area in a role's file.
fn area_of(rng: &mut fastrand::Rng, area: Area, geometry: Geometry, role: usize) -> Range<u64> {
    let parity = geometry.parity_role();
    match area {
        Area::Extent | Area::Parity => 0..geometry.extent_bytes(),
        Area::RegionLine => 0..geometry.sum_at(0),
        Area::PageSum => {
            let extent = match role == parity {
                true => rng.usize(..parity),
                false => 0,
            };
            let first = geometry.sum_at_parity(extent, 0);
            first..first + geometry.rows() * 8
        }
    }
}

/// Another place of this length, most often in the same area.
fn other(rng: &mut fastrand::Rng, own: &Range<u64>, file: u64, len: u64, offset: u64) -> u64 {
    for _ in 0..8 {
        let area = match rng.u8(..4) {
            0 => 0..file,
            _ => own.clone(),
        };
        let target = rng.u64(area) / len * len;
        if target != offset {
            return target;
        }
    }
    (offset + len) % file
}

/// The rows whose pages or sums lie in these bytes of a file.
fn rows_at(geometry: Geometry, is_sidecar: bool, bytes: Range<u64>) -> Vec<u64> {
    if !is_sidecar {
        return (bytes.start / PAGE_BYTES..bytes.end.div_ceil(PAGE_BYTES)).collect();
    }
    let first = geometry.sum_at(0);
    let words = bytes.step_by(8).filter(|&at| at >= first);
    words
        .map(|at| (at - first) % geometry.sums_bytes() / 8)
        .filter(|&row| row < geometry.rows())
        .collect()
}
