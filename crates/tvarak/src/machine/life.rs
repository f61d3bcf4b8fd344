//! The life of a mapped line (§3.5), step by step: what each step reads, writes and costs was worked out by hand.

use crate::design::Design;
use crate::line::{LINE_BYTES, Words};
use crate::machine::build::Sizes;
use crate::machine::state::Machine;
use crate::measure::Outcome;
use crate::parameters::Parameters;

/// The machine of Table 3, with a small file.
fn machine(design: Design) -> Machine {
    let sizes = Sizes {
        data_pages: 600,
        dram_lines: 1,
        code_bytes: 64,
        seed: 9,
    };
    Machine::new(&Parameters::paper(), design, &sizes)
}

fn load(machine: &mut Machine, core: usize, line: u32) -> u64 {
    let mut word = [0];
    machine
        .load(core, u64::from(line) * LINE_BYTES, &mut word)
        .expect("nothing is lost");
    word[0]
}

fn store(machine: &mut Machine, core: usize, line: u32, value: u64) {
    let stored = machine.store(core, u64::from(line) * LINE_BYTES, &[value]);
    stored.expect("nothing is lost");
}

/// Reads and writes so far: of data, system checksums, DAX-CL-checksums and parity.
fn nvm(machine: &Machine) -> ([u64; 4], [u64; 4]) {
    (machine.nvm.counts.reads, machine.nvm.counts.writes)
}

/// Nine lines of one set of the second cache drive a line out of it, into the shared one.
fn drive_out_of_second(machine: &mut Machine, core: usize, line: u32) {
    let sets = machine.cores[core].l2_sets;
    for way in 1..=8 {
        load(machine, core, line + way * sets);
    }
    assert_eq!(machine.second_slot(core, line), None);
}

fn drive_out_of_shared(machine: &mut Machine, line: u32) {
    let slot = machine.shared_slot(line);
    let now = machine.now();
    machine.evict_shared(slot, now);
}

fn flush_redundancy(machine: &mut Machine) {
    let caches = machine.controllers.caches.as_mut().expect("it has caches");
    caches.flush(&mut machine.nvm, 0);
}

fn stored(machine: &Machine, line: u32) -> Words {
    machine.nvm.contents.get(machine.nvm.layout.data(line))
}

#[test]
fn a_line_is_read_with_its_checksum_and_handed_over_after_both() {
    let mut machine = machine(Design::Tvarak);
    let expected = machine.nvm.contents.generated_data(100)[0];
    assert_eq!(load(&mut machine, 0, 100), expected);
    assert_eq!(nvm(&machine), ([1, 0, 1, 0], [0; 4]));
    let counts = machine.counts();
    assert_eq!(
        (counts.controller.misses, counts.llc_redundancy.misses),
        (1, 1)
    );
    // L1-D 4, L2 7, LLC 27, range match 2; then the data (136) beside the look-ups of its checksum on the controller
    // (1) and in the partition (27) and its read (136); then the comparison, 1.
    assert_eq!(machine.now(), 4 + 7 + 27 + 2 + (1 + 27 + 136) + 1);
}

#[test]
fn sixteen_neighbours_share_a_line_of_checksums() {
    let mut machine = machine(Design::Tvarak);
    for line in 96..112 {
        load(&mut machine, 0, line);
    }
    assert_eq!(nvm(&machine), ([16, 0, 1, 0], [0; 4]));
    // The controllers of their banks have it, or ask the partition for it.
    let counts = machine.counts();
    // Sixteen, and one of the first that had it, alone, when the second asked.
    assert_eq!(counts.controller.all(), 16 + 1);
    assert_eq!(counts.llc_redundancy.misses, 1);
    load(&mut machine, 0, 112);
    assert_eq!(nvm(&machine), ([17, 0, 2, 0], [0; 4]));
}

