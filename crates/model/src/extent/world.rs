//! The state of one region, the program that stores into it, our process, and what must hold of each page.

use super::config::{ALL_MAX, Config, DEVICES_MAX};
use super::media::{Layout, Line, State, Sum};
use crate::memory::{Memory, Word};

/// The program's thread.
pub const PROGRAM: usize = 0;
/// Ours.
pub const KEEPER: usize = 1;
/// What a flip turns over.
pub const FLIP: u32 = 1 << 20;
/// The first stores of a program are the bits from 0, the pages' first contents those from here: no XOR of some is another.
const FIRST_CONTENT: u32 = 12;

/// Why a pass runs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// A clock began it.
    Timed,
    /// `sync` of the whole region.
    Sync,
    /// The last one before a seal.
    Last,
}

/// The next step of a pass.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PassStep {
    /// Copy one more page.
    Copy,
    /// Look which pages were written since.
    Rescan,
    /// Flush the pages, stream the parity.
    Stream,
    /// The fence before the sums.
    Fence,
    /// Store the sums in both sidecars.
    Sums,
    /// The fence after them.
    LastFence,
}

/// A pass under way.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Pass {
    /// Why.
    pub kind: Kind,
    /// Its next step.
    pub step: PassStep,
    /// The pages that it took as written, a bit each.
    pub taken: u8,
    /// The pages that it sums, a bit each: no others, but for a mutant.
    pub summed: u8,
    /// The rows that it is about, a bit each.
    pub rows: u8,
    /// The pages that were copied so far.
    pub copied: u8,
    /// Their copies.
    pub copies: [u32; ALL_MAX],
    /// What each page held when `sync` was called.
    pub asked: [u32; ALL_MAX],
}

/// What a verify puts right.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Fix {
    /// A data page, from its row.
    Page(usize, u32),
    /// A row's parity.
    Parity(usize, u32),
    /// The sums of a page, of which one is old.
    Sums(usize),
}

/// What our process is doing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Job {
    /// Nothing.
    Idle,
    /// A pass.
    Pass(Pass),
    /// A verify of a row: 0 judge, 1 hold and judge again, 2 store, 3 fence and release.
    Verify {
        /// Which row.
        row: usize,
        /// The next step.
        step: u8,
        /// What it found.
        fix: Option<Fix>,
    },
    /// After the last pass: 0 read back, 1 store the mark, 2 fence.
    Seal(u8),
    /// The keeper ends in order: 0 close the extent to programs, 1 store the line if
    /// none waits, 2 fence.
    Stop(u8),
    /// A program waits for the lease: 0 store the mark `open`, 1 fence, 2 let the lease go.
    LetGo(u8),
}

/// What an open has decided of each page.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Plan {
    /// The newest line was a seal that may be believed.
    pub is_orderly: bool,
    /// Extents that were away or are new, a bit each.
    pub behind: u8,
    /// The sum that each page gets, and by which its content is decided.
    pub sums: [Sum; ALL_MAX],
    /// Rows whose parity is stored.
    pub rows: u8,
    /// Pages whose content is stored.
    pub stored: u8,
}

/// The next step of an open.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Opening {
    /// Ask for the lease (a keeper).
    Lease,
    /// Read lines and evidence, decide, store the mark `open`.
    Look,
    /// Its fence.
    MarkFence,
    /// The fence of the line that says that the region is not closed any more.
    Reopen,
    /// Read all pages, decide, store pages of new extents and parity.
    Write,
    /// Their fence.
    WriteFence,
    /// Store the sums.
    Sums,
    /// Their fence.
    SumsFence,
    /// Store the lines of extents that are whole again.
    Lines,
    /// Their fence.
    LinesFence,
}

/// Whether our process is there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Phase {
    /// It is not.
    Down,
    /// It opens the region.
    Opening(Opening),
    /// It serves it.
    Running,
    /// The region cannot be opened at all.
    Refused,
}

/// How much of everything may still happen.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Left {
    /// Stores of the program.
    pub stores: u8,
    /// Fences of the program.
    pub program_fences: u8,
    /// Passes by the clock.
    pub passes: u8,
    /// Calls of `sync`.
    pub syncs: u8,
    /// Calls of `verify`.
    pub verifies: u8,
    /// Seals.
    pub closes: u8,
    /// Opens by us.
    pub opens: u8,
    /// Orderly ends of the keeper.
    pub stops: u8,
    /// Leases that the kernel breaks.
    pub breaks: u8,
    /// Opens by a program of its own.
    pub program_opens: u8,
    /// Power cuts.
    pub power_cuts: u8,
    /// Kills.
    pub kills: u8,
    /// Deaths.
    pub deaths: u8,
    /// Returns.
    pub returns: u8,
    /// Damages.
    pub damages: u8,
}

