//! What may happen next, doing it, and saying it in words.

use super::config::{ALL, Config, KEYS, MEMBERS, Operation};
use super::media::Layout;
use super::rules::Rules;
use super::world::{Change, CommitStep, Job, KEEPER, Phase, World};
use super::{background as bg, commit, members, recovery, serve};
use crate::explore::Model;
use crate::world::Violation;

/// A pool of two members, and the rules that it runs under.
#[derive(Clone, Copy, Debug)]
pub struct Mirror<'c> {
    /// How large it is, and what may happen.
    pub config: &'c Config,
    /// What is broken.
    pub rules: Rules,
}

/// One thing that happens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// The process dies.
    Kill,
    /// A member does not answer any more; what it comes back with has all its pending stores, or none.
    Die {
        /// Which.
        member: usize,
        /// Whether it has them.
        keeps: bool,
    },
    /// A unit's pending stores never reach its member's medium.
    Lose {
        /// Which member.
        member: usize,
        /// Which unit.
        unit: usize,
    },
    /// A thread begins an operation of the menu, in this lane if it needs one.
    Start {
        /// Which thread.
        thread: usize,
        /// Which operation.
        operation: usize,
        /// Which lane.
        lane: usize,
    },
    /// A thread takes its next step.
    Step(usize),
    /// The roster without the member that does not answer is stored.
    GoOnWithout,
    /// The fence of a stored roster.
    FenceRoster,
    /// The member that is out comes back and is rebuilt.
    Rebuild {
        /// A new one, all zero.
        is_blank: bool,
    },
    /// A block is copied to it.
    Copy(usize),
    /// The roster that calls it in is stored.
    EndRebuild,
    /// The pool is opened with these members at hand.
    Open {
        /// Which, a bit each.
        present: u8,
        /// The operator says that the others are gone.
        is_word_given: bool,
    },
    /// Recovery takes its next step.
    Recover,
    /// Power is lost: how many pending stores each unit keeps, member by member.
    PowerCut(Vec<u8>),
}

