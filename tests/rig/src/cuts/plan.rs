//! Which power cuts a run makes: a list that its seed alone decides.

use forebay_lab::engines::EngineName;
use forebay_pmem::shadow::ShadowModel;

use super::file_system::{FileSystem, Verdict};

/// What is cut, or which control it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The guest is killed; the daemon serves on.
    Guest,
    /// The daemon is killed; the guest, whose disk is dead, too, a little later.
    Daemon,
    /// Both are killed at once.
    Both,
    /// The power fails for pool, backing and guest: a state that this could leave is sampled.
    Shadow(ShadowModel),
    /// The same of a pool on an SSD, which has or loses units of so many bytes.
    Ssd(Unit),
    /// Control: the guest is killed and its programs had not waited for fsync.
    WithoutFsync,
    /// Control: as `Shadow`, with a server that answers before it has written.
    EarlyAnswers,
    /// Control: as `Ssd`, on a disk that calls durable what is in its cache alone.
    FlushesIgnored,
    /// Control: as `Shadow`, with a commit that leaves its fence out. Of builds with mutants only.
    WithoutFence,
    /// Control: as `Ssd`, with groups that are acknowledged before they are durable. Of builds with mutants only.
    WithoutDurableGroups,
}

/// What a disk has or loses as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// 512 bytes.
    Sector,
    /// 4096 bytes.
    Page,
}

impl Unit {
    /// How many.
    pub fn bytes(self) -> usize {
        match self {
            Unit::Sector => 512,
            Unit::Page => 4096,
        }
    }
}

impl Kind {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Guest => "guest killed",
            Kind::Daemon => "daemon killed",
            Kind::Both => "guest and daemon killed",
            Kind::Shadow(ShadowModel::Lines) => "power cut, persistent memory",
            Kind::Shadow(ShadowModel::Pages) => "power cut, plain file",
            Kind::Ssd(Unit::Sector) => "power cut, SSD of 512-byte units",
            Kind::Ssd(Unit::Page) => "power cut, SSD of 4096-byte units",
            Kind::WithoutFsync => "control without fsync",
            Kind::EarlyAnswers => "control that answers early",
            Kind::FlushesIgnored => "control on an SSD that ignores flushes",
            Kind::WithoutFence => "control without the commit's fence",
            Kind::WithoutDurableGroups => "control on an SSD without durable groups",
        }
    }

    /// Whether something acknowledged has to be lost.
    pub fn is_control(self) -> bool {
        matches!(
            self,
            Kind::WithoutFsync
                | Kind::EarlyAnswers
                | Kind::FlushesIgnored
                | Kind::WithoutFence
                | Kind::WithoutDurableGroups
        )
    }

    /// Whether the states after its cuts are sampled.
    pub fn is_shadow(self) -> bool {
        matches!(self, Kind::Shadow(_)) || self.is_ssd()
    }

    /// Units of the disk that the pool is on, if it is on one.
    pub fn unit(self) -> Option<Unit> {
        match self {
            Kind::Ssd(unit) => Some(unit),
            Kind::FlushesIgnored | Kind::WithoutDurableGroups => Some(Unit::Sector),
            _ => None,
        }
    }

    /// What the memory that the pool is in loses.
    pub fn model(self) -> ShadowModel {
        match self {
            Kind::Shadow(model) => model,
            _ => ShadowModel::Lines,
        }
    }

    /// Whether the states after its cuts are sampled, of pools on an SSD.
    pub fn is_ssd(self) -> bool {
        matches!(self, Kind::Ssd(_))
    }
}

/// Cuts of one kind, of one file system.
#[derive(Clone, Debug)]
pub struct Session {
    /// Whose cache it is that has to keep what was acknowledged.
    pub engine: EngineName,
    /// The kind.
    pub kind: Kind,
    /// The file system.
    pub file_system: FileSystem,
    /// Decides what it does.
    pub seed: u64,
    /// The number of its first round.
    pub first_round: u32,
    /// How many rounds it has.
    pub rounds: u32,
}

