//! What may happen next, doing it, and saying it in words.

use super::config::Config;
use super::media::Layout;
use super::rules::{Mutant, Rules};
use super::world::{FLIP, Job, KEEPER, Kind, Opening, PROGRAM, PassStep, Phase, World};
use super::{foreign, pass, recovery, truth, verify};
use crate::explore::Model;
use crate::memory::Word;
use crate::world::Violation;

/// A mapped region, and the rules that it is kept by.
#[derive(Clone, Copy, Debug)]
pub struct Extent<'c> {
    /// How large it is, and what may happen.
    pub config: &'c Config,
    /// What is broken.
    pub rules: Rules,
}

/// One thing that happens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Our process dies; in a world without a program of its own the program is the same process.
    Kill,
    /// An extent and its sidecar do not answer any more; what they come back with has all their pending stores, or none.
    Die {
        /// Which.
        device: usize,
        /// Whether they have them.
        keeps: bool,
    },
    /// What died is there again, as it was, in the place of a new one if there is one.
    Return,
    /// A page turns over on the medium.
    Flip(usize),
    /// The pending stores to a page of parity or a sum never reach the medium.
    Lose {
        /// Which extent's.
        device: usize,
        /// Which unit.
        unit: usize,
    },
    /// The program stores to a page.
    Store(usize),
    /// The program makes all that it stored durable.
    ProgramFence,
    /// A program opens the extent.
    ProgramOpen,
    /// It ends.
    ProgramExit,
    /// Our process opens the region.
    Open,
    /// A pass begins.
    Pass(Kind),
    /// A verify of a row begins.
    Verify(usize),
    /// The kernel lets a waiting program in, whatever the keeper does.
    BreakLease,
    /// The keeper lets a waiting program in.
    LetGo,
    /// The keeper ends in order.
    Stop,
    /// Our process takes its next step.
    Step,
    /// Power is lost: how many pending stores each unit keeps, extent by extent; the last counts are the file's times and whether it
    /// is closed to programs.
    PowerCut(Vec<u8>),
}

