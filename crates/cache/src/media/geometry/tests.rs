//! Plans, of pools of every size.

use super::*;

#[test]
fn a_gibibyte_is_nearly_all_slots() {
    let geometry = Geometry::plan(&FormatOptions::default(), 1, 1 << 30).expect("plan");
    let share = f64::from(geometry.slots()) * 4096.0 / (1u64 << 30) as f64;
    assert!(share > 0.975, "{share}");
    assert_eq!(geometry.transaction_limit_bytes(), 4 << 20);
    assert_eq!(geometry.slot_area % 4096, 0);
}

#[test]
fn a_grown_plan_is_that_of_a_larger_pool_behind_the_same_beginning() {
    let small = Geometry::plan(&FormatOptions::default(), 2, 64 << 20).expect("plan");
    let large = small.grown(1 << 30).expect("grow");
    assert_eq!(large.entry_table, small.entry_table);
    assert_eq!(large, small.with_sizes(large.sizes()));
    assert_eq!(large.lanes, small.lanes);
    assert!(large.lane_bytes > small.lane_bytes);
    assert!(large.slots() > 15 * small.slots());
    assert_eq!(large.grown(1 << 30).expect("as it is"), large);
    assert!(large.grown((1 << 30) - 1).is_err());
    let options = FormatOptions {
        lane_bytes: Some(1 << 20),
        ..FormatOptions::default()
    };
    let chosen = Geometry::plan(&options, 1, 64 << 20).expect("plan");
    assert_eq!(chosen.grown(1 << 30).expect("grow").lane_bytes, 1 << 20);
}

#[test]
fn halves_of_a_mirror_share_no_room_and_no_member() {
    for members in 2..=MIRROR_MEMBERS_MAX {
        let options = FormatOptions {
            redundancy: Redundancy::Mirror,
            ..FormatOptions::default()
        };
        let geometry = Geometry::plan(&options, members, 16 << 20).expect("plan");
        let mut taken = std::collections::HashSet::new();
        for slot in 0..geometry.slots() {
            let pair = geometry.slot_pair(slot);
            assert_ne!(pair.first, pair.second);
            let halves = [
                (pair.first, pair.first_offset),
                (pair.second, pair.second_offset),
            ];
            for (member, offset) in halves {
                assert!(member < members && offset >= geometry.slot_area);
                assert!(offset + 4096 <= geometry.member_bytes);
                assert!(taken.insert((member, offset)), "slot {slot} of {members}");
            }
        }
        let rooms = u64::from(members) * u64::from(geometry.slots_per_member);
        assert_eq!(taken.len() as u64, rooms, "all of them are used");
    }
    let mirror = |members| check_mirror(true, members);
    assert!(mirror(1).is_err() && mirror(MIRROR_MEMBERS_MAX + 1).is_err());
}

#[test]
fn the_slots_at_some_bytes_are_those_that_have_a_half_there() {
    for members in 2..=MIRROR_MEMBERS_MAX {
        for block_bytes in [128, 4096, 16384] {
            let options = FormatOptions {
                block_bytes,
                redundancy: Redundancy::Mirror,
                ..FormatOptions::default()
            };
            let geometry = Geometry::plan(&options, members, 2 << 20).expect("plan");
            let places = (0..geometry.slots()).flat_map(|slot| {
                let pair = geometry.slot_pair(slot);
                [
                    (pair.first, pair.first_offset, slot),
                    (pair.second, pair.second_offset, slot),
                ]
            });
            let mut expected = std::collections::BTreeMap::<_, Vec<u32>>::new();
            for (member, offset, slot) in places {
                let pages = offset / 4096..(offset + u64::from(block_bytes)).div_ceil(4096);
                pages.for_each(|page| expected.entry((member, page)).or_default().push(slot));
            }
            for member in 0..members {
                for start in (geometry.slot_area..2 << 20).step_by(4096) {
                    let mut found = geometry.slots_at(member, &(start..start + 4096));
                    found.sort_unstable();
                    let page = (member, start / 4096);
                    assert_eq!(found, expected.remove(&page).unwrap_or_default());
                }
            }
            assert!(expected.is_empty(), "each half was found");
        }
    }
}

#[test]
fn tiny_pools_are_possible_and_too_tiny_ones_refused() {
    let tiny = FormatOptions {
        block_bytes: 128,
        lanes: Some(2),
        lane_bytes: Some(512),
        volumes: 1,
        unit_bytes: 256,
        ..FormatOptions::default()
    };
    let geometry = Geometry::plan(&tiny, 1, 8192).expect("plan");
    assert!(geometry.slots() >= 8);
    assert!(Geometry::plan(&tiny, 1, 2048).is_err());
    assert!(Geometry::plan(&FormatOptions::default(), 1, 1 << 16).is_err());
}
