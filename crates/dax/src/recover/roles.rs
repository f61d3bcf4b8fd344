//! What was found of a region, and which line of it counts.

use std::path::PathBuf;

use crate::error::{Error, ErrorKind, Result};
use crate::format::{Geometry, Line, NoLine};
use crate::medium::{Part, Sidecar};
use crate::mutants::{Mutant, mutated};
use crate::report::RegionState;

/// A sidecar that was found, with its extent if that is there.
pub(crate) struct FoundPair {
    pub sidecar: Sidecar,
    pub part: Option<Part>,
    /// Where the extent is, or would be.
    pub part_path: PathBuf,
}

/// How a role's files stand to the newest line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Standing {
    /// Its sidecar has the newest line: sums and pages are as they were left.
    Current,
    /// Its line is one generation older: a crash cut the newest line short, and nothing was stored since. An opening that
    /// goes on without a file leaves a generation out, so that the file is further behind.
    Interrupted,
    /// Its sidecar has an older line, or none, or is not there: its pages are believed only where they match sums that
    /// are current.
    Behind,
}

/// The files of one role.
pub(super) struct Role {
    pub standing: Standing,
    pub sidecar: Option<Sidecar>,
    pub part: Option<Part>,
    /// It was just made, and has none of the role's pages.
    pub is_new_part: bool,
}

impl Role {
    /// Whether what its sidecar says is that of the newest line.
    pub fn is_believed(&self) -> bool {
        self.sidecar.is_some() && self.standing != Standing::Behind
    }
}

/// A region's files by role, and the line that counts.
pub(super) struct Roles {
    pub line: Line,
    pub roles: Vec<Role>,
}

impl Roles {
    pub fn geometry(&self) -> Geometry {
        self.line.geometry
    }

    /// Whether the region ended in order: what its sums say is so, and no page needs a look.
    pub fn is_orderly(&self) -> Result<bool> {
        if mutated(Mutant::SealBelievedAfterUnorderlyEnd) {
            return Ok(true);
        }
        if self.line.state != RegionState::Sealed {
            return Ok(false);
        }
        for (role, file) in self.roles.iter().zip(&self.line.files) {
            if let Some(part) = &role.part
                && role.is_believed()
                && part.evidence()? != file.evidence
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether all files are there, and all sidecars have the newest line.
    pub fn is_whole(&self) -> bool {
        let is_whole = |role: &Role| role.standing == Standing::Current && role.part.is_some();
        self.roles.iter().all(is_whole)
    }
}

/// Sorts what was found by role. Refuses what belongs elsewhere, two histories, and two sidecars of one role.
pub(super) fn sort(found: Vec<FoundPair>, pool: [u8; 16], name: &str) -> Result<Roles> {
    let mut lines: Vec<(usize, Line, usize)> = Vec::new();
    for (number, pair) in found.iter().enumerate() {
        for line in pair.sidecar.lines() {
            match line {
                Ok((line, role)) => {
                    check_owner(&pair.sidecar, &line, pool, name)?;
                    lines.push((number, line, role));
                }
                Err(NoLine::Version(version)) => {
                    let found = format!(
                        "its line is of version {version}, which this program does not know"
                    );
                    return Err(Error::refused(&pair.sidecar.path, found, "use a newer one"));
                }
                Err(NoLine::Blank | NoLine::Damaged) => {}
            }
        }
    }
    check_histories(&found, &lines)?;
    let newest = lines.iter().max_by_key(|(_, line, _)| line.generation);
    let Some(line) = newest.map(|(_, line, _)| line.clone()) else {
        return Err(no_line(&found, name));
    };
    let mut roles: Vec<Role> = (0..line.geometry.roles())
        .map(|_| Role {
            standing: Standing::Behind,
            sidecar: None,
            part: None,
            is_new_part: false,
        })
        .collect();
    for (number, pair) in found.into_iter().enumerate() {
        let own = lines.iter().filter(|(of, ..)| *of == number);
        let own = own.max_by_key(|(_, line, _)| line.generation);
        let (standing, role) = match own {
            Some((_, own, role)) if own.generation == line.generation => (Standing::Current, *role),
            Some((_, own, role)) if own.generation + 1 == line.generation => {
                (Standing::Interrupted, *role)
            }
            Some((_, _, role)) => (Standing::Behind, *role),
            // Both lines are damaged, or none was ever written: where it lies says what it is.
            None => match line
                .files
                .iter()
                .position(|file| file.path == pair.part_path)
            {
                Some(role) => (Standing::Behind, role),
                None => continue,
            },
        };
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
        *place = Role {
            standing,
            sidecar: Some(pair.sidecar),
            part: pair.part,
            is_new_part: false,
        };
    }
    Ok(Roles { line, roles })
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
            "no line of the region can be read, here or beside another member: its creation did not end, or all lines \
             are damaged",
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

fn check_histories(found: &[FoundPair], lines: &[(usize, Line, usize)]) -> Result<()> {
    for (at, (one, line, _)) in lines.iter().enumerate() {
        for (other, with, _) in &lines[at + 1..] {
            if line.region != with.region {
                let sidecar = &found[*other].sidecar;
                let path = &found[*one].sidecar.path;
                let found = format!("it belongs to another region than {}", path.display());
                return Err(Error::refused(
                    &sidecar.path,
                    found,
                    "move the wrong one away",
                ));
            }
            if line.generation == with.generation && line != with {
                return Err(ErrorKind::TwoHistories {
                    one: found[*one].sidecar.path.clone(),
                    other: found[*other].sidecar.path.clone(),
                    generation: line.generation,
                }
                .into());
            }
        }
    }
    Ok(())
}
