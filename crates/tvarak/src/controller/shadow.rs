//! What a set of the LLC would do if it divided its ways in some way: tags without data, which see what the real set is asked for.
//!
//! A few sets have one for each division (as Qureshi and Patt's utility monitors, "Utility-Based Cache Partitioning", MICRO 2006, have for each
//! number of ways), so that divisions are compared by the same accesses to the same lines, and no set pays for one that is bad.

/// How a set divides its ways: what these leave is the application's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Division {
    /// Ways for redundancy.
    pub redundancy: u32,
    /// Ways for diffs. With none, the old line is read for a write-back.
    pub diffs: u32,
}

/// A line in a shadow.
#[derive(Clone, Copy, Debug)]
struct Tag {
    line: u32,
    is_dirty: bool,
}

/// Tags of some ways, the one used last first.
#[derive(Clone, Debug, Default)]
struct Ways {
    tags: Vec<Tag>,
}

impl Ways {
    /// Uses a line, which comes if it is not there: whether it was, and what went for it.
    fn take(&mut self, line: u32, ways: u32) -> (bool, Option<Tag>) {
        let found = self.tags.iter().position(|tag| tag.line == line);
        let tag = match found {
            Some(at) => self.tags.remove(at),
            None => Tag {
                line,
                is_dirty: false,
            },
        };
        self.tags.insert(0, tag);
        let is_over = self.tags.len() > ways as usize;
        (
            found.is_some(),
            is_over.then(|| self.tags.pop().expect("one is over")),
        )
    }

    fn find(&mut self, line: u32) -> Option<&mut Tag> {
        self.tags.iter_mut().find(|tag| tag.line == line)
    }

    fn drop(&mut self, line: u32) {
        self.tags.retain(|tag| tag.line != line);
    }
}

/// What the application's and the diffs' ways did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lines {
    /// Fills from NVM.
    pub nvm_fills: u64,
    /// Fills from DRAM.
    pub dram_fills: u64,
    /// Lines of the file that became dirty, each of which is written back in the end.
    pub write_backs: u64,
}

/// The application's ways and those of diffs, of all sets that have shadows.
#[derive(Clone, Debug)]
pub struct LineShadow {
    ways: u32,
    diff_ways: u32,
    sets: Vec<(Ways, Ways)>,
    /// What they did.
    pub seen: Lines,
}

impl LineShadow {
    /// Empty ones.
    pub fn new(sets: usize, llc_ways: u32, division: Division) -> LineShadow {
        LineShadow {
            ways: llc_ways - division.redundancy - division.diffs,
            diff_ways: division.diffs,
            sets: vec![Default::default(); sets],
            seen: Lines::default(),
        }
    }

    /// A line was looked up.
    pub fn look_up(&mut self, set: usize, line: u32, is_nvm: bool) {
        let (lines, diffs) = &mut self.sets[set];
        let (is_hit, went) = lines.take(line, self.ways);
        self.seen.nvm_fills += u64::from(!is_hit && is_nvm);
        self.seen.dram_fills += u64::from(!is_hit && !is_nvm);
        if let Some(went) = went {
            diffs.drop(went.line);
        }
    }

    /// A line of the file became dirty.
    pub fn change(&mut self, set: usize, line: u32) {
        let (lines, diffs) = &mut self.sets[set];
        let Some(tag) = lines.find(line) else {
            // The line would have left the cores with its place here.
            self.seen.write_backs += 1;
            return;
        };
        self.seen.write_backs += u64::from(!tag.is_dirty);
        tag.is_dirty = true;
        if self.diff_ways > 0
            && let (_, Some(went)) = diffs.take(line, self.diff_ways)
            && let Some(tag) = lines.find(went.line)
        {
            tag.is_dirty = false;
        }
    }

    /// What is long ago counts less.
    pub fn fade(&mut self) {
        let seen = &mut self.seen;
        for count in [
            &mut seen.nvm_fills,
            &mut seen.dram_fills,
            &mut seen.write_backs,
        ] {
            *count /= 2;
        }
    }
}

/// What ways of redundancy did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Redundancy {
    /// Lines read to verify a fill, and how many of them from NVM.
    pub verifications: [u64; 2],
    /// Lines changed, how many of them were read from NVM, and how many became dirty, each of which is written there in the end.
    pub changes: [u64; 3],
}

/// Ways of redundancy, of all sets that have shadows. The caches on the controllers are not told apart: the partition has what they have.
#[derive(Clone, Debug)]
pub struct RedundancyShadow {
    ways: u32,
    sets: Vec<Ways>,
    /// What they did.
    pub seen: Redundancy,
}

impl RedundancyShadow {
    /// Empty ones.
    pub fn new(sets: usize, ways: u32) -> RedundancyShadow {
        RedundancyShadow {
            ways,
            sets: vec![Ways::default(); sets],
            seen: Redundancy::default(),
        }
    }

    /// A line was asked for, to verify a fill or to be changed.
    pub fn ask(&mut self, set: usize, line: u32, is_change: bool) {
        let ways = &mut self.sets[set];
        let (is_hit, _) = ways.take(line, self.ways);
        let seen = &mut self.seen;
        if !is_change {
            seen.verifications[0] += 1;
            seen.verifications[1] += u64::from(!is_hit);
            return;
        }
        seen.changes[0] += 1;
        seen.changes[1] += u64::from(!is_hit);
        if let Some(tag) = ways.find(line) {
            seen.changes[2] += u64::from(!tag.is_dirty);
            tag.is_dirty = true;
        }
    }

    /// What is long ago counts less.
    pub fn fade(&mut self) {
        let seen = &mut self.seen;
        for count in seen.verifications.iter_mut().chain(&mut seen.changes) {
            *count /= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_leave_as_from_a_set_of_so_many_ways() {
        let division = Division {
            redundancy: 1,
            diffs: 1,
        };
        let mut shadow = LineShadow::new(1, 4, division);
        for line in [1, 2, 1, 3, 1, 2] {
            shadow.look_up(0, line, line < 3);
        }
        assert_eq!([shadow.seen.nvm_fills, shadow.seen.dram_fills], [3, 1]);
        // The second diff sends the first away, whose line is clean then.
        for (line, write_backs) in [(1, 1), (1, 1), (2, 2), (1, 3), (9, 4)] {
            shadow.change(0, line);
            assert_eq!(shadow.seen.write_backs, write_backs);
        }
    }

    #[test]
    fn without_diffs_a_line_is_written_once_while_it_is_there() {
        let division = Division {
            redundancy: 0,
            diffs: 0,
        };
        let mut shadow = LineShadow::new(1, 2, division);
        for line in [1, 2] {
            shadow.look_up(0, line, true);
            shadow.change(0, line);
            shadow.change(0, line);
        }
        assert_eq!(shadow.seen.write_backs, 2);
        shadow.look_up(0, 3, true);
        shadow.change(0, 1);
        assert_eq!(shadow.seen.write_backs, 3);
    }

    #[test]
    fn redundancy_is_read_and_written_once_while_it_is_there() {
        let mut shadow = RedundancyShadow::new(1, 1);
        for (line, is_change) in [(1, true), (1, true), (2, false), (1, true)] {
            shadow.ask(0, line, is_change);
        }
        assert_eq!(shadow.seen.changes, [3, 2, 2]);
        assert_eq!(shadow.seen.verifications, [1, 1]);
    }
}