/// One region.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct World {
    /// The extents with their sidecars, the parity's last.
    pub devices: Vec<Memory>,
    /// Those that answer, a bit each.
    pub alive: u8,
    /// One that died, as it was.
    pub shelf: Option<(usize, Memory)>,
    /// Whether our process is there.
    pub phase: Phase,
    /// Which boot of the machine this is.
    pub boot: u8,
    /// The program may store.
    pub is_mapped: bool,
    /// A program of its own waits in `open` for the lease.
    pub is_waiting: bool,
    /// The keeper has the write lease.
    pub has_lease: bool,
    /// The mark is `open`, as our process knows it.
    pub is_open: bool,
    /// The tracker's bits.
    pub written: u8,
    /// Pages that an earlier pass took and did not finish.
    pub carried: u8,
    /// The writers are held.
    pub is_held: bool,
    /// The number of the next pass.
    pub pass: u8,
    /// The generation of the newest line.
    pub generation: u8,
    /// For each extent, the generation that last began without it.
    pub since: [u8; DEVICES_MAX],
    /// Extents whose sums count while the region opens.
    pub trusted: u8,
    /// What our process does.
    pub job: Job,
    /// What an open decided.
    pub plan: Option<Box<Plan>>,
    /// Pages that an error named as damaged.
    pub damaged: u8,
    /// The caller was told of lost pages, and may accept that.
    pub is_loss_told: bool,
    /// The file's times are not those of the seal: as seen, and on the medium.
    pub has_moved: (bool, bool),
    /// The keeper's orderly end closed the extent to programs: as seen, and on the medium.
    pub is_closed: (bool, bool),
    /// Its times had moved when the keeper looked too early (a mutant).
    pub has_moved_early: bool,
    /// For each page, what it may hold: the last is what the program sees, the first the oldest that a power cut may leave.
    pub truth: Vec<Vec<u32>>,
    /// Rows that a finished pass covers and that were not stored to since, a bit each.
    pub covered: u8,
    /// Extents that were replaced, or came back older, and are not whole again, a bit each.
    pub away: u8,
    /// Pages that the user was rightly told of.
    pub named: u8,
    /// Something was flipped or lost on the way.
    pub is_struck: bool,
    /// Stores so far.
    pub next_store: u32,
    /// What may still happen.
    pub left: Left,
}

impl World {
    /// A sealed region that nobody has open.
    pub fn new(config: &Config) -> Self {
        let layout = Layout::new(config);
        let content = |page: usize| 1 << (FIRST_CONTENT + page as u32);
        let mut devices = vec![Memory::new(layout.units()); config.devices()];
        let line = Line {
            generation: 1,
            state: State::Sealed,
            since: [0; DEVICES_MAX],
            boot: 0,
        };
        for page in 0..config.all() {
            let sum = Sum {
                content: content(page),
                pass: 0,
                is_unverified: false,
                is_lost: false,
            };
            let extent = layout.extent(page);
            devices[extent].format(layout.page(page), Word::from(content(page)));
            for device in [extent, config.width] {
                devices[device].format(layout.sum(device, page), sum.word());
            }
        }
        for row in 0..config.pages {
            let parity = config.mates(row).fold(0, |xor, page| xor ^ content(page));
            devices[config.width].format(layout.page(row), Word::from(parity));
        }
        for device in &mut devices {
            device.format(layout.line(), line.word());
        }
        World {
            alive: ((1u32 << devices.len()) - 1) as u8,
            devices,
            shelf: None,
            phase: Phase::Down,
            boot: 0,
            is_mapped: false,
            is_waiting: false,
            has_lease: false,
            is_open: false,
            written: 0,
            carried: 0,
            is_held: false,
            pass: 0,
            generation: 1,
            since: [0; DEVICES_MAX],
            trusted: 0,
            job: Job::Idle,
            plan: None,
            damaged: 0,
            is_loss_told: false,
            has_moved: (false, false),
            is_closed: (false, false),
            has_moved_early: false,
            truth: (0..config.all()).map(|page| vec![content(page)]).collect(),
            covered: ((1u32 << config.pages) - 1) as u8,
            away: 0,
            named: 0,
            is_struck: false,
            next_store: 0,
            left: left(config),
        }
    }

    /// Whether all extents answer.
    pub fn is_whole(&self) -> bool {
        self.alive.count_ones() as usize == self.devices.len()
    }