impl Model for Mirror<'_> {
    type World = World;
    type Action = Action;

    fn name(&self) -> &'static str {
        self.config.name
    }
    fn begin(&self) -> World {
        World::new(self.config)
    }

    fn possible(&self, world: &World) -> Vec<Action> {
        let mut actions = Vec::new();
        match world.phase {
            Phase::Refused => return actions,
            Phase::Down(up) => return openings(world, up),
            Phase::Running | Phase::Recovering(_) => {}
        }
        if world.left.kills > 0 {
            actions.push(Action::Kill);
        }
        if let Phase::Recovering(_) = world.phase {
            actions.push(Action::Recover);
            return actions;
        }
        self.faults(world, &mut actions);
        self.keeping(world, &mut actions);
        for thread in 0..self.config.threads {
            if self.may_step(world, thread) {
                actions.push(Action::Step(thread));
            }
        }
        self.starts(world, &mut actions);
        actions
    }

    fn pending(&self, world: &World) -> Option<Vec<u8>> {
        let is_up = matches!(world.phase, Phase::Running | Phase::Recovering(_));
        (world.left.power_cuts > 0 && is_up).then(|| {
            let each = world.members.iter();
            each.flat_map(|memory| memory.pending_counts()).collect()
        })
    }

    fn power_cut_matters(&self, world: &World) -> bool {
        let hardens = |job: &Job| match job {
            Job::Idle | Job::WriteBack { .. } => false,
            Job::Commit { step, .. } => *step == CommitStep::Fence,
            Job::Fill { is_fenced, .. } => !is_fenced,
            Job::Checkpoint { step, .. } => *step == 1 || *step == 3,
        };
        match world.phase {
            Phase::Recovering(step) => step == 2 || step == 4,
            Phase::Running => {
                matches!(world.change, Change::Stored { .. })
                    || world.threads.iter().any(hardens)
                    || world.threads.iter().all(|job| *job == Job::Idle)
            }
            Phase::Down(_) | Phase::Refused => false,
        }
    }

    fn power_cut(&self, kept: &[u8]) -> Action {
        Action::PowerCut(kept.to_vec())
    }

    fn apply(&self, world: &mut World, action: &Action) -> Result<(), Violation> {
        let (config, rules) = (self.config, self.rules);
        match action {
            Action::Kill => {
                world.left.kills -= 1;
                world.lose_process();
                world.members.iter_mut().for_each(|memory| memory.kill());
            }
            Action::PowerCut(kept) => {
                world.left.power_cuts -= 1;
                world.lose_process();
                let (first, second) = kept.split_at(world.members[0].pending_counts().len());
                world.members[0].power_cut(first);
                world.members[1].power_cut(second);
            }
            Action::Die { member, keeps } => members::die(world, *member, *keeps),
            Action::Lose { member, unit } => {
                world.left.losses -= 1;
                world.members[*member].lose(*unit);
            }
            Action::Start {
                thread,
                operation,
                lane,
            } => {
                world.left.operations -= 1;
                self.start(world, *thread, config.menu[*operation], *lane)?;
            }
            Action::Step(thread) => match world.threads[*thread] {
                Job::Idle => panic!("an idle thread has no next step"),
                Job::Commit { .. } => commit::step(world, config, rules, *thread)?,
                Job::Fill { .. } => bg::step_fill(world, *thread),
                Job::WriteBack { .. } => bg::step_write_back(world, rules, *thread),
                Job::Checkpoint { .. } => bg::step_checkpoint(world, config, rules, *thread),
            },
            Action::GoOnWithout => members::go_on_without(world, config, rules),
            Action::FenceRoster => members::fence_roster(world, config, rules),
            Action::Rebuild { is_blank } => {
                members::start_rebuild(world, config, rules, *is_blank);
            }
            Action::Copy(key) => members::copy(world, config, *key)?,
            Action::EndRebuild => members::end_rebuild(world, config, rules),
            Action::Open {
                present,
                is_word_given,
            } => {
                world.left.deaths -= u8::from(*is_word_given);
                recovery::open(world, config, rules, *present, *is_word_given)?;
            }
            Action::Recover => self.recover(world)?,
        }
        match world.phase {
            Phase::Running => serve::check(world, config),
            _ => Ok(()),
        }
    }

    fn tell(&self, world: &World, action: &Action) -> String {
        match action {
            Action::Start {
                thread,
                operation,
                lane,
            } => format!(
                "thread {thread} begins {:?}, lane {lane}",
                self.config.menu[*operation]
            ),
            Action::Step(thread) => {
                format!("thread {thread}: {:?}", world.threads[*thread])
            }
            Action::Recover => format!("recovery: {:?}", world.phase),
            Action::Lose { member, unit } => {
                let from = Layout::new(self.config).lanes().start;
                format!("a store to unit {unit} of member {member} is LOST (lanes begin at {from})")
            }
            other => format!("{other:?}, roster {:?}", world.roster),
        }
    }

    fn is_rare(&self, action: &Action) -> bool {
        matches!(
            action,
            Action::Kill | Action::Die { .. } | Action::Lose { .. }
        )
    }

    fn may_end(&self, world: &World) -> bool {
        world.phase == Phase::Refused
            || (world.left.operations == 0
                && world.left.power_cuts == 0
                && world.phase == Phase::Running)
    }
}

/// How a pool that is down may be opened: with all members, those that were away among them; with those that
/// answered last; with one alone, because the other died in the crash.
fn openings(world: &World, up: u8) -> Vec<Action> {
    let open = |present, is_word_given| Action::Open {
        present,
        is_word_given,
    };
    let mut actions = vec![open(ALL, false)];
    if up != ALL {
        actions.push(open(up, false));
        actions.push(open(ALL & !up, false));
    } else if world.left.deaths > 0 {
        // The operator's word about a member that counts: of one that does not it would be the loss of both.
        let counts = |present: &u8| world.called_in & present != 0;
        let alone = [1, 2].into_iter().filter(counts);
        actions.extend(alone.map(|present| open(present, true)));
    }
    actions
}

