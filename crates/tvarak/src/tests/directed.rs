//! Faults that random trials of one bug do not make.

use crate::array::Array;
use crate::controller::state::Loss;
use crate::design::Design;
use crate::line::{LINE_BYTES, PAGE_LINES};
use crate::machine::build::Sizes;
use crate::machine::state::Machine;
use crate::parameters::Parameters;

fn machine(design: Design) -> Machine {
    let sizes = Sizes {
        data_pages: 60,
        dram_lines: 1,
        code_bytes: 64,
        seed: 4,
    };
    Machine::new(&Parameters::crowded(), design, &sizes)
}

fn spoil(machine: &mut Machine, page: u32, line: u32) {
    let at = machine.nvm.layout.data(page * PAGE_LINES + line);
    machine.nvm.contents.set(at, &[0xBAD; 8]);
}

fn load(machine: &mut Machine, page: u32, line: u32) -> Result<[u64; 8], Loss> {
    let mut words = [0; 8];
    let address = u64::from(page * PAGE_LINES + line) * LINE_BYTES;
    machine.load(0, address, &mut words).map(|()| words)
}

#[cfg_attr(not(feature = "mutants"), test)]
pub(crate) fn two_wrong_pages_of_a_stripe_are_both_named() {
    let mut machine = machine(Design::Tvarak);
    // Different lines of them: each line of the stripe has one fault alone, and the pages have two.
    spoil(&mut machine, 30, 5);
    spoil(&mut machine, 31, 6);
    let mut controllers = machine.controllers;
    for page in [30, 31] {
        assert!(controllers.rebuild(page, &mut machine.nvm).is_none());
        let loss = controllers.scrub(page, &mut machine.nvm).unwrap_err();
        assert_eq!(loss, Loss { page });
        assert!(
            loss.to_string()
                .contains(&format!("page {page} of the file"))
        );
    }
    // The third page of the stripe is right, and is still served.
    assert!(controllers.scrub(32, &mut machine.nvm).is_ok());
}

#[cfg_attr(not(feature = "mutants"), test)]
pub(crate) fn a_lost_page_is_an_error_and_never_wrong_bytes() {
    for design in Design::ALL
        .into_iter()
        .filter(|design| design.has_controller())
    {
        let mut machine = machine(design);
        spoil(&mut machine, 30, 5);
        spoil(&mut machine, 31, 5);
        assert_eq!(
            load(&mut machine, 30, 5),
            Err(Loss { page: 30 }),
            "{design:?}"
        );
        let expected = machine.nvm.contents.generated_data(32 * PAGE_LINES + 5);
        assert_eq!(load(&mut machine, 32, 5), Ok(expected), "{design:?}");
    }
}

#[cfg_attr(not(feature = "mutants"), test)]
pub(crate) fn a_spoiled_line_is_repaired_where_it_is_read() {
    for design in Design::ALL
        .into_iter()
        .filter(|design| design.has_controller())
    {
        let mut machine = machine(design);
        let expected = machine.nvm.contents.generated_data(30 * PAGE_LINES + 5);
        spoil(&mut machine, 30, 5);
        assert_eq!(load(&mut machine, 30, 5), Ok(expected), "{design:?}");
        assert_eq!(machine.controllers.findings.data_repaired, 1);
        let at = machine.nvm.layout.data(30 * PAGE_LINES + 5);
        assert_eq!(machine.nvm.contents.get(at), expected);
    }
}

#[cfg_attr(not(feature = "mutants"), test)]
pub(crate) fn the_last_line_of_a_mapping_is_protected() {
    for design in Design::ALL
        .into_iter()
        .filter(|design| design.has_controller())
    {
        let mut machine = machine(design);
        let line = machine.nvm.layout.data_lines() - 1;
        let stored = machine.store(0, u64::from(line) * LINE_BYTES, &[7]);
        assert_eq!(stored, Ok(()));
        machine.flush(&mut fastrand::Rng::with_seed(1));
        let misfits = machine.nvm.contents.misfits(line / PAGE_LINES);
        assert_eq!(misfits, (false, false), "{design:?}");
    }
}

#[cfg_attr(not(feature = "mutants"), test)]
pub(crate) fn the_line_used_longest_ago_leaves() {
    let mut array = Array::new(1, 4);
    for line in [10, 11, 12, 13] {
        array.put(array.victim(0), line);
    }
    let used = array.find(0, 10).expect("it is there");
    array.touch(used);
    assert_eq!(array.line(array.victim(0)), 11);
}

/// No trial leaves one that no controller reads again.
#[cfg_attr(not(feature = "mutants"), test)]
pub(crate) fn a_wrong_line_sum_is_found_by_a_scrub() {
    let mut machine = machine(Design::Tvarak);
    let (at, _) = machine.nvm.layout.line_sum(30 * PAGE_LINES);
    machine.nvm.contents.set(at, &[0xBAD; 8]);
    let scrubbed = machine.controllers.scrub(30, &mut machine.nvm);
    assert_eq!(scrubbed, Ok(true));
    assert!(!machine.nvm.contents.line_sums_misfit(30));
}