    /// What a load of a data page sees.
    pub fn page(&self, config: &Config, page: usize) -> u32 {
        let layout = Layout::new(config);
        self.devices[layout.extent(page)].view(layout.page(page)) as u32
    }

    /// What a load of a row's parity sees.
    pub fn parity(&self, config: &Config, row: usize) -> u32 {
        self.devices[config.width].view(Layout::new(config).page(row)) as u32
    }

    /// The XOR of a row's data pages.
    pub fn row_xor(&self, config: &Config, row: usize) -> u32 {
        let mates = config.mates(row);
        mates.fold(0, |xor, page| xor ^ self.page(config, page))
    }

    /// What the rest of its row says that a page holds.
    pub fn candidate(&self, config: &Config, page: usize) -> u32 {
        let row = config.row(page);
        self.parity(config, row) ^ self.row_xor(config, row) ^ self.page(config, page)
    }

    /// The extents that the rest of a page's row is on, a bit each.
    pub fn row_devices(&self, config: &Config, page: usize) -> u8 {
        let extent = Layout::new(config).extent(page);
        let all = ((1u32 << config.devices()) - 1) as u8;
        all & !(1 << extent)
    }

    /// A page's sum in one of its two sidecars.
    pub fn sum_in(&self, config: &Config, device: usize, page: usize) -> Option<Sum> {
        Sum::read(self.devices[device].view(Layout::new(config).sum(device, page)))
    }

    /// The sidecars that have a page's sum.
    pub fn sidecars(config: &Config, page: usize) -> [usize; 2] {
        [Layout::new(config).extent(page), config.width]
    }

    /// The sum of a page by the newest pass that any sidecar among `devices` knows; its own extent's where that is a tie.
    pub fn newest_sum(&self, config: &Config, devices: u8, page: usize) -> Option<Sum> {
        let counted = Self::sidecars(config, page).into_iter().rev();
        let counted = counted.filter(|device| devices & (1 << device) != 0);
        let sums = counted.filter_map(|device| self.sum_in(config, device, page));
        sums.max_by_key(|sum| sum.pass)
    }

    /// The same while the region is served, where all sidecars count.
    pub fn sum(&self, config: &Config, page: usize) -> Option<Sum> {
        self.newest_sum(config, self.alive, page)
    }

    /// Whether a page matches its newest sum.
    pub fn matches(&self, config: &Config, page: usize) -> bool {
        let content = self.page(config, page);
        self.sum(config, page)
            .is_some_and(|sum| sum.content == content)
    }

    /// Streams a sum to both of its sidecars.
    pub fn stream_sum(&mut self, config: &Config, page: usize, sum: Sum) {
        let layout = Layout::new(config);
        for device in Self::sidecars(config, page) {
            self.devices[device].stream(KEEPER, layout.sum(device, page), sum.word());
        }
    }

    /// The keeper's fence, over all extents.
    pub fn fence(&mut self) {
        for device in &mut self.devices {
            device.fence(KEEPER);
        }
    }

    /// Stores the line of a generation in the sidecars of `devices`.
    pub fn stream_line(&mut self, config: &Config, devices: u8, state: State) {
        let line = Line {
            generation: self.generation,
            state,
            since: self.since,
            boot: self.boot,
        };
        let unit = Layout::new(config).line();
        for (device, memory) in self.devices.iter_mut().enumerate() {
            if devices & (1 << device) != 0 {
                memory.stream(KEEPER, unit, line.word());
            }
        }
    }

    /// Our process is gone, and all that it knew.
    pub fn lose_process(&mut self, config: &Config) {
        for device in &mut self.devices {
            device.kill();
        }
        if config.is_foreign {
            // The kernel drops the lease; a program that waited for it has the file now.
            self.is_mapped |= self.is_waiting;
            self.is_waiting = false;
        } else {
            self.is_mapped = false;
        }
        self.has_lease = false;
        self.is_open = false;
        self.written = 0;
        self.carried = 0;
        self.is_held = false;
        self.pass = 0;
        self.generation = 0;
        self.since = [0; DEVICES_MAX];
        self.trusted = 0;
        self.job = Job::Idle;
        self.plan = None;
        self.damaged = 0;
        self.phase = Phase::Down;
    }
}

fn left(config: &Config) -> Left {
    Left {
        stores: config.stores,
        program_fences: config.program_fences,
        passes: config.passes,
        syncs: config.syncs,
        verifies: config.verifies,
        closes: config.closes,
        opens: config.opens,
        stops: config.stops,
        breaks: config.breaks,
        program_opens: config.program_opens,
        power_cuts: config.power_cuts,
        kills: config.kills,
        deaths: config.deaths,
        returns: config.returns,
        damages: config.damages,
    }
}
