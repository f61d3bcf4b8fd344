//! One cell: every contender in turn, round by round.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use super::files_on_disk::FilesOnDisk;
use super::row::{FilesRow, Measured};
use super::scope::{Cell, FilesScope, Pattern};
use super::stand::{Contender, Stand};
use super::writers;
use crate::autobahn::AutoBahnOptions;

/// Measures a cell: a row for each contender, the median of the rounds. Another contender begins each round.
///
/// # Errors
/// It was called off, which is `Interrupted`; a contender's, named.
pub fn measure_cell(
    memory: &Path,
    files: &FilesOnDisk,
    scope: &FilesScope,
    cell: Cell,
    is_called_off: &AtomicBool,
) -> io::Result<Vec<FilesRow>> {
    let contenders = &scope.contenders;
    let mut measured: Vec<Vec<Measured>> = vec![Vec::new(); contenders.len()];
    for round in 0..scope.rounds {
        for turn in 0..contenders.len() {
            if is_called_off.load(Ordering::Relaxed) {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let at = (round + turn) % contenders.len();
            let options = AutoBahnOptions::default();
            let one = measure(contenders[at], (memory, files), scope, cell, &options);
            measured[at].push(one.map_err(|error| {
                let name = contenders[at].as_str();
                io::Error::new(error.kind(), format!("{name}: {error}"))
            })?);
        }
    }
    let rows = contenders.iter().zip(measured);
    let rows = rows.map(|(contender, measured)| FilesRow::new(*contender, cell, measured));
    Ok(rows.collect())
}

/// One contender once, over a fresh region.
pub(super) fn measure(
    contender: Contender,
    (memory, files): (&Path, &FilesOnDisk),
    scope: &FilesScope,
    cell: Cell,
    options: &AutoBahnOptions,
) -> io::Result<Measured> {
    let stand = Stand::new(
        contender,
        (memory, files.path()),
        scope.region_bytes,
        options,
    )?;
    let mut round = writers::run(&stand, files, scope, cell)?;
    let rate = |one: &writers::Written| one.writes as f64 / one.elapsed.as_secs_f64().max(1e-9);
    let mut measured = Measured {
        writes: round.writes(),
        // Threads end at their own times: each counts by its own clock.
        writes_s: round.written.iter().map(rate).sum(),
        lines: round.persisted.lines(),
        fences: round.persisted.fences,
        user_ns: round.user_ns,
        kernel_ns: round.kernel_ns,
        ..Measured::default()
    };
    for one in &mut round.written {
        measured.latencies_ns.append(&mut one.latencies_ns);
        measured.thread_lines += one.persisted.lines();
        measured.thread_fences += one.persisted.fences;
    }
    writers::close(round)?;
    stand.close()?;
    if cell.pattern == Pattern::Append {
        files.remove_fresh(cell.threads)?;
    }
    Ok(measured)
}