#[test]
fn a_written_line_is_dirty_first_where_it_leaves_the_second_cache_to() {
    let mut machine = machine(Design::Tvarak);
    store(&mut machine, 0, 100, 5);
    let has_diff = |machine: &Machine| {
        let diffs = machine.controllers.diffs.as_ref().expect("it has diffs");
        diffs.has(100)
    };
    let slot = machine.shared_slot(100);
    assert!(!machine.llc.entries[slot].is_dirty && !has_diff(&machine));
    drive_out_of_second(&mut machine, 0, 100);
    assert!(machine.llc.entries[slot].is_dirty && has_diff(&machine));
    assert_eq!(machine.nvm.counts.writes, [0; 4]);

    // Its write-back needs no old data: it reads the page's checksum and the parity, which the controller keeps.
    let (before, _) = nvm(&machine);
    drive_out_of_shared(&mut machine, 100);
    let (after, writes) = nvm(&machine);
    let reads: Vec<u64> = after
        .iter()
        .zip(before)
        .map(|(after, before)| after - before)
        .collect();
    assert_eq!(reads, [0, 1, 0, 1]);
    assert_eq!(writes, [1, 0, 0, 0]);
    assert!(!has_diff(&machine));
    assert_eq!(stored(&machine, 100)[0], 5);
    // NVM has the data alone until the redundancy leaves the caches.
    assert_eq!(machine.nvm.contents.misfits(1), (true, true));
    flush_redundancy(&mut machine);
    assert_eq!(machine.nvm.counts.writes, [1; 4]);
    assert_eq!(machine.nvm.contents.misfits(1), (false, false));
}

#[test]
fn a_diff_that_has_to_go_cleans_its_line_which_stays() {
    let mut machine = machine(Design::Tvarak);
    let set = machine.llc.banks.set(100);
    let mut others =
        (101..machine.nvm.layout.data_lines()).filter(|line| machine.llc.banks.set(*line) == set);
    let other = others
        .next()
        .expect("the file is larger than the sets are many");
    store(&mut machine, 0, 100, 5);
    drive_out_of_second(&mut machine, 0, 100);
    store(&mut machine, 0, other, 6);
    drive_out_of_second(&mut machine, 0, other);
    // There is one way for diffs: the second line's took it.
    assert_eq!(machine.nvm.counts.writes, [1, 0, 0, 0]);
    assert_eq!(stored(&machine, 100)[0], 5);
    let slot = machine.shared_slot(100);
    assert!(!machine.llc.entries[slot].is_dirty);
    // It leaves without a write, and a further store begins with a new diff.
    store(&mut machine, 1, 100, 7);
    drive_out_of_shared(&mut machine, 100);
    assert_eq!(stored(&machine, 100)[0], 7);
    drive_out_of_shared(&mut machine, other);
    flush_redundancy(&mut machine);
    assert_eq!(machine.nvm.contents.misfits(1), (false, false));
}

#[test]
fn a_clean_line_leaves_without_a_write() {
    let mut machine = machine(Design::Tvarak);
    load(&mut machine, 0, 100);
    drive_out_of_shared(&mut machine, 100);
    assert_eq!(nvm(&machine), ([1, 0, 1, 0], [0; 4]));
    // The shared cache is inclusive.
    assert_eq!(machine.second_slot(0, 100), None);
}

#[test]
fn stores_before_the_write_back_add_up_in_one_diff() {
    let mut machine = machine(Design::Tvarak);
    for value in [5, 6, 5] {
        store(&mut machine, 0, 100, value);
        drive_out_of_second(&mut machine, 0, 100);
    }
    // And one that is still in a core's cache when the line has to go.
    store(&mut machine, 2, 100, 8);
    drive_out_of_shared(&mut machine, 100);
    flush_redundancy(&mut machine);
    assert_eq!(stored(&machine, 100)[0], 8);
    assert_eq!(machine.nvm.counts.writes, [1; 4]);
    assert_eq!(machine.nvm.contents.misfits(1), (false, false));
}

#[test]
fn a_core_gets_what_another_stored() {
    let mut machine = machine(Design::Tvarak);
    store(&mut machine, 3, 100, 77);
    assert_eq!(load(&mut machine, 4, 100), 77);
    // The first one keeps it shared, and what it stored is in the shared cache.
    let slot = machine.shared_slot(100);
    assert!(machine.llc.entries[slot].is_dirty);
    assert_eq!(machine.llc.entries[slot].sharers, 1 << 3 | 1 << 4);
    store(&mut machine, 3, 100, 78);
    assert_eq!(machine.second_slot(4, 100), None);
    assert_eq!(load(&mut machine, 4, 100), 78);
}

