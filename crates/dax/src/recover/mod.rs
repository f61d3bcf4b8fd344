//! Opening: from the files that are there to a region that may be stored into, whatever was left.

mod apply;
mod roles;
mod scan;

pub(crate) use roles::FoundPair;

use std::path::PathBuf;

use crate::engine::{put_lines, put_on_all};
use crate::error::{Error, ErrorKind, Result};
use crate::format::{Evidence, Geometry, Line, Mark, PAGE_BYTES};
use crate::medium::{Medium, Part, Sidecar};
use crate::mutants::{Mutant, mutated};
use roles::Roles;
use scan::{Scan, Sources};

/// Lost pages that an error can name.
const NAMED_PAGES: usize = 64;

/// Where files are had from that no sidecar led to.
pub(crate) trait Files {
    /// The extent of a role whose sidecar is missing.
    fn lone_part(&self, role: usize, line: &Line) -> Result<Option<Part>>;
    /// Where the extents of roles are to lie of which nothing is there, in their order.
    fn places(&self, roles: &[usize], line: &Line) -> Result<Vec<PathBuf>>;
    /// A new one where the line says, all zero, that no later opening finds until it is installed.
    fn make_part(&self, role: usize, line: &Line) -> Result<Part>;
    /// Gives a new one its name, durably.
    fn install_part(&self, part: &Part) -> Result<()>;
    /// A new one beside it, without a line.
    fn make_sidecar(&self, role: usize, line: &Line) -> Result<Sidecar>;
}

/// What the caller has given its word for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Permissions {
    pub without_missing: bool,
    pub accept_loss: bool,
}

/// What a look at every page found.
#[derive(Debug, Default)]
struct Plan {
    lost_pages: u64,
    /// The first ones.
    lost_offsets: Vec<u64>,
    /// The last pass that made a sum.
    pass: u64,
}

/// Opens what was found: everything that a sum or the parity vouches for is right, what is not certain is named by its sum,
/// and the mark `open` is durable on all sidecars.
///
/// In order: nothing is changed before every page is judged, and the caller has accepted what is lost. Where a file does not
/// count the next epoch begins without it: its sidecar gets no line before its pages and sums are durable, so that a crash
/// leaves the same opening to be done again. While a sealed region is rebuilt nobody has it, so its line stays a seal.
pub(crate) fn open(
    found: Vec<FoundPair>,
    pool: [u8; 16],
    name: &str,
    files: &dyn Files,
    permissions: Permissions,
) -> Result<(Medium, Line)> {
    let mut roles = roles::sort(found, pool, name)?;
    for (number, role) in roles.roles.iter_mut().enumerate() {
        if role.sidecar.is_none() {
            role.part = files.lone_part(number, &roles.line)?;
            if let Some(part) = &role.part {
                roles::check_part(part, &roles.line)?;
            }
        }
    }
    check_missing(&roles, permissions)?;
    roles.leave_out_missing();
    let is_orderly = roles.is_orderly()?;
    let behind = roles.behind();
    if is_orderly && behind.is_empty() {
        let medium = into_medium(roles.roles, roles.line.geometry);
        return mark_open(medium, &roles.line, true);
    }
    let plan = plan(&roles, is_orderly);
    check_lost(&roles.line, &plan, permissions)?;
    choose_places(&mut roles, files)?;
    let line = mark_begun(&roles, &behind, is_orderly)?;
    let made = make_files(&mut roles.roles, &line, files)?;
    let trusted: Vec<bool> = roles.roles.iter().map(|role| !role.is_behind).collect();
    let medium = into_medium(roles.roles, line.geometry);
    // Later than any sum that is there, wherever it is: of two copies that of the later pass counts.
    let pass = match mutated(Mutant::PassNumberRepeated) {
        true => line.pass,
        false => plan.pass + 1,
    };
    let tally = apply::apply(&medium, &trusted, is_orderly, pass)?;
    for role in made {
        files.install_part(&medium.parts[role])?;
    }
    let (medium, line) = mark_open(medium, &tally.told_by(line), is_orderly)?;
    match behind.is_empty() {
        true => Ok((medium, line)),
        // The other line of what did not count is from before, or none: whatever becomes of the newest one, it counts now.
        false => mark_open(medium, &line, is_orderly),
    }
}