impl Mirror<'_> {
    fn faults(&self, world: &World, actions: &mut Vec<Action>) {
        for member in (0..MEMBERS).filter(|member| members::may_die(world, *member)) {
            let has_pending = !world.members[member].pending_counts().is_empty();
            actions.push(Action::Die {
                member,
                keeps: false,
            });
            if has_pending {
                actions.push(Action::Die {
                    member,
                    keeps: true,
                });
            }
        }
        if world.left.losses > 0 {
            let lanes = Layout::new(self.config).lanes().start;
            for member in 0..MEMBERS {
                let units = world.members[member].pending_units();
                let lost = units.filter(|unit| *unit >= lanes);
                actions.extend(lost.map(|unit| Action::Lose { member, unit }));
            }
        }
    }

    fn keeping(&self, world: &World, actions: &mut Vec<Action>) {
        if matches!(world.change, Change::Stored { .. }) {
            actions.push(Action::FenceRoster);
        }
        if members::may_go_on_without(world) {
            actions.push(Action::GoOnWithout);
        }
        if members::may_rebuild(world) {
            let each = [false, true].map(|is_blank| Action::Rebuild { is_blank });
            actions.extend(each);
        }
        let copies = (0..KEYS).filter(|key| members::may_copy(world, *key));
        actions.extend(copies.map(Action::Copy));
        if members::may_end_rebuild(world, self.rules) {
            actions.push(Action::EndRebuild);
        }
    }

    fn may_step(&self, world: &World, thread: usize) -> bool {
        match world.threads[thread] {
            Job::Idle => false,
            Job::Commit {
                step, operation, ..
            } => !commit::is_blocked(world, self.rules, step, operation),
            Job::Fill { is_fenced, key, .. } => !is_fenced || world.locked[key as usize] == 0,
            Job::WriteBack {
                is_written, key, ..
            } => !is_written || world.locked[key as usize] == 0,
            Job::Checkpoint { step, bound, .. } => !bg::is_checkpoint_blocked(world, step, bound),
        }
    }

    fn starts(&self, world: &World, actions: &mut Vec<Action>) {
        let config = self.config;
        // Idle threads are alike: only the first one begins anything.
        let idle = (0..config.threads).find(|&thread| world.threads[thread] == Job::Idle);
        let Some(thread) = idle.filter(|_| world.left.operations > 0) else {
            return;
        };
        for (operation, what) in config.menu.iter().enumerate() {
            for lane in 0..config.lanes {
                let may_start = match *what {
                    Operation::Fill(key) => lane == 0 && bg::may_fill(world, config, key),
                    Operation::WriteBack(key) => lane == 0 && bg::may_write_back(world, key),
                    Operation::LetGo(key) => lane == 0 && bg::may_let_go(world, self.rules, key),
                    Operation::Checkpoint => lane == 0 && !world.is_checkpointing,
                    commit => commit::may_start(world, config, commit, lane),
                };
                if may_start {
                    actions.push(Action::Start {
                        thread,
                        operation,
                        lane,
                    });
                }
            }
        }
    }

    fn start(
        &self,
        world: &mut World,
        thread: usize,
        operation: Operation,
        lane: usize,
    ) -> Result<(), Violation> {
        match operation {
            Operation::Fill(key) => bg::start_fill(world, self.config, thread, key),
            Operation::WriteBack(key) => {
                bg::start_write_back(world, self.config, thread, key)?;
            }
            Operation::LetGo(key) => bg::let_go(world, key),
            Operation::Checkpoint => bg::start_checkpoint(world, thread),
            commit => commit::start(world, self.config, self.rules, (thread, commit, lane)),
        }
        Ok(())
    }

    fn recover(&self, world: &mut World) -> Result<(), Violation> {
        let Phase::Recovering(step) = world.phase else {
            panic!("nothing is recovered");
        };
        match step {
            0 => {
                let decided = recovery::plan(world, self.config, self.rules)?;
                recovery::settle(world, self.config, self.rules, &decided);
                world.plan = Some(Box::new(decided));
            }
            1 => {
                let decided = world.plan.clone().expect("decided in step 0");
                recovery::write(world, self.config, &decided);
            }
            // Orders what was written before the switch.
            2 => world.fence(world.roster.members, KEEPER),
            3 => {
                let decided = world.plan.clone().expect("decided in step 0");
                recovery::switch(world, self.config, &decided);
            }
            _ => {
                world.fence(world.roster.members, KEEPER);
                let decided = world.plan.take().expect("decided in step 0");
                recovery::serve(world, self.config, &decided);
                return serve::resolve_doubts(world, self.config);
            }
        }
        world.phase = Phase::Recovering(step + 1);
        Ok(())
    }
}
