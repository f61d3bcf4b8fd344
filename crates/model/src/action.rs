//! What may happen next, doing it, and saying it in words.

use crate::background as bg;
use crate::commit;
use crate::config::{Config, Operation};
use crate::explore::Model;
use crate::media::Layout;
use crate::reopen;
use crate::rules::Rules;
use crate::world::{CommitStep, Job, Phase, Violation, World, describe};

/// A pool with one member, and the rules that it runs under.
#[derive(Clone, Copy, Debug)]
pub struct Single<'c> {
    /// How large it is, and what threads do.
    pub config: &'c Config,
    /// What is broken.
    pub rules: Rules,
}

impl Model for Single<'_> {
    type World = World;
    type Action = Action;

    fn name(&self) -> &'static str {
        self.config.name
    }
    fn begin(&self) -> World {
        World::new(self.config)
    }
    fn possible(&self, world: &World) -> Vec<Action> {
        possible(world, self.config, self.rules)
    }
    fn pending(&self, world: &World) -> Option<Vec<u8>> {
        (world.left.1 > 0).then(|| {
            let mut counts = world.memory.pending_counts();
            counts.extend(world.backing.pending_counts());
            counts
        })
    }
    fn power_cut_matters(&self, world: &World) -> bool {
        power_cut_matters(world)
    }
    fn power_cut(&self, kept: &[u8]) -> Action {
        Action::PowerCut(kept.to_vec())
    }
    fn apply(&self, world: &mut World, action: &Action) -> Result<(), Violation> {
        apply(world, self.config, self.rules, action)
    }
    fn tell(&self, world: &World, action: &Action) -> String {
        tell(world, self.config, action)
    }
    fn is_rare(&self, action: &Action) -> bool {
        *action == Action::Kill
    }
    fn may_end(&self, world: &World) -> bool {
        world.left.0 == 0 && world.left.1 == 0 && world.phase == Phase::Running
    }
}

/// One thing that happens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// A thread begins the operation of this number on the menu, in this lane if it needs one.
    Start {
        /// Which thread.
        thread: usize,
        /// Which operation.
        operation: usize,
        /// Which lane.
        lane: usize,
    },
    /// A thread takes its next step.
    Step {
        /// Which thread.
        thread: usize,
        /// Whether the sync of the backing that this step is fails.
        sync_fails: bool,
    },
    /// Recovery takes its next step.
    Recover,
    /// Power is lost: how many pending stores each unit keeps, those of the pool first, then the backing's.
    PowerCut(Vec<u8>),
    /// The process dies.
    Kill,
}

/// All that may happen, but for power cuts.
pub fn possible(world: &World, config: &Config, rules: Rules) -> Vec<Action> {
    let mut actions = Vec::new();
    if world.left.2 > 0 {
        actions.push(Action::Kill);
    }
    if world.phase != Phase::Running {
        actions.push(Action::Recover);
        return actions;
    }
    for thread in 0..config.threads {
        if may_step(world, rules, thread) {
            actions.push(Action::Step {
                thread,
                sync_fails: false,
            });
            if world.left.3 > 0 && matches!(world.threads[thread], Job::WriteBack { step: 1, .. }) {
                actions.push(Action::Step {
                    thread,
                    sync_fails: true,
                });
            }
        }
    }
    // Idle threads are alike: only the first one begins anything.
    let idle = (0..config.threads).find(|&thread| world.threads[thread] == Job::Idle);
    if let Some(thread) = idle.filter(|_| world.left.0 > 0) {
        for (operation, what) in config.menu.iter().enumerate() {
            for lane in 0..config.lanes {
                if may_start(world, config, rules, *what, lane) {
                    actions.push(Action::Start {
                        thread,
                        operation,
                        lane,
                    });
                }
            }
        }
    }
    actions
}

fn may_start(
    world: &World,
    config: &Config,
    rules: Rules,
    operation: Operation,
    lane: usize,
) -> bool {
    match operation {
        Operation::Commit(changes) => commit::may_start(world, config, changes, lane),
        Operation::Fill(key) => lane == 0 && bg::may_fill(world, config, rules, key),
        Operation::WriteBack(key) => lane == 0 && bg::may_write_back(world, rules, key),
        Operation::Checkpoint => lane == 0 && !world.checkpointing,
    }
}

fn may_step(world: &World, rules: Rules, thread: usize) -> bool {
    match &world.threads[thread] {
        Job::Idle => false,
        Job::Commit { step, parts, .. } => !commit::blocked(world, *step, parts),
        Job::Fill { fenced, key, .. } => !fenced || world.locked[*key as usize] == 0,
        Job::WriteBack { step, key, .. } => *step < 2 || world.locked[*key as usize] == 0,
        Job::Checkpoint { step, bound, .. } => !bg::checkpoint_blocked(world, rules, *step, *bound),
    }
}

/// Whether a power cut now leaves images that none a step later leaves: before a step that makes stores durable, and where nothing runs.
pub fn power_cut_matters(world: &World) -> bool {
    if let Phase::Down(step) = world.phase {
        return step == 2 || step == 4;
    }
    let hardens = |job: &Job| match job {
        Job::Idle => false,
        Job::Commit { step, .. } => matches!(step, CommitStep::Fence | CommitStep::WordFence),
        Job::Fill { fenced, .. } => !fenced,
        Job::WriteBack { step, .. } => *step == 1,
        Job::Checkpoint { step, .. } => *step == 1 || *step == 3,
    };
    world.threads.iter().any(hardens) || world.threads.iter().all(|job| *job == Job::Idle)
}