/// Has the line say where each file is, or is to be: what is missing of a role lies beside what is there of it. The line that
/// the opening works under tells it, so that the next one knows what this one leaves there without a line.
fn choose_places(roles: &mut Roles, files: &dyn Files) -> Result<()> {
    let Roles { line, roles } = roles;
    let is_gone = |role: &usize| roles[*role].part.is_none() && roles[*role].place.is_none();
    let gone: Vec<usize> = (0..roles.len()).filter(is_gone).collect();
    for (role, place) in gone.iter().zip(files.places(&gone, line)?) {
        line.files[*role].path = place;
    }
    for (role, file) in roles.iter().zip(&mut line.files) {
        let part = role.part.as_ref().map(|part| &part.path);
        if let Some(place) = part.or(role.place.as_ref()) {
            file.path.clone_from(place);
        }
    }
    Ok(())
}

/// Makes the extents and sidecars that are not there; which extents.
fn make_files(roles: &mut [roles::Role], line: &Line, files: &dyn Files) -> Result<Vec<usize>> {
    let mut made = Vec::new();
    for (number, role) in roles.iter_mut().enumerate() {
        if role.part.is_none() {
            role.part = Some(files.make_part(number, line)?);
            made.push(number);
        }
    }
    for (number, role) in roles.iter_mut().enumerate() {
        if role.sidecar.is_none() {
            role.sidecar = Some(files.make_sidecar(number, line)?);
        }
    }
    Ok(made)
}

/// What a keeper finds of a region that it has not mapped.
pub(crate) struct Quick {
    pub medium: Medium,
    pub line: Line,
    /// It ended in order: it may be left as it is.
    pub is_orderly: bool,
}

