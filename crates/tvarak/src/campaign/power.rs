//! Power is cut, between two accesses or within one, while a file is mapped, or while a page is repaired: what the programs had stored is
//! there, and protected; DAX-CL-checksums are not.

use crate::campaign::stand::Stand;
use crate::controller::state::Loss;
use crate::design::Design;
use crate::fuse::until_power_fails;
use crate::machine::state::Machine;
use crate::nvm::fault::{Fault, FaultKind};
use crate::nvm::layout::Class;

/// Accesses before the cut, at most.
const ACCESSES_MOST: u32 = 600;
/// Operations of controllers before it, of those that there are more of in these than that.
const STEPS_MOST: u64 = 600;
/// Accesses of the file system before a further cut while it maps the file, which takes about half as many.
const MAP_STEPS_MOST: u64 = 12_000;
/// Operations, and accesses of the file system, before a cut after a bug was planted.
const REPAIR_STEPS_MOST: u64 = 1500;

/// One cut: what is not as it has to be, in words.
pub fn trial(design: Design, seed: u64) -> Vec<String> {
    let mut stand = Stand::new(design, seed);
    let mut violations = Vec::new();
    let accesses = stand.random.u32(1..ACCESSES_MOST);
    let steps = stand.random.u64(0..STEPS_MOST);
    stand.machine.nvm.fuse.set(steps);
    if let Some(Err(loss)) = until_power_fails(|| stand.access(accesses)) {
        violations.push(loss.to_string());
    }
    stand.cut_power();
    let wrong = stand.wrong_pages();
    if wrong > 0 {
        violations.push(format!("{wrong} pages are wrong after the battery's flush"));
    }
    match again(&mut stand) {
        Ok(found) if found > 0 => violations.push(format!("{found} findings without a bug")),
        Ok(_) => {}
        Err(loss) => violations.push(loss.to_string()),
    }
    violations.extend(stand.bytes_nobody_wrote());
    violations
}

/// Power is back: the file is mapped again, and all of it read.
fn again(stand: &mut Stand) -> Result<u64, Loss> {
    let steps = stand.random.u64(0..MAP_STEPS_MOST);
    stand.machine.nvm.fuse.set(steps);
    if let Some(mapped) = until_power_fails(|| stand.map()) {
        mapped?;
        stand.machine.nvm.fuse.remove();
    } else {
        stand.cut_power();
        stand.map()?;
    }
    stand.load_all()?;
    stand.access(100)?;
    let found = stand.machine.controllers.findings.detected;
    let Machine {
        controllers, nvm, ..
    } = &mut stand.machine;
    let unmapped = controllers.unmap(nvm)?;
    Ok(found + unmapped)
}

/// One cut after a bug of the firmware, most of them within the repair of what it spoiled: what is not as it has to be once the
/// file is mapped again. No bug here spoils two things that vouch for one page, as a misdirected write may.
pub fn repair_trial(design: Design, seed: u64) -> Vec<String> {
    let mut stand = Stand::new(design, seed);
    let mut violations = Vec::new();
    if let Err(loss) = repaired(&mut stand) {
        violations.push(loss.to_string());
    }
    violations.extend(stand.end());
    violations
}

fn repaired(stand: &mut Stand) -> Result<(), Loss> {
    stand.access(ACCESSES_MOST / 2)?;
    let classes = [Class::Data, Class::Sums, Class::Parity];
    let kinds = [FaultKind::LostWrite, FaultKind::MisdirectedRead];
    stand.machine.nvm.plant(Fault {
        kind: kinds[stand.random.usize(0..kinds.len())],
        class: classes[stand.random.usize(0..classes.len())],
        after: stand.random.u32(0..20),
        pages_off: stand.random.u32(0..32),
        lines_off: stand.random.u32(1..64),
    });
    let steps = stand.random.u64(0..REPAIR_STEPS_MOST);
    stand.machine.nvm.fuse.set(steps);
    let ran = until_power_fails(|| {
        stand.access(ACCESSES_MOST)?;
        stand.load_all()
    });
    ran.unwrap_or(Ok(()))?;
    stand.cut_power();
    stand.map()?;
    stand.load_all()?;
    // Of a design without DAX-CL-checksums mapping looks at nothing.
    stand.flush();
    stand.scrub();
    Ok(())
}
