//! What was found of a region, and which line of it counts.

use std::path::PathBuf;

use crate::error::{Error, ErrorKind, Result};
use crate::format::{Line, Mark, NoLine, Relation};
use crate::medium::{Part, Sidecar, check_size};
use crate::mutants::{Mutant, mutated};

/// A sidecar that was found, with its extent if that is there.
pub(crate) struct FoundPair {
    pub sidecar: Sidecar,
    pub part: Option<Part>,
    /// Where the extent is, or would be.
    pub part_path: PathBuf,
}

/// The files of one role.
pub(super) struct Role {
    /// An epoch began without it, or it has no line: its pages count only where they match sums that
    /// do, and its sums do not.
    pub is_behind: bool,
    pub sidecar: Option<Sidecar>,
    pub part: Option<Part>,
    /// Where its extent is, or would be, beside the sidecar that was found.
    pub place: Option<PathBuf>,
}

/// A region's files by role, and the line that counts.
pub(super) struct Roles {
    pub line: Line,
    pub roles: Vec<Role>,
}

impl Roles {
    /// Whether the region was sealed and nobody has stored into it since: what its sums say is so, and no page needs a look.
    ///
    /// Inode, size and times can tell only as long as the machine runs: after a power cut a page may be newer on the disk
    /// than its file's times. And only where a store through a mapping moves them.
    pub fn is_orderly(&self) -> Result<bool> {
        if mutated(Mutant::SealBelievedAfterUnorderlyEnd) {
            return Ok(true);
        }
        if self.line.mark != Mark::Sealed || !self.line.is_of_this_boot() {
            return Ok(false);
        }
        let extents = self.roles.iter().zip(&self.line.files);
        for (role, file) in extents.take(self.line.geometry.extents()) {
            // Of one that is away nobody knows.
            let Some(part) = role.part.as_ref().filter(|_| !role.is_behind) else {
                return Ok(false);
            };
            if !part.is_as(file)? {
                return Ok(false);
            }
        }
        // Of an old parity the pages and sums are older than the seal. Nobody but us stores there, so a change of its times is
        // none by a program.
        let parity = self.line.geometry.parity_role();
        match &self.roles[parity] {
            Role {
                part: Some(part),
                is_behind: false,
                ..
            } => Ok(part.evidence()? == self.line.files[parity].evidence),
            _ => Ok(true),
        }
    }

    /// What is not there does not count, nor what lies beside it.
    pub fn leave_out_missing(&mut self) {
        for role in &mut self.roles {
            role.is_behind |= role.part.is_none() || role.sidecar.is_none();
        }
    }

    /// Those that do not count.
    pub fn behind(&self) -> Vec<usize> {
        let all = self.roles.iter().enumerate();
        all.filter(|(_, role)| role.is_behind)
            .map(|(number, _)| number)
            .collect()
    }
}

/// Sorts what was found by role. Refuses what belongs elsewhere, two histories, and two sidecars of one role.
pub(super) fn sort(found: Vec<FoundPair>, pool: [u8; 16], name: &str) -> Result<Roles> {
    let mut lines: Vec<Option<(Line, usize)>> = Vec::new();
    for pair in &found {
        lines.push(newest_line(pair, pool, name)?);
    }
    let newest = lines.iter().enumerate();
    let newest = newest.filter_map(|(number, line)| Some((number, &line.as_ref()?.0)));
    let Some((newest, line)) = newest.max_by_key(|(_, line)| line.generation) else {
        return Err(no_line(&found, name));
    };
    if line.generation.is_of_creation() {
        return Err(no_line(&found, name));
    }
    let line = line.clone();
    check_histories(&found, &lines, newest, &line)?;
    let mut roles: Vec<Role> = (0..line.geometry.roles())
        .map(|_| Role {
            is_behind: true,
            sidecar: None,
            part: None,
            place: None,
        })
        .collect();
    for (pair, own) in found.into_iter().zip(lines) {
        let (role, is_behind) = match own {
            Some((own, role)) => (Some(role), is_behind(&line, &own, role)),
            // Both lines are damaged, or none was ever written: where it lies says what it is.
            None => {
                let mut files = line.files.iter();
                (files.position(|file| file.path == pair.part_path), true)
            }
        };
        let Some(role) = role else { continue };
        let Some(place) = roles.get_mut(role) else {
            let found = format!("it is of role {role}, which the region does not have");
            let todo = "move it away";
            return Err(Error::refused(&pair.sidecar.path, found, todo));
        };
        if let Some(other) = &place.sidecar {
            let found = format!("it has the same role as {}", other.path.display());
            let todo = "move the copy away";
            return Err(Error::refused(&pair.sidecar.path, found, todo));
        }
        check_size(
            &pair.sidecar.region,
            &pair.sidecar.path,
            line.geometry.sidecar_bytes(role),
        )?;
        if let Some(part) = &pair.part {
            check_part(part, &line)?;
        }
        *place = Role {
            is_behind,
            sidecar: Some(pair.sidecar),
            part: pair.part,
            place: Some(pair.part_path),
        };
    }
    Ok(Roles { line, roles })
}