impl Quick {
    /// Whether inode, size and times of its files are still those of the line.
    pub fn is_as_sealed(&self) -> Result<bool> {
        for (part, file) in self.medium.parts.iter().zip(&self.line.files) {
            if part.evidence()? != file.evidence {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The region without a look at its pages.
///
/// # Errors
/// As for [`open`]; a file is missing or behind, which only an opening may put right.
pub(crate) fn quick(found: Vec<FoundPair>, pool: [u8; 16], name: &str) -> Result<Quick> {
    let roles = roles::sort(found, pool, name)?;
    check_missing(&roles, Permissions::default())?;
    if let Some(&role) = roles.behind().first() {
        let path = &roles.line.files[role].path;
        let found = "it is behind the region's other files";
        let todo = "open the region once, or seal it";
        return Err(Error::refused(path, found, todo));
    }
    let is_orderly = roles.is_orderly()?;
    let medium = into_medium(roles.roles, roles.line.geometry);
    Ok(Quick {
        medium,
        line: roles.line,
        is_orderly,
    })
}

/// Marks a sealed region `open` by its sidecars alone, durably: somebody is about to have an extent. One that does not
/// count stays so: its pages are not those of the line.
pub(crate) fn mark_wanted(found: Vec<FoundPair>, pool: [u8; 16], name: &str) -> Result<()> {
    let roles = roles::sort(found, pool, name)?;
    if roles.line.mark != Mark::Sealed {
        return Ok(());
    }
    let line = roles.line.next(Mark::Open);
    put_on_counting(&roles, &line)
}

/// Writes a line to the sidecars that count, and returns when it is durable on all of them.
fn put_on_counting(roles: &Roles, line: &Line) -> Result<()> {
    let all = roles.roles.iter().enumerate();
    let counting = all.filter(|(_, role)| !role.is_behind);
    let sidecars: Vec<(usize, &Sidecar)> = counting
        .filter_map(|(number, role)| Some((number, role.sidecar.as_ref()?)))
        .collect();
    put_lines(&sidecars, line)
}

fn check_missing(roles: &Roles, permissions: Permissions) -> Result<()> {
    if permissions.without_missing {
        return Ok(());
    }
    for (role, file) in roles.roles.iter().zip(&roles.line.files) {
        let what = match (&role.part, &role.sidecar) {
            (Some(_), Some(_)) => continue,
            (None, Some(_)) => "it is not there, and its sidecar is",
            (Some(_), None) => "its sidecar is not there",
            (None, None) => "neither it nor its sidecar is there",
        };
        return Err(ErrorKind::Missing {
            path: file.path.clone(),
            found: what.to_owned(),
        }
        .into());
    }
    Ok(())
}

/// Looks at every page. Nothing is changed.
fn plan(roles: &Roles, is_orderly: bool) -> Plan {
    let geometry = roles.line.geometry;
    let mut plan = Plan::default();
    let mut scan = Scan::new(Sources::of_roles(roles, is_orderly), 0);
    for row in 0..geometry.rows() {
        for (extent, decided) in scan.look(row).iter().enumerate() {
            if !decided.is_lost_now {
                continue;
            }
            plan.lost_pages += 1;
            if plan.lost_offsets.len() < NAMED_PAGES {
                plan.lost_offsets.push(geometry.offset(extent, row));
            }
        }
    }
    plan.pass = scan.newest_pass();
    plan
}

fn check_lost(line: &Line, plan: &Plan, permissions: Permissions) -> Result<()> {
    if plan.lost_pages == 0 || permissions.accept_loss {
        return Ok(());
    }
    debug_assert!(
        plan.lost_offsets
            .iter()
            .all(|at| at.is_multiple_of(PAGE_BYTES))
    );
    Err(ErrorKind::Lost {
        name: line.name.clone(),
        pages: plan.lost_pages,
        offsets: plan.lost_offsets.clone(),
    }
    .into())
}

/// The line that an opening works under, durable on the sidecars that count before a page or a sum changes.
fn mark_begun(roles: &Roles, behind: &[usize], is_orderly: bool) -> Result<Line> {
    let is_same_epoch = behind.is_empty() || mutated(Mutant::GenerationDrawnTwice);
    let line = match (is_same_epoch, is_orderly) {
        (true, _) => roles.line.next(Mark::Open),
        (false, true) => roles.line.without(behind, Mark::Sealed)?,
        (false, false) => roles.line.without(behind, Mark::Open)?,
    };
    put_on_counting(roles, &line)?;
    Ok(line)
}

fn into_medium(roles: Vec<roles::Role>, geometry: Geometry) -> Medium {
    let mut medium = Medium {
        geometry,
        parts: Vec::with_capacity(geometry.roles()),
        sidecars: Vec::with_capacity(geometry.roles()),
    };
    for role in roles {
        medium
            .parts
            .push(role.part.expect("every role has its part by now"));
        let sidecar = role.sidecar.expect("every role has its sidecar by now");
        medium.sidecars.push(sidecar);
    }
    medium
}

/// The mark `open`, durable on all sidecars before the first store can happen. Of a region that was sealed it keeps the times
/// of the seal, which tell of stores between that and the watch for them; what pages were looked at by no times tell.
fn mark_open(medium: Medium, line: &Line, is_orderly: bool) -> Result<(Medium, Line)> {
    let mut next = line.next(Mark::Open);
    if mutated(Mutant::OpenMarkAfterStore) {
        return Ok((medium, next));
    }
    for (file, part) in next.files.iter_mut().zip(&medium.parts) {
        file.path.clone_from(&part.path);
        if !is_orderly {
            file.evidence = Evidence::default();
        }
    }
    put_on_all(&medium, &next)?;
    Ok((medium, next))
}

/// That no sidecar was found at all.
pub(crate) fn not_found(name: &str, path: PathBuf) -> Error {
    let name = name.to_owned();
    ErrorKind::NotFound { name, path }.into()
}
