//! A DIMM dies while programs run, and is replaced later; power may fail meanwhile.

use crate::campaign::stand::Stand;
use crate::controller::state::Loss;
use crate::design::Design;
use crate::fuse::until_power_fails;
use crate::machine::state::Machine;

/// Accesses before the death, until the replacement, and after it.
const ACCESSES: u32 = 250;
/// Power fails within the replacement if that has more steps than are drawn, of so many.
const STEPS_MOST: u64 = 8000;

/// One death: what is not as it has to be, in words.
pub fn trial(design: Design, seed: u64) -> Vec<String> {
    let mut stand = Stand::new(design, seed);
    let mut violations = Vec::new();
    if let Err(loss) = live(&mut stand) {
        violations.push(loss.to_string());
    }
    violations.extend(stand.end());
    if stand.machine.controllers.findings.detected > 0 {
        violations.push("a living DIMM was found wrong".into());
    }
    violations
}

fn live(stand: &mut Stand) -> Result<(), Loss> {
    stand.access(ACCESSES)?;
    let dimm = stand.random.u32(0..stand.machine.nvm.layout.dimms);
    stand.machine.nvm.set_dead(Some(dimm));
    stand.access(ACCESSES)?;
    let steps = stand.random.u64(0..STEPS_MOST);
    stand.machine.nvm.fuse.set(steps);
    if let Some(replaced) = until_power_fails(|| replace(stand, dimm)) {
        replaced?;
        stand.machine.nvm.fuse.remove();
    } else {
        stand.cut_power();
        replace(stand, dimm)?;
        stand.map()?;
    }
    stand.load_all()?;
    stand.access(ACCESSES)
}

fn replace(stand: &mut Stand, dimm: u32) -> Result<(), Loss> {
    let Machine {
        controllers, nvm, ..
    } = &mut stand.machine;
    controllers.replace_dimm(dimm, nvm)
}
