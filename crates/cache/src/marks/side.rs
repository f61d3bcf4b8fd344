//! What a pool says of a volume and its backing.

/// How far a volume is on its way from attach to end; a number in its line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Stage {
    /// Its backing keeps no mark, or the pool is from before there were marks.
    #[default]
    None,
    /// The generation was raised; the mark may not say so yet.
    Starting,
    /// In use, or left.
    Open,
    /// Nothing is dirty, and the backing was synced.
    Clean,
}

impl Stage {
    /// Its number on the media.
    #[must_use]
    pub fn number(self) -> u32 {
        match self {
            Stage::None => 0,
            Stage::Starting => 1,
            Stage::Open => 2,
            Stage::Clean => 3,
        }
    }

    /// The stage with this number.
    #[must_use]
    pub fn of_number(number: u32) -> Option<Stage> {
        let all = [Stage::None, Stage::Starting, Stage::Open, Stage::Clean];
        all.get(number as usize).copied()
    }
}

/// What a pool says of one of its volumes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolSide {
    /// The pool's identity.
    pub pool: [u8; 16],
    /// The volume's id.
    pub volume: u32,
    /// Its generation; 0 before it ever had a mark.
    pub generation: u64,
    /// Its stage in that generation.
    pub stage: Stage,
    /// The mark of many short processes: they end, and the command that began them says `whole`.
    pub is_kept_for_a_boot: bool,
}