impl Model for Extent<'_> {
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
        if world.phase == Phase::Refused {
            return actions;
        }
        self.faults(world, &mut actions);
        self.program(world, &mut actions);
        match world.phase {
            Phase::Down if world.left.opens > 0 => actions.push(Action::Open),
            Phase::Opening(_) => actions.push(Action::Step),
            Phase::Running if world.job != Job::Idle => actions.push(Action::Step),
            Phase::Running => self.starts(world, &mut actions),
            Phase::Down | Phase::Refused => {}
        }
        actions
    }

    fn pending(&self, world: &World) -> Option<Vec<u8>> {
        let is_up = world.phase != Phase::Refused;
        (world.left.power_cuts > 0 && is_up).then(|| {
            let each = world.devices.iter();
            let mut counts: Vec<u8> = each.flat_map(|memory| memory.pending_counts()).collect();
            counts.push(u8::from(world.has_moved.0 != world.has_moved.1));
            counts.push(u8::from(world.is_closed.0 != world.is_closed.1));
            counts
        })
    }

    fn power_cut_matters(&self, world: &World) -> bool {
        match world.phase {
            Phase::Down => true,
            Phase::Refused => false,
            Phase::Opening(at) => matches!(
                at,
                Opening::MarkFence | Opening::WriteFence | Opening::SumsFence | Opening::LinesFence
            ),
            Phase::Running => match world.job {
                Job::Idle => true,
                Job::Pass(pass) => matches!(pass.step, PassStep::Fence | PassStep::LastFence),
                Job::Verify { step, .. } => step == 3,
                Job::Seal(at) | Job::Stop(at) => at == 2,
                Job::LetGo(at) => at == 1,
            },
        }
    }

    fn power_cut(&self, kept: &[u8]) -> Action {
        Action::PowerCut(kept.to_vec())
    }

    fn apply(&self, world: &mut World, action: &Action) -> Result<(), Violation> {
        let config = self.config;
        match *action {
            Action::Kill => {
                world.left.kills -= 1;
                world.lose_process(config);
            }
            Action::Die { device, keeps } => self.die(world, device, keeps),
            Action::Return => return self.come_back(world),
            Action::Flip(page) => {
                self.damage(world);
                let layout = Layout::new(config);
                let content = world.page(config, page) ^ FLIP;
                let extent = &mut world.devices[layout.extent(page)];
                extent.format(layout.page(page), Word::from(content));
            }
            Action::Lose { device, unit } => {
                self.damage(world);
                world.devices[device].lose(unit);
            }
            Action::Store(page) => self.store(world, page),
            Action::ProgramFence => self.program_fence(world),
            Action::ProgramOpen => {
                world.left.program_opens -= 1;
                foreign::program_opens(world);
            }
            Action::ProgramExit => world.is_mapped = false,
            Action::Open => {
                world.left.opens -= 1;
                recovery::start(world, config);
            }
            Action::Pass(kind) => self.start_pass(world, kind),
            Action::Verify(row) => {
                world.left.verifies -= 1;
                world.job = Job::Verify {
                    row,
                    step: 0,
                    fix: None,
                };
            }
            Action::BreakLease => foreign::break_lease(world, config),
            Action::LetGo => world.job = Job::LetGo(0),
            Action::Stop => {
                world.left.stops -= 1;
                world.job = Job::Stop(0);
            }
            Action::Step => return self.step(world),
            Action::PowerCut(ref kept) => return self.cut(world, kept),
        }
        Ok(())
    }

    fn tell(&self, world: &World, action: &Action) -> String {
        match action {
            Action::Kill => "our process is killed".to_string(),
            Action::Die { device, keeps } => format!(
                "{} dies with its sidecar, {} its pending stores",
                self.device(*device),
                if *keeps { "with" } else { "without" }
            ),
            Action::Return => "what died comes back as it was".to_string(),
            Action::Flip(page) => format!("page {page} is flipped on the medium"),
            Action::Lose { device, unit } => {
                format!("a write to {} is lost: unit {unit}", self.device(*device))
            }
            Action::Store(page) => {
                format!(
                    "the program stores value {} to page {page}",
                    world.next_store + 1
                )
            }
            Action::ProgramFence => "the program flushes what it stored, and fences".to_string(),
            Action::ProgramOpen if world.has_lease => {
                "a program opens the extent and waits for the lease".to_string()
            }
            Action::ProgramOpen => "a program opens the extent".to_string(),
            Action::ProgramExit => "the program ends".to_string(),
            Action::Open => "our process starts".to_string(),
            Action::Pass(kind) => format!(
                "a pass begins ({kind:?}), pages {:04b}",
                pass::found(world, self.config)
            ),
            Action::Verify(row) => format!("verify of row {row} begins"),
            Action::BreakLease => "the kernel breaks the lease".to_string(),
            Action::LetGo => "the keeper hears of the program that waits".to_string(),
            Action::Stop => "the keeper begins to end in order".to_string(),
            Action::Step => match (world.phase, world.job) {
                (Phase::Opening(at), _) => format!("open: {at:?}"),
                (_, Job::Pass(pass)) => format!("pass: {:?}", pass.step),
                (_, job) => format!("{job:?}"),
            },
            Action::PowerCut(kept) => {
                format!("power cut that keeps {kept:?} of the pending stores")
            }
        }
    }

    fn is_rare(&self, action: &Action) -> bool {
        matches!(
            action,
            Action::Kill | Action::Die { .. } | Action::Flip(_) | Action::Lose { .. }
        )
    }

    fn may_end(&self, world: &World) -> bool {
        world.phase == Phase::Refused
            || (world.phase == Phase::Running
                && world.job == Job::Idle
                && world.left.power_cuts == 0
                && world.left.stores == 0)
    }
}