/// One power cut, verified.
#[derive(Clone, Debug)]
pub struct Round {
    /// Its number in the run.
    pub number: u32,
    /// Steps that had been acknowledged, by all threads together.
    pub acknowledged: u64,
    /// Lines and sectors that the sampled state could keep or lose; 0 where nothing is sampled.
    pub undecided: u64,
    /// Segments of the log that had been reused before the cut, of a pool on an SSD.
    pub segments_reused: u64,
    /// What became of them.
    pub verdict: Verdict,
}

/// A seed that has nothing in common with those of other numbers: choices of neighbouring seeds are often the same.
fn apart(seed: u64, number: u64) -> u64 {
    seed ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

impl Session {
    /// What decides how the cut of a round is sampled; a round can be sampled alone.
    pub fn sampling_seed(&self, round: u32) -> u64 {
        apart(self.seed, u64::from(round))
    }

    /// The same again, with other steps.
    pub fn attempt(&self, attempt: u64) -> Session {
        Session {
            seed: apart(self.seed, attempt),
            ..self.clone()
        }
    }

    /// In words.
    pub fn name(&self) -> String {
        let (kind, file_system) = (self.kind.name(), self.file_system.name());
        match self.engine {
            EngineName::Forebay => format!("{kind}, {file_system}"),
            engine => format!("{engine}: {kind}, {file_system}"),
        }
    }
}

/// The published designs that are cut too: the one that a file system's journal lies on in its paper,
/// and the one that came to replace it.
const DESIGNS: [EngineName; 2] = [EngineName::Classic, EngineName::Tinca];

/// How many rounds sessions have.
struct Extent {
    killed: u32,
    shadow: u32,
    shadow_sessions: u32,
    ssd: u32,
    controls: u32,
}

const FULL: Extent = Extent {
    killed: 8,
    shadow: 7,
    shadow_sessions: 2,
    ssd: 9,
    controls: 2,
};

/// The whole list: at least 200 rounds, more than 100 of them sampled, and of these at least 50 of a pool on an SSD under ext4
/// and XFS, not counting controls.
pub fn full(seed: u64) -> Vec<Session> {
    let mut list = List::new(seed);
    for file_system in FileSystem::ALL {
        for kind in [Kind::Guest, Kind::Daemon, Kind::Both] {
            list.add(kind, file_system, FULL.killed);
        }
        for model in [ShadowModel::Lines, ShadowModel::Pages] {
            for _ in 0..FULL.shadow_sessions {
                list.add(Kind::Shadow(model), file_system, FULL.shadow);
            }
        }
        for unit in [Unit::Sector, Unit::Page] {
            list.add(Kind::Ssd(unit), file_system, FULL.ssd);
        }
        list.add(Kind::WithoutFsync, file_system, FULL.controls);
        list.add(Kind::EarlyAnswers, file_system, FULL.controls);
        list.add(Kind::FlushesIgnored, file_system, FULL.controls);
    }
    for engine in DESIGNS {
        for file_system in [FileSystem::Ext4Ordered, FileSystem::Ext4Journal] {
            list.add_of(engine, Kind::Both, file_system, FULL.killed);
            let memory = Kind::Shadow(ShadowModel::Lines);
            list.add_of(engine, memory, file_system, FULL.shadow);
        }
    }
    list.sessions
}

/// The controls of a build with mutants.
pub fn mutants(seed: u64) -> Vec<Session> {
    let mut list = List::new(seed);
    for file_system in FileSystem::ALL {
        list.add(Kind::WithoutFence, file_system, FULL.controls);
        list.add(Kind::WithoutDurableGroups, file_system, FULL.controls);
    }
    list.sessions
}

/// The list of `make test`: every kind, and every file system once.
pub fn quick(seed: u64) -> Vec<Session> {
    let mut list = List::new(seed);
    list.add(Kind::Guest, FileSystem::Ext4Ordered, 2);
    list.add(Kind::Daemon, FileSystem::Xfs, 2);
    list.add(Kind::Both, FileSystem::Ext4Journal, 2);
    let memory = Kind::Shadow(ShadowModel::Lines);
    list.add(memory, FileSystem::Ext4Ordered, 4);
    list.add(Kind::Shadow(ShadowModel::Pages), FileSystem::Btrfs, 4);
    list.add(Kind::Ssd(Unit::Sector), FileSystem::Ext4Ordered, 4);
    list.add(Kind::Ssd(Unit::Page), FileSystem::Xfs, 4);
    list.add(Kind::FlushesIgnored, FileSystem::Ext4Ordered, 2);
    list.add(Kind::WithoutFsync, FileSystem::Ext4Ordered, 1);
    list.add(Kind::EarlyAnswers, FileSystem::Ext4Ordered, 2);
    for engine in DESIGNS {
        list.add_of(engine, Kind::Both, FileSystem::Ext4Journal, 1);
        list.add_of(engine, memory, FileSystem::Ext4Journal, 3);
    }
    list.sessions
}

struct List {
    rng: fastrand::Rng,
    next_round: u32,
    sessions: Vec<Session>,
}

impl List {
    fn new(seed: u64) -> List {
        List {
            rng: fastrand::Rng::with_seed(seed),
            next_round: 1,
            sessions: Vec::new(),
        }
    }

    fn add(&mut self, kind: Kind, file_system: FileSystem, rounds: u32) {
        self.add_of(EngineName::Forebay, kind, file_system, rounds);
    }

    fn add_of(&mut self, engine: EngineName, kind: Kind, file_system: FileSystem, rounds: u32) {
        self.sessions.push(Session {
            engine,
            kind,
            file_system,
            seed: self.rng.u64(..),
            first_round: self.next_round,
            rounds,
        });
        self.next_round += rounds;
    }
}

/// The session of one round only, ending with it.
pub fn only(sessions: Vec<Session>, round: u32) -> Vec<Session> {
    let is_in = |session: &Session| {
        (session.first_round..session.first_round + session.rounds).contains(&round)
    };
    let mut sessions: Vec<Session> = sessions.into_iter().filter(is_in).collect();
    for session in &mut sessions {
        session.rounds = round + 1 - session.first_round;
    }
    sessions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_full_list_has_enough_of_everything() {
        let sessions = full(1);
        let sum = |is: fn(Kind) -> bool| {
            let of_kind = sessions.iter().filter(|session| is(session.kind));
            of_kind.map(|session| session.rounds).sum::<u32>()
        };
        assert!(sum(|kind| !kind.is_control()) >= 200);
        assert!(sum(Kind::is_shadow) >= 100);
        assert!(sum(Kind::is_control) >= 2);
        let ssd = sessions.iter().filter(|session| session.kind.is_ssd());
        let ssd = ssd.filter(|session| session.file_system != FileSystem::Btrfs);
        assert!(ssd.map(|session| session.rounds).sum::<u32>() >= 50);
        let sessions = quick(1);
        let rounds = sessions.iter().filter(|session| !session.kind.is_control());
        assert!(rounds.map(|session| session.rounds).sum::<u32>() >= 10);
    }

    #[test]
    fn a_control_that_is_tried_again_is_not_sampled_alike() {
        // The first choice decides how much of a cut is kept. With seeds that differ in their last bits it was the same
        // in two attempts of two rounds in one session out of fifty: a control lost nothing.
        let choice = |session: &Session, round| {
            fastrand::Rng::with_seed(session.sampling_seed(round)).u8(..8)
        };
        let is_alike = |session: &&Session| {
            let first = choice(session, 23);
            let mut choices = (0..2)
                .flat_map(|attempt| [23, 24].map(|round| choice(&session.attempt(attempt), round)));
            choices.all(|choice| choice == first)
        };
        let alike = (0..100).map(|seed| full(seed).iter().filter(is_alike).count());
        let of = 100 * full(0).len();
        // One in 512 by chance.
        assert!(alike.sum::<usize>() < of / 256, "of {of}");
    }

    #[test]
    fn a_round_is_found_again() {
        let sessions = full(7);
        let last = sessions.last().unwrap();
        let found = only(sessions.clone(), last.first_round + 1);
        assert_eq!((found.len(), found[0].rounds), (1, 2));
        assert_eq!(found[0].seed, full(7).last().unwrap().seed);
        assert!(only(sessions, 1_000_000).is_empty());
    }
}