/// Refuses an extent of another length than the region's.
pub(super) fn check_part(part: &Part, line: &Line) -> Result<()> {
    check_size(&part.region, &part.path, line.geometry.extent_bytes())
}

/// The newest line of a sidecar, and the role that it names.
fn newest_line(pair: &FoundPair, pool: [u8; 16], name: &str) -> Result<Option<(Line, usize)>> {
    let mut newest: Option<(Line, usize)> = None;
    for line in pair.sidecar.lines() {
        match line {
            Ok((line, role)) => {
                check_owner(&pair.sidecar, &line, pool, name)?;
                let is_newer = |(newest, _): &(Line, usize)| line.generation > newest.generation;
                if newest.as_ref().is_none_or(is_newer) {
                    newest = Some((line, role));
                }
            }
            Err(NoLine::Version(version)) => {
                let found =
                    format!("its line is of version {version}, which this program does not know");
                let todo = "use the program that made it; one of version 1 was a trial, and is to be made anew";
                return Err(Error::refused(&pair.sidecar.path, found, todo));
            }
            Err(NoLine::Blank | NoLine::Damaged) => {}
        }
    }
    Ok(newest)
}

/// Whether a sidecar's line says nothing of the region as it is. That it is older is no sign: a crash leaves some lines
/// generations behind, and nothing was stored yet.
fn is_behind(newest: &Line, own: &Line, role: usize) -> bool {
    if mutated(Mutant::StaleSidecarBelieved) {
        return false;
    }
    let since = newest.files.get(role).map(|file| file.since);
    since.is_some_and(|since| own.generation < since) || newest.relation(own) == Relation::Unknown
}

fn no_line(found: &[FoundPair], name: &str) -> Error {
    match found.first() {
        None => ErrorKind::NotFound {
            name: name.to_owned(),
            path: PathBuf::new(),
        }
        .into(),
        Some(pair) => Error::refused(
            &pair.sidecar.path,
            "no line of a finished region can be read, here or beside another member: its creation did not end, or all \
             lines are damaged",
            "remove its files and create it again, or restore the sidecars from a copy",
        ),
    }
}

fn check_owner(sidecar: &Sidecar, line: &Line, pool: [u8; 16], name: &str) -> Result<()> {
    if line.pool != pool {
        let found = "it belongs to a region of another pool";
        let todo = "name the members of that pool, or move it away";
        return Err(Error::refused(&sidecar.path, found, todo));
    }
    if line.name != name {
        let found = format!("it belongs to the region {:?}", line.name);
        return Err(Error::refused(
            &sidecar.path,
            found,
            "give it its name back",
        ));
    }
    Ok(())
}

fn check_histories(
    found: &[FoundPair],
    lines: &[Option<(Line, usize)>],
    newest: usize,
    line: &Line,
) -> Result<()> {
    for (pair, own) in found.iter().zip(lines) {
        let Some((own, _)) = own else { continue };
        if own.region != line.region {
            let with = found[newest].sidecar.path.display();
            let found = format!("it belongs to another region than {with}");
            let todo = "move the wrong one away";
            return Err(Error::refused(&pair.sidecar.path, found, todo));
        }
        if line.relation(own) == Relation::Foreign {
            return Err(ErrorKind::TwoHistories {
                one: found[newest].sidecar.path.clone(),
                other: pair.sidecar.path.clone(),
                generation: own.generation.count(),
            }
            .into());
        }
    }
    Ok(())
}