impl Extent<'_> {
    fn device(&self, device: usize) -> String {
        if device == self.config.width {
            "the parity".to_string()
        } else {
            format!("extent {device}")
        }
    }

    fn faults(&self, world: &World, actions: &mut Vec<Action>) {
        let is_up = world.phase != Phase::Down;
        if world.left.kills > 0 && is_up {
            actions.push(Action::Kill);
        }
        if world.left.deaths > 0 && world.is_whole() {
            for device in 0..self.config.devices() {
                let has_pending = !world.devices[device].pending_counts().is_empty();
                actions.push(Action::Die {
                    device,
                    keeps: false,
                });
                if has_pending {
                    actions.push(Action::Die {
                        device,
                        keeps: true,
                    });
                }
            }
        }
        if world.left.damages > 0 {
            self.damages(world, actions);
        }
        if world.left.returns > 0 && world.phase == Phase::Down && world.shelf.is_some() {
            actions.push(Action::Return);
        }
    }

    fn damages(&self, world: &World, actions: &mut Vec<Action>) {
        let layout = Layout::new(self.config);
        // While a program of its own may store nothing tells a flip from a store.
        let may_flip = if self.config.is_foreign {
            world.has_lease && !world.is_open && world.phase == Phase::Running
        } else {
            !matches!(world.phase, Phase::Opening(_))
        };
        for page in 0..self.config.all() {
            let extent = layout.extent(page);
            let is_quiet = world.devices[extent]
                .pending_units()
                .all(|unit| unit != layout.page(page));
            if may_flip && is_quiet && world.alive & (1 << extent) != 0 {
                actions.push(Action::Flip(page));
            }
        }
        for device in 0..self.config.devices() {
            let is_parity = device == self.config.width;
            let lost = world.devices[device].pending_units();
            let lost =
                lost.filter(|&unit| unit > layout.line() || (is_parity && unit < layout.line()));
            actions.extend(lost.map(|unit| Action::Lose { device, unit }));
        }
    }

    fn program(&self, world: &World, actions: &mut Vec<Action>) {
        if world.is_mapped && world.is_whole() {
            if world.left.stores > 0 && !world.is_held {
                actions.extend((0..self.config.all()).map(Action::Store));
            }
            let is_dirty = world.truth.iter().any(|values| values.len() > 1);
            if world.left.program_fences > 0 && is_dirty {
                actions.push(Action::ProgramFence);
            }
        }
        if self.config.is_foreign {
            let is_out = !world.is_mapped && !world.is_waiting && world.is_whole();
            if is_out && !world.is_closed.0 && world.left.program_opens > 0 {
                actions.push(Action::ProgramOpen);
            }
            if world.is_mapped {
                actions.push(Action::ProgramExit);
            }
            // A repair looks at the lease right before it stores, which the kernel could break no later than that.
            let is_repairing = matches!(world.job, Job::Verify { .. });
            let may_break = world.is_waiting && world.phase == Phase::Running && !is_repairing;
            if may_break && world.left.breaks > 0 {
                actions.push(Action::BreakLease);
            }
        }
    }

    /// What our process may begin when it does nothing.
    fn starts(&self, world: &World, actions: &mut Vec<Action>) {
        let config = self.config;
        let has_found = pass::found(world, config) & !world.damaged != 0;
        if config.is_foreign {
            if world.is_waiting || (!world.has_lease && !world.is_open) {
                actions.push(Action::LetGo);
            }
            if world.is_open && has_found && world.left.passes > 0 {
                actions.push(Action::Pass(Kind::Timed));
            }
            let may_seal = !world.is_mapped || self.rules.breaks(Mutant::SealedWithoutLease);
            if world.is_open && may_seal && world.left.closes > 0 {
                actions.push(Action::Pass(Kind::Last));
            }
            if world.is_open || !world.has_lease {
                return;
            }
            if world.left.stops > 0 && !world.is_waiting {
                actions.push(Action::Stop);
            }
        } else {
            if has_found && world.left.passes > 0 {
                actions.push(Action::Pass(Kind::Timed));
            }
            if has_found && world.left.syncs > 0 {
                actions.push(Action::Pass(Kind::Sync));
            }
            if world.left.closes > 0 {
                actions.push(Action::Pass(Kind::Last));
            }
        }
        if world.left.verifies > 0 {
            actions.extend((0..config.pages).map(Action::Verify));
        }
    }

    fn start_pass(&self, world: &mut World, kind: Kind) {
        match kind {
            Kind::Timed => world.left.passes -= 1,
            Kind::Sync => world.left.syncs -= 1,
            Kind::Last => {
                world.left.closes -= 1;
                if self.config.is_foreign && !self.rules.breaks(Mutant::SealedWithoutLease) {
                    world.has_lease = true;
                } else if !self.config.is_foreign {
                    world.is_mapped = self.rules.breaks(Mutant::SealedWhileMapped);
                }
            }
        }
        pass::start(world, self.config, self.rules, kind);
    }

    fn step(&self, world: &mut World) -> Result<(), Violation> {
        let (config, rules) = (self.config, self.rules);
        if let Phase::Opening(at) = world.phase {
            return recovery::step(world, config, rules, at);
        }
        match world.job {
            Job::Idle => panic!("nothing is under way"),
            Job::Pass(pass) => pass::step(world, config, rules, pass),
            Job::Verify { row, step, fix } => verify::step(world, config, rules, (row, step, fix)),
            Job::Seal(at) => verify::seal_step(world, config, rules, at),
            Job::Stop(at) => {
                foreign::stop(world, config, rules, at);
                Ok(())
            }
            Job::LetGo(at) => {
                foreign::let_go(world, config, at);
                Ok(())
            }
        }
    }

    fn store(&self, world: &mut World, page: usize) {
        let layout = Layout::new(self.config);
        world.left.stores -= 1;
        let value = 1 << world.next_store;
        world.next_store += 1;
        world.devices[layout.extent(page)].store(layout.page(page), Word::from(value));
        world.truth[page].push(value);
        world.covered &= !(1 << self.config.row(page));
        if self.config.is_foreign {
            world.has_moved.0 = self.config.is_evidence_told;
        } else {
            world.written |= 1 << page;
        }
    }

    fn program_fence(&self, world: &mut World) {
        let layout = Layout::new(self.config);
        world.left.program_fences -= 1;
        for page in 0..self.config.all() {
            world.devices[layout.extent(page)].flush(PROGRAM, layout.page(page));
            world.truth[page] = vec![truth::last(world, page)];
        }
        for device in &mut world.devices {
            device.fence(PROGRAM);
        }
    }

    fn die(&self, world: &mut World, device: usize, keeps: bool) {
        world.left.deaths -= 1;
        // A program of its own has the data mapped, and gets SIGBUS; ours stops at any sidecar.
        if world.phase != Phase::Down {
            world.lose_process(self.config);
        }
        if device < self.config.width {
            world.is_mapped = false;
        }
        world.alive &= !(1 << device);
        let mut was = world.devices[device].clone();
        if keeps {
            was.sync();
        } else {
            was.drop_pending();
        }
        world.devices[device].drop_pending();
        world.shelf = (self.config.returns > 0).then_some((device, was));
    }

    fn come_back(&self, world: &mut World) -> Result<(), Violation> {
        let layout = Layout::new(self.config);
        world.left.returns -= 1;
        let (device, memory) = world.shelf.take().expect("one died");
        let was_replaced = world.alive & (1 << device) != 0;
        world.devices[device] = memory;
        world.alive |= 1 << device;
        if was_replaced {
            world.away |= 1 << device;
            return Ok(());
        }
        for page in (0..self.config.all()).filter(|page| layout.extent(*page) == device) {
            truth::settle(world, self.config, page)?;
        }
        Ok(())
    }

    fn damage(&self, world: &mut World) {
        world.left.damages -= 1;
        world.is_struck = true;
    }

    fn cut(&self, world: &mut World, kept: &[u8]) -> Result<(), Violation> {
        let mut from = 0;
        for memory in &mut world.devices {
            let until = from + memory.pending_counts().len();
            memory.power_cut(&kept[from..until]);
            from = until;
        }
        let attributes = [&mut world.has_moved, &mut world.is_closed];
        for (attribute, kept) in attributes.into_iter().zip(&kept[from..]) {
            let left = if *kept == 0 { attribute.1 } else { attribute.0 };
            *attribute = (left, left);
        }
        world.left.power_cuts -= 1;
        world.boot += 1;
        world.lose_process(self.config);
        world.is_mapped = false;
        let layout = Layout::new(self.config);
        for page in 0..self.config.all() {
            if world.alive & (1 << layout.extent(page)) != 0 {
                truth::settle(world, self.config, page)?;
            }
        }
        Ok(())
    }
}

/// The keeper's thread is not the program's: a fence of one orders nothing of the other.
const _: () = assert!(KEEPER != PROGRAM);
