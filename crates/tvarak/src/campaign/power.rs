//! Power is cut between two accesses: what the programs had stored is there, and protected; DAX-CL-checksums are not.

use crate::campaign::stand::Stand;
use crate::controller::state::Loss;
use crate::design::Design;
use crate::machine::state::Machine;

/// Accesses before the cut, at most.
const ACCESSES_MOST: u32 = 600;

/// One cut: what is not as it has to be, in words.
pub fn trial(design: Design, seed: u64) -> Vec<String> {
    let mut stand = Stand::new(design, seed);
    let mut violations = Vec::new();
    let accesses = stand.random.u32(1..ACCESSES_MOST);
    if let Err(loss) = stand.access(accesses) {
        violations.push(loss.to_string());
    }
    let mut random = stand.random.fork();
    stand.machine.cut_power(&mut random);
    let wrong = stand.wrong_pages();
    if wrong > 0 {
        violations.push(format!("{wrong} pages are wrong after the battery's flush"));
    }
    match again(&mut stand) {
        Ok(found) if found > 0 => violations.push(format!("{found} findings without a bug")),
        Ok(_) => {}
        Err(loss) => violations.push(loss.to_string()),
    }
    if stand.wrong_bytes > 0 {
        let wrong = stand.wrong_bytes;
        violations.push(format!("{wrong} bytes were read that nobody wrote"));
    }
    violations
}

/// Power is back: the file is mapped again, and all of it read.
fn again(stand: &mut Stand) -> Result<u64, Loss> {
    let Machine {
        controllers, nvm, ..
    } = &mut stand.machine;
    controllers.map(0..nvm.layout.data_pages, nvm)?;
    stand.load_all()?;
    stand.access(100)?;
    let found = stand.machine.controllers.findings.detected;
    let Machine {
        controllers, nvm, ..
    } = &mut stand.machine;
    let unmapped = controllers.unmap(nvm)?;
    Ok(found + unmapped)
}
