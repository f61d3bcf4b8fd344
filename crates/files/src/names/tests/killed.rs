//! Others change names between a crash and the recovery. After a mere kill every name is what they, and
//! the kernel, made of it; after a power cut at least no data goes to another inode than it was written
//! to.

use super::*;
use crate::names::reconcile::Outcome;

#[derive(Clone, Debug)]
struct KilledLife {
    steps: Vec<Step>,
    /// Killed after so many changes.
    after: u8,
    /// What others do then.
    others: Vec<Step>,
    /// When recoveries are killed.
    recoveries: Vec<u8>,
    /// What a power cut leaves, where it is one.
    power_cut: Option<Keep>,
}

impl World {
    /// Until it is killed.
    fn work(&mut self, names: &Names<ModelSpace>, life: &KilledLife) {
        self.held.clear();
        self.space.power.last(Some(u64::from(life.after) + 1));
        for step in &life.steps {
            let done = self.act(names, *step);
            if self.space.power.is_off() {
                break;
            }
            done.unwrap();
            self.let_go_of_unknown(names);
        }
        self.space.power.last(None);
    }

    /// Releases inodes that live on under names which the log does not know.
    fn let_go_of_unknown(&mut self, names: &Names<ModelSpace>) {
        let is_known = |id: FileId| {
            let inner = names.lock();
            let node = inner.table.node(id);
            node.is_some_and(|node| !node.names.is_empty())
        };
        let (known, unknown) = self.held.iter().partition(|(id, _)| is_known(*id));
        self.held = known;
        let unknown: Vec<(FileId, u64)> = unknown;
        unknown.iter().for_each(|(id, _)| names.release(*id));
    }

    /// Another program's change; what the kernel refuses is none.
    pub(super) fn interfere(&mut self, step: Step) {
        let new = self.new_path(step);
        let (to, name) = self.hold(&new);
        let to = (&to, name.as_os_str());
        // Directories have one name.
        let path = match step.kind % 8 {
            5 => self.choose(false, step.one),
            _ => self.any_path(step.one),
        };
        let Some(path) = path else {
            return;
        };
        let (from, name) = self.hold(&path);
        let from = (&from, name.as_os_str());
        let creation = Creation {
            mode: libc::S_IFREG | 0o600,
            user: u32::MAX,
            group: 0,
            device: 0,
            target: Default::default(),
        };
        let _refused = match step.kind % 8 {
            0..=3 => self.space.rename(from, to, Renaming::Replace),
            4 => self.space.rename(from, to, Renaming::Exchange),
            5 => self.space.link(from, to.0, to.1),
            6 => self.space.make(to.0, to.1, &creation, false),
            _ => self.space.remove(from.0, from.1, true),
        };
    }

    /// Recovers, after recoveries that were killed.
    fn recover_at_last(
        &mut self,
        life: &KilledLife,
    ) -> io::Result<(Names<ModelSpace>, Reconciled<ModelSpace>)> {
        for after in &life.recoveries {
            self.space.power.last(Some(u64::from(*after) + 1));
            let recovered = self.recover_with_others().map(drop);
            let was_killed = self.space.power.is_off();
            self.space.power.last(None);
            if !was_killed {
                recovered?;
                // The log has begun anew: nothing is held there.
                self.held.clear();
            }
        }
        self.recover_with_others()
    }
}

fn live_killed(lives: &[KilledLife], can_seek: bool) -> Result<(), TestCaseError> {
    let mut world = World::new();
    world.space.disk.lock().unwrap().can_seek = can_seek;
    let mut names = world.recover().unwrap();
    for life in lives {
        world.work(&names, life);
        for step in &life.others {
            world.interfere(*step);
        }
        let before = world.tree();
        let (recovered, found) = world.recover_at_last(life).unwrap();
        prop_assert_eq!(&world.tree(), &before);
        prop_assert_eq!(found.changes, 0);
        for (id, uid) in &world.held {
            let held = found.hold(&world.space, *id).unwrap();
            let is_named = before.has_name(*uid);
            prop_assert_eq!(held, is_named.then_some(*uid));
            prop_assert_eq!(found.outcome(*id) == Outcome::There, is_named);
        }
        names = recovered;
    }
    Ok(())
}

fn live_cut(lives: &[KilledLife]) -> Result<(), TestCaseError> {
    let mut world = World::new();
    let mut names = world.recover().unwrap();
    for life in lives {
        world.work(&names, life);
        if let Some(keep) = life.power_cut {
            world.crash(Crash { after: 0, keep });
        }
        for step in &life.others {
            world.interfere(*step);
        }
        let before = world.tree();
        let (recovered, found) = world.recover_at_last(life).unwrap();
        for (id, uid) in &world.held {
            if before.has_name(*uid) && found.outcome(*id) == Outcome::There {
                prop_assert_eq!(found.hold(&world.space, *id).unwrap(), Some(*uid));
            }
        }
        names = recovered;
    }
    Ok(())
}

fn any_killed_life() -> impl Strategy<Value = KilledLife> {
    let steps = prop::collection::vec(any_step(), 1..24);
    let others = prop::collection::vec(any_step(), 0..6);
    let recoveries = prop::collection::vec(0..24u8, 0..3);
    let power_cut = prop::option::of(any_keep());
    (steps, 0..80u8, others, recoveries, power_cut).prop_map(
        |(steps, after, others, recoveries, power_cut)| KilledLife {
            steps,
            after,
            others,
            recoveries,
            power_cut,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn names_are_what_others_made_of_them_after_a_kill(
        lives in prop::collection::vec(any_killed_life(), 1..4),
        can_seek in any::<bool>(),
    ) {
        live_killed(&lives, can_seek)?;
    }

    #[test]
    fn data_goes_to_no_other_inode_whatever_others_did_after_a_power_cut(
        lives in prop::collection::vec(any_killed_life(), 1..4),
    ) {
        live_cut(&lives)?;
    }
}