/// Does it.
pub fn apply(
    world: &mut World,
    config: &Config,
    rules: Rules,
    action: &Action,
) -> Result<(), Violation> {
    match action {
        Action::Start {
            thread,
            operation,
            lane,
        } => {
            world.left.0 -= 1;
            start(world, config, *thread, config.menu[*operation], *lane);
        }
        Action::Step { thread, sync_fails } => {
            world.left.3 -= u8::from(*sync_fails);
            match world.threads[*thread] {
                Job::Idle => panic!("an idle thread has no next step"),
                Job::Commit { .. } => commit::step(world, config, rules, *thread)?,
                Job::Fill { .. } => bg::step_fill(world, config, rules, *thread),
                Job::WriteBack { .. } => {
                    bg::step_write_back(world, config, rules, *thread, *sync_fails)
                }
                Job::Checkpoint { .. } => bg::step_checkpoint(world, config, rules, *thread)?,
            }
        }
        Action::Recover => reopen::step(world, config, rules)?,
        Action::PowerCut(kept) => {
            world.left.1 -= 1;
            world.lose_process();
            let (pool, backing) = kept.split_at(world.memory.pending_counts().len());
            world.memory.power_cut(pool);
            world.backing.power_cut(backing);
        }
        Action::Kill => {
            world.left.2 -= 1;
            world.lose_process();
            world.memory.kill();
        }
    }
    if world.phase == Phase::Running {
        reopen::check_reads(world, config)
    } else {
        Ok(())
    }
}

fn start(world: &mut World, config: &Config, thread: usize, operation: Operation, lane: usize) {
    let layout = Layout::new(config);
    match operation {
        Operation::Commit(changes) => commit::start(world, layout, thread, changes, lane),
        Operation::Fill(key) => bg::start_fill(world, layout, thread, key),
        Operation::WriteBack(key) => bg::start_write_back(world, layout, thread, key),
        Operation::Checkpoint => bg::start_checkpoint(world, thread),
    }
}

/// The action in words, told before it is done.
pub fn tell(world: &World, config: &Config, action: &Action) -> String {
    match action {
        Action::Start {
            thread,
            operation,
            lane,
        } => {
            let what = config.menu[*operation];
            let lane = if matches!(what, Operation::Commit(_)) {
                format!(", lane {lane}")
            } else {
                String::new()
            };
            format!("thread {thread} begins {}{lane}", describe(what))
        }
        Action::Step { thread, sync_fails } => format!(
            "thread {thread}: {}",
            tell_step(world, *thread, *sync_fails)
        ),
        Action::Recover => {
            let Phase::Down(step) = world.phase else {
                return "recovery".into();
            };
            let steps = [
                "reads, classifies, plans",
                "stores entries and deltas",
                "fence",
                "stores the new incarnation",
                "fence, serves",
            ];
            format!("recovery: {}", steps[step as usize])
        }
        Action::PowerCut(kept) => {
            format!("POWER CUT; stores kept of each pending unit, the backing's last: {kept:?}")
        }
        Action::Kill => {
            "KILL of the process; every store stays visible, pending ones stay pending".into()
        }
    }
}

fn tell_step(world: &World, thread: usize, sync_fails: bool) -> String {
    match &world.threads[thread] {
        Job::Idle => "idle".into(),
        Job::Commit {
            step,
            parts,
            lane,
            sequence,
        } => {
            let keys: Vec<_> = parts.iter().flatten().map(|part| part.key).collect();
            match step {
                CommitStep::Lock => format!("locks keys {keys:?}"),
                CommitStep::Record => {
                    let slots: Vec<_> = parts
                        .iter()
                        .flatten()
                        .map(|part| part.new.and_then(|n| n.entry.slot))
                        .collect();
                    format!(
                        "streams record {} of keys {keys:?} into lane {lane}, slots {slots:?}",
                        world.next_sequence
                    )
                }
                CommitStep::Fence => format!("fence of record {sequence}"),
                CommitStep::Word => format!("stores the commit word of record {sequence}"),
                CommitStep::WordFence => format!("fence of the commit word of record {sequence}"),
                CommitStep::Publish => format!("publishes record {sequence}"),
                CommitStep::Finish => format!("releases and unlocks, record {sequence}"),
            }
        }
        Job::Fill {
            fenced: false,
            key,
            slot,
            ..
        } => format!("fence of the fill of key {key} in slot {slot}"),
        Job::Fill { key, .. } => format!("installs the fill of key {key}"),
        Job::WriteBack {
            step: 0,
            key,
            content,
            ..
        } => format!("writes {content:?} of key {key} to the backing"),
        Job::WriteBack { step: 1, .. } if sync_fails => "sync of the backing FAILS".into(),
        Job::WriteBack { step: 1, .. } => "syncs the backing".into(),
        Job::WriteBack { key, .. } => format!("marks key {key} clean if nothing changed"),
        Job::Checkpoint { step, bound, .. } => {
            let steps = [
                "flushes what is marked",
                "fence",
                "stores S",
                "fence, hands lane bytes out",
            ];
            format!("checkpoint of S {}: {}", bound - 1, steps[*step as usize])
        }
    }
}
