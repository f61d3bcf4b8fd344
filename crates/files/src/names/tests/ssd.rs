//! The same over a pool on an SSD, which loses the newest records that were not synced: names that were added since the last record
//! that was durable at once are there as far as the log or the backing kept them. Nothing that was removed or renamed comes back.

use super::tree::Shape;
use super::*;
use crate::names::log::Log;
use crate::names::table::Table;

/// How many of the records that were not synced a crash keeps.
type Roll = u16;

impl World {
    /// The power fails, of the SSD as well.
    fn cut_ssd(&mut self, crash: Crash, roll: Roll) {
        self.area.cut(roll);
        self.crash(crash);
        // A file's row stands behind its record, and is lost with it.
        let (_, records) = Log::open(self.area.clone()).expect("the log is whole");
        let table = Table::replay(&records).expect("a prefix of the log is one");
        self.held.retain(|(id, _)| table.node(*id).is_some());
    }
}

/// What is left of a tree with these names alone: of a hard link's others the first one is its first.
fn with_names(whole: &Shape, names: &Shape) -> Shape {
    let kept = whole.iter().filter(|(path, _)| names.contains_key(*path));
    let mut left: Shape = kept
        .map(|(path, look)| (path.clone(), look.clone()))
        .collect();
    let paths: Vec<PathBuf> = left.keys().cloned().collect();
    for path in &paths {
        let inode = left[path].first_name.clone();
        let is_same = |other: &&PathBuf| whole[*other].first_name == inode;
        let first = paths.iter().find(is_same).expect("its own is one").clone();
        left.get_mut(path).expect("it is there").first_name = first;
    }
    left
}

/// Whether a crash may leave this of `newest`, in which all names of `durable` that it still has were durable.
fn allows(newest: &Shape, durable: &Shape, found: &Shape) -> bool {
    let is_kept = |path: &PathBuf| found.contains_key(path) || !newest.contains_key(path);
    durable.keys().all(is_kept) && with_names(newest, found) == *found
}

fn live_on_ssd(lives: &[(Life, Vec<Roll>)]) -> Result<(), TestCaseError> {
    let mut world = World::new();
    let mut names = world.recover().unwrap();
    for (life, rolls) in lives {
        let roll = |number: usize| rolls[number % rolls.len()];
        world.held.clear();
        let after = u64::from(life.crash.after) + 1;
        world.space.power.last(Some(after));
        let mut durable = world.tree().shape();
        let mut newest = vec![durable.clone()];
        for step in &life.steps {
            let before = world.tree();
            let done = world.act(&names, *step);
            if world.space.power.is_off() {
                let after = world.after(*step, &before).shape();
                let common = Tree::common_rights(&after, &before.shape());
                newest = vec![before.shape(), after, common];
                break;
            }
            done.unwrap();
            let now = world.tree().shape();
            let is_whole = |path: &PathBuf| now.contains_key(path);
            let only_added = durable.keys().all(is_whole);
            prop_assert!(
                only_added || world.area.is_synced(),
                "a removal waits for a sync: {step:?}"
            );
            if world.area.is_synced() {
                durable = now.clone();
            }
            newest = vec![now];
        }
        world.cut_ssd(life.crash, roll(0));
        for (crash, number) in life.recoveries.iter().zip(1..) {
            world.space.power.last(Some(u64::from(crash.after) + 1));
            let recovered = world.recover().map(drop);
            prop_assert!(recovered.is_ok() || world.space.power.is_off());
            world.cut_ssd(*crash, roll(number));
        }
        names = world.recover().unwrap();
        let found = world.tree().shape();
        prop_assert!(
            newest.iter().any(|newest| allows(newest, &durable, &found)),
            "found {found:#?}\nnewest {newest:#?}\ndurable {durable:#?}"
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn names_over_an_ssd_are_those_that_were_durable_and_any_added_since(
        lives in prop::collection::vec(
            (any_life(), prop::collection::vec(any::<Roll>(), 1..4)),
            1..4,
        )
    ) {
        live_on_ssd(&lives)?;
    }
}
