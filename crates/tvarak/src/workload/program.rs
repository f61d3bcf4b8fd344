//! Programs, and how they take turns: the core with the least time goes next, the lower one of two.

use crate::controller::state::Loss;
use crate::machine::state::Machine;

/// What one core runs.
pub trait Program {
    /// Runs on: some accesses, short enough that others can take their turn at about the right time.
    /// Returns false when there was nothing left to do.
    ///
    /// # Errors
    /// What it accessed is lost.
    fn step(&mut self, machine: &mut Machine, core: usize) -> Result<bool, Loss>;

    /// Does what is left to do, once all are done and nobody measures any more.
    ///
    /// # Errors
    /// What it accessed is lost.
    fn settle(&mut self, machine: &mut Machine) -> Result<(), Loss>;

    /// Checks, once all are done, that the memory holds what the program made of it.
    ///
    /// # Errors
    /// What it accessed is lost.
    fn wrong_bytes(&self, machine: &mut Machine) -> Result<u64, Loss>;
}

/// Runs programs, each on the core of its place, to their ends. `told` hears of every so many steps, and ends it early by
/// returning false.
///
/// # Errors
/// What one of them accessed is lost; the others stopped where they were.
pub fn run<P: Program>(
    machine: &mut Machine,
    programs: &mut [P],
    told: &mut dyn FnMut(u64) -> bool,
) -> Result<(), Loss> {
    const TOLD_STEPS: u64 = 1 << 14;
    let mut steps = 0;
    let mut running: Vec<usize> = (0..programs.len()).collect();
    while !running.is_empty() {
        let time = |core: usize| (machine.cores[core].clock.now(), core);
        let next = running.iter().copied().min_by_key(|core| time(*core));
        let next = next.expect("one is running");
        let others = running.iter().copied().filter(|core| *core != next);
        let until = others.map(time).min();
        loop {
            if !programs[next].step(machine, next)? {
                running.retain(|core| *core != next);
                break;
            }
            steps += 1;
            if steps % TOLD_STEPS == 0 && !told(steps) {
                return Ok(());
            }
            let now = (machine.cores[next].clock.now(), next);
            if until.is_some_and(|until| until < now) {
                break;
            }
        }
    }
    Ok(())
}