/// What one read and one write-back access, by design: reads and writes of data, checksums, DAX-CL-checksums, parity.
#[test]
fn the_designs_access_what_their_sections_say() {
    let of = |design| {
        let mut machine = machine(design);
        store(&mut machine, 0, 100, 5);
        let read = machine.nvm.counts.reads;
        drive_out_of_shared(&mut machine, 100);
        let (after, writes) = nvm(&machine);
        let reads: [u64; 4] = std::array::from_fn(|class| after[class] - read[class]);
        (read, reads, writes)
    };
    let none = [0; 4];
    assert_eq!(of(Design::Baseline), ([1, 0, 0, 0], none, [1, 0, 0, 0]));
    // §3.3: 65 lines instead of one, here also before the difference is taken; with the parity.
    assert_eq!(
        of(Design::Naive),
        ([64, 1, 0, 0], [64, 1, 0, 1], [1, 1, 0, 1])
    );
    // §3.3, §3.4: twice as many for a read; four more reads, four writes in place of one.
    assert_eq!(of(Design::LineSums), ([1, 0, 1, 0], [1, 1, 1, 1], [1; 4]));
    // Redundancy stays in caches; the old data is read without diffs.
    assert_eq!(
        of(Design::Cached),
        ([1, 0, 1, 0], [1, 1, 0, 1], [1, 0, 0, 0])
    );
    assert_eq!(
        of(Design::Tvarak),
        ([1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 0, 0])
    );
}

#[test]
fn what_is_not_mapped_is_not_touched() {
    let mut machine = machine(Design::Tvarak);
    machine.controllers.mapped = 0..64;
    store(&mut machine, 0, 100, 5);
    drive_out_of_shared(&mut machine, 100);
    assert_eq!(nvm(&machine), ([1, 0, 0, 0], [1, 0, 0, 0]));
}

#[test]
fn the_ways_of_redundancy_and_of_diffs_are_the_application_s_no_longer() {
    for (design, ways) in [
        (Design::Baseline, 16),
        (Design::Cached, 14),
        (Design::Tvarak, 13),
    ] {
        let machine = machine(design);
        assert_eq!(machine.llc.banks.sets(), 12 * 2048);
        assert_eq!(machine.llc.array.limit_of(7), ways);
    }
}

/// By Table 3, in picojoules: a hit and a miss of the L2 46 and 94, of the LLC and its partitions 240 and 500, of the L1-D and the
/// controllers' caches 15 and 33, a read and a write of NVM 1600 and 9000.
#[test]
fn energy_is_that_of_each_look_up_and_each_access() {
    let mut machine = machine(Design::Tvarak);
    let energy = |machine: &Machine| Outcome::of(machine).energy(&Parameters::paper());
    store(&mut machine, 0, 100, 5);
    // All caches miss, those of redundancy, too, and the line and its checksum are read.
    let filled_pj = 33 + 94 + 500 + (33 + 500) + 2 * 1600;
    let at_first = energy(&machine);
    assert_eq!(at_first.table3_pj(), filled_pj);
    // One instruction at 400, and twelve cores at 2 W for 205 cycles of 2270 MHz, whole nanoseconds.
    assert_eq!(at_first.all_pj(), filled_pj + 400 + 12 * 2000 * 90);

    // It is taken from the L2. Of redundancy the page's checksum and the parity come from NVM; the controller has the line's own checksum.
    drive_out_of_shared(&mut machine, 100);
    let written_pj = 46 + 2 * (33 + 500 + 1600) + 15 + 9000;
    assert_eq!(energy(&machine).table3_pj(), filled_pj + written_pj);

    // Each of the three lines is taken from its controller into the partition, and written.
    flush_redundancy(&mut machine);
    let flushed_pj = 3 * (15 + 240 + 9000);
    let all_pj = filled_pj + written_pj + flushed_pj;
    assert_eq!(energy(&machine).table3_pj(), all_pj);
}
