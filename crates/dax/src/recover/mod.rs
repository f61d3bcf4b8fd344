//! Opening: from the files that are there to a region that may be stored into, whatever was left.

mod apply;
mod roles;
mod scan;

pub(crate) use roles::FoundPair;

use crate::engine::{file_lines, put_lines};
use crate::error::{Error, ErrorKind, Result};
use crate::format::{Line, PAGE_BYTES};
use crate::medium::{Medium, Part, Sidecar};
use crate::mutants::{Mutant, mutated};
use crate::report::RegionState;
use roles::{Roles, Standing};
use scan::{Found, Scan, Verdict};

/// Lost pages that an error can name.
const NAMED_PAGES: usize = 64;

/// Where files are had from that no sidecar led to.
pub(crate) trait Files {
    /// The extent of a role whose sidecar is missing.
    fn lone_part(&self, role: usize, line: &Line) -> Result<Option<Part>>;
    /// A new one, all zero, that no later opening finds until it is installed.
    fn make_part(&self, role: usize, line: &Line) -> Result<Part>;
    /// Gives a new one its name, durably.
    fn install_part(&self, part: &Part) -> Result<()>;
    /// A new one without a line.
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
    unverified_pages: u64,
    lost_pages: u64,
    /// The first ones.
    lost_offsets: Vec<u64>,
    /// The last pass that made a sum.
    pass: u64,
}

/// Opens what was found: everything that a sum or the parity vouches for is right, and the mark `open` is durable on all
/// sidecars.
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
        }
    }
    check_missing(&roles, permissions)?;
    let is_orderly = roles.is_orderly()?;
    if is_orderly && roles.is_whole() {
        return mark_open(roles, Plan::default(), 1);
    }
    let plan = plan(&roles, is_orderly)?;
    check_lost(&roles.line, &plan, permissions)?;
    // A file that stays behind is two generations behind, at least.
    let step = if roles.is_whole() { 1 } else { 2 };
    let line = mark_counts(&roles, &plan, is_orderly, step)?;
    roles.line = line;
    for number in 0..roles.roles.len() {
        let role = &mut roles.roles[number];
        if role.part.is_none() {
            role.part = Some(files.make_part(number, &roles.line)?);
            role.is_new_part = true;
        }
    }
    let mut sidecars = Vec::new();
    for (number, role) in roles.roles.iter().enumerate() {
        if role.sidecar.is_none() {
            sidecars.push((number, files.make_sidecar(number, &roles.line)?));
        }
    }
    apply::rebuild(&roles, is_orderly)?;
    for role in roles.roles.iter().filter(|role| role.is_new_part) {
        // Only now: what is found under its name beside a sidecar with the newest line is taken as written.
        files.install_part(role.part.as_ref().expect("it is new"))?;
    }
    for (number, sidecar) in sidecars {
        roles.roles[number].sidecar = Some(sidecar);
    }
    let pass = plan.pass + 1;
    let (medium, line) = into_medium(roles);
    apply::make_consistent(&medium, pass)?;
    let line = Line { pass, ..line };
    mark(medium, line, step)
}

/// What a keeper finds of a region that it has not mapped.
pub(crate) struct Quick {
    pub medium: Medium,
    pub line: Line,
    /// It ended in order: it may be left as it is.
    pub is_orderly: bool,
}

/// The region without a look at its pages.
///
/// # Errors
/// As for [`open`]; a file is missing or behind, which only an opening may put right.
pub(crate) fn quick(found: Vec<FoundPair>, pool: [u8; 16], name: &str) -> Result<Quick> {
    let roles = roles::sort(found, pool, name)?;
    check_missing(&roles, Permissions::default())?;
    let behind = roles.roles.iter().find(|role| !role.is_believed());
    if let Some(sidecar) = behind.and_then(|role| role.sidecar.as_ref()) {
        let found = "it is behind the region's other sidecars";
        return Err(Error::refused(
            &sidecar.path,
            found,
            "open the region once, or seal it",
        ));
    }
    if roles.line.state == RegionState::Lost {
        check_lost(&roles.line, &Plan::default(), Permissions::default())?;
    }
    let is_orderly = roles.is_orderly()? && roles.is_whole();
    let (medium, line) = into_medium(roles);
    Ok(Quick {
        medium,
        line,
        is_orderly,
    })
}

/// Marks a region `open` by its sidecars alone, durably: somebody is about to have an extent.
pub(crate) fn mark_wanted(found: &[FoundPair], pool: [u8; 16], name: &str) -> Result<()> {
    let mut newest: Option<Line> = None;
    let mut lines = Vec::new();
    for pair in found {
        let own = pair.sidecar.lines().into_iter().flatten();
        let Some((line, role)) = own.max_by_key(|(line, _)| line.generation) else {
            continue;
        };
        if line.pool == pool && line.name == name {
            lines.push((&pair.sidecar, role, line.generation));
            let is_newer = newest
                .as_ref()
                .is_none_or(|newest| line.generation > newest.generation);
            if is_newer {
                newest = Some(line);
            }
        }
    }
    let Some(newest) = newest.filter(|line| line.state == RegionState::Sealed) else {
        return Ok(());
    };
    let generation = newest.generation;
    let line = Line {
        generation: generation + 1,
        state: RegionState::Open,
        ..newest
    };
    for (sidecar, role, own) in lines {
        // One that is behind stays so: its pages are not those of the line.
        if own == generation {
            sidecar.put_line(&line, role);
            // The mark is durable before anybody can store.
            sidecar.region.fence()?;
        }
    }
    Ok(())
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
fn plan(roles: &Roles, is_orderly: bool) -> Result<Plan> {
    let geometry = roles.geometry();
    let mut plan = Plan::default();
    let mut scan = Scan::new(roles, is_orderly);
    for row in 0..geometry.rows() {
        if let Verdict::Lost(extents) = scan.look(row)? {
            plan.lost_pages += extents.len() as u64;
            let offsets = extents.iter().map(|&extent| geometry.offset(extent, row));
            let room = NAMED_PAGES - plan.lost_offsets.len();
            plan.lost_offsets.extend(offsets.take(room));
        }
        let written = scan
            .found()
            .iter()
            .filter(|&&found| found == Found::Written);
        plan.unverified_pages += written.count() as u64;
    }
    plan.pass = scan.pass();
    Ok(plan)
}

fn check_lost(line: &Line, plan: &Plan, permissions: Permissions) -> Result<()> {
    let is_lost = plan.lost_pages > 0 || line.state == RegionState::Lost;
    if !is_lost || permissions.accept_loss {
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

/// Counts what is about to be taken as written or made zero, durably and before it is: on the sidecars whose pages are
/// what they were left as. Those that are not stay behind.
fn mark_counts(roles: &Roles, plan: &Plan, is_orderly: bool, step: u64) -> Result<Line> {
    let mut line = roles.line.clone();
    line.unverified_pages += plan.unverified_pages;
    line.lost_pages += plan.lost_pages;
    if plan.unverified_pages + plan.lost_pages == 0 {
        return Ok(line);
    }
    line.generation += step;
    line.state = match plan.lost_pages > 0 || line.state == RegionState::Lost {
        true => RegionState::Lost,
        false => RegionState::Open,
    };
    for (number, role) in roles.roles.iter().enumerate() {
        let is_left = match role.standing {
            Standing::Current => true,
            Standing::Interrupted => !is_orderly,
            Standing::Behind => false,
        };
        if let Some(sidecar) = role.sidecar.as_ref().filter(|_| is_left) {
            sidecar.put_line(&line, number);
            // The counts are durable before what they count.
            sidecar.region.fence()?;
        }
    }
    Ok(line)
}

fn into_medium(roles: Roles) -> (Medium, Line) {
    let geometry = roles.geometry();
    let mut medium = Medium {
        geometry,
        parts: Vec::with_capacity(geometry.roles()),
        sidecars: Vec::with_capacity(geometry.roles()),
    };
    for role in roles.roles {
        medium
            .parts
            .push(role.part.expect("every role has its part by now"));
        let sidecar = role.sidecar.expect("every role has its sidecar by now");
        medium.sidecars.push(sidecar);
    }
    (medium, roles.line)
}

fn mark_open(roles: Roles, plan: Plan, step: u64) -> Result<(Medium, Line)> {
    debug_assert_eq!(plan.lost_pages + plan.unverified_pages, 0);
    let (medium, line) = into_medium(roles);
    if mutated(Mutant::OpenMarkAfterStore) {
        return Ok((medium, line));
    }
    mark(medium, line, step)
}

/// The mark `open`, durable on all sidecars before the first store can happen.
fn mark(medium: Medium, mut line: Line, step: u64) -> Result<(Medium, Line)> {
    line.generation += step;
    line.state = RegionState::Open;
    line.files = file_lines(&medium)?;
    put_lines(&medium, &line)?;
    Ok((medium, line))
}

/// That no sidecar was found at all.
pub(crate) fn not_found(name: &str, path: std::path::PathBuf) -> Error {
    let name = name.to_owned();
    ErrorKind::NotFound { name, path }.into()
}
