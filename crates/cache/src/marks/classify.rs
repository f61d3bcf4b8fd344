//! Whether a pool and a backing belong to each other at this moment.

use super::mark::{FoundMark, Mark, MarkState, boot_id};
use super::side::{PoolSide, Stage};
use super::text::{hex, utc};

/// Why the two do not belong together, and what to do about it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StaleRefusal {
    /// What was found.
    pub found: String,
    /// What a person can do.
    pub todo: &'static str,
}

const BRING_BACK: &str = "bring that pool back; a member of a replicated engine: empty it and add it \
     anew; to go on without what is missing: --accept-stale";
const OLD_POOL: &str = "use the pool that had it last, or a new one once that has ended in order; to have \
     what is dirty in this old pool written over what happened since: --accept-stale";
const OLD_BACKING: &str = "bring the backing back that was in use; a member of a replicated engine: empty \
     it and add it anew; to go on with this one: --accept-stale";
pub(super) const DAMAGED: &str = "look at what is there and remove it if it is not ours; to go on as if it were not \
     there: --accept-stale";

/// The generation that an attach begins.
///
/// `holds_nothing` is asked where it matters: whether the pool has no block of the volume. An empty
/// directory has nothing that could be out of date.
///
/// # Errors
/// The two are not of the same moment.
pub fn classify(
    side: &PoolSide,
    found: &FoundMark,
    is_empty: bool,
    holds_nothing: impl FnOnce() -> bool,
) -> Result<u64, StaleRefusal> {
    let refuse = |found, todo| Err(StaleRefusal { found, todo });
    let next = next_generation(side, found);
    let mark = match found {
        FoundMark::None => {
            let is_first = side.generation == 1 && side.stage == Stage::Starting;
            if side.generation == 0 || is_first || (is_empty && holds_nothing()) {
                return Ok(next);
            }
            return refuse(
                String::from(
                    "it lacks the mark of the pool that has its newest data, so it is a copy, or was \
                     made anew",
                ),
                OLD_BACKING,
            );
        }
        FoundMark::Damaged => {
            let found = "its mark is damaged, or of a later version, so it is unknown which pool has \
                         its newest data";
            return refuse(String::from(found), DAMAGED);
        }
        FoundMark::Mark(mark) => mark,
    };
    let is_ours = mark.pool == side.pool && mark.volume == side.volume;
    let agrees = match mark.state {
        MarkState::Open => true,
        MarkState::Whole => side.stage == Stage::Clean || side.is_kept_for_a_boot,
    };
    let is_cut_off = side.generation == mark.generation + 1 && side.stage == Stage::Starting;
    if is_ours && (side.generation == mark.generation && agrees || is_cut_off) {
        return Ok(next);
    }
    if (mark.state == MarkState::Whole || is_empty) && holds_nothing() {
        return Ok(next);
    }
    if !is_ours {
        return refuse(elsewhere(mark, side), BRING_BACK);
    }
    let (own, of_mark) = (side.generation, mark.generation);
    if own > mark.generation {
        let found = format!(
            "it is an old copy: its mark is of generation {of_mark}, and this pool is at {own}"
        );
        return refuse(found, OLD_BACKING);
    }
    let found = format!(
        "this pool is an old copy: it is at generation {own}, and the backing was in use up to \
         {of_mark} ({})",
        utc(mark.since_unix_s)
    );
    refuse(found, OLD_POOL)
}

/// Above all that either side has seen, but for a start that was cut off: nothing was acknowledged in
/// its generation, so it is begun again. What can be seen of a mark may not be durable, if a process was
/// killed before its sync; with a number above it the pool could be ahead by two after a power cut.
pub fn next_generation(side: &PoolSide, found: &FoundMark) -> u64 {
    let of_mark = found.mark().map_or(0, |mark| mark.generation);
    let is_cut_off = [of_mark, of_mark + 1].contains(&side.generation);
    if side.stage == Stage::Starting && is_cut_off {
        return side.generation;
    }
    of_mark.max(side.generation) + 1
}

fn elsewhere(mark: &Mark, side: &PoolSide) -> String {
    let (pool, path) = (hex(&mark.pool), mark.pool_path.display());
    let since = utc(mark.since_unix_s);
    let which = match mark.pool == side.pool {
        true => "which knows it under another name",
        false => "which is not this one",
    };
    let last = match mark.state {
        MarkState::Open => format!(
            "it is stale: its newest data is in the pool {pool} ({path}), open since {since}, {which}"
        ),
        MarkState::Whole => format!(
            "it was in use with another pool, {pool} ({path}), since this one cached blocks of it"
        ),
    };
    let is_gone = mark.state == MarkState::Open && !mark.survives_reboot && mark.boot != boot_id();
    match is_gone {
        true => format!("{last}; the machine was booted since, and that pool did not survive it"),
        false => last,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn mark(generation: u64, state: MarkState) -> FoundMark {
        FoundMark::Mark(Mark {
            pool: [1; 16],
            pool_path: PathBuf::from("/dev/shm/pool"),
            volume: 1,
            generation,
            state,
            since_unix_s: 1_700_000_000,
            boot: String::from("another boot"),
            survives_reboot: false,
        })
    }

    fn side(generation: u64, stage: Stage) -> PoolSide {
        PoolSide {
            pool: [1; 16],
            volume: 1,
            generation,
            stage,
            is_kept_for_a_boot: false,
        }
    }

    fn other(generation: u64, stage: Stage) -> PoolSide {
        PoolSide {
            pool: [2; 16],
            ..side(generation, stage)
        }
    }

    /// Every row of the page's table, with blocks in the pool and without.
    #[test]
    fn pools_and_backings_are_classified_as_the_page_says() {
        use MarkState::{Open, Whole};
        let rows = [
            // Pool, mark, accepted with blocks in the pool, and without.
            (side(0, Stage::None), FoundMark::None, Some(1), Some(1)),
            (side(1, Stage::Starting), FoundMark::None, Some(1), Some(1)),
            (side(1, Stage::Open), FoundMark::None, None, None),
            (side(2, Stage::Starting), FoundMark::None, None, None),
            (side(4, Stage::Open), mark(4, Open), Some(5), Some(5)),
            (side(4, Stage::Starting), mark(4, Open), Some(4), Some(4)),
            (side(4, Stage::Clean), mark(4, Open), Some(5), Some(5)),
            (side(4, Stage::Clean), mark(4, Whole), Some(5), Some(5)),
            (side(4, Stage::Open), mark(4, Whole), None, Some(5)),
            (side(5, Stage::Starting), mark(4, Open), Some(5), Some(5)),
            (side(5, Stage::Starting), mark(4, Whole), Some(5), Some(5)),
            (side(5, Stage::Open), mark(4, Open), None, None),
            (side(6, Stage::Starting), mark(4, Open), None, None),
            (side(3, Stage::Open), mark(4, Open), None, None),
            (side(3, Stage::Clean), mark(4, Open), None, None),
            (side(3, Stage::Clean), mark(4, Whole), None, Some(5)),
            (side(0, Stage::None), mark(4, Open), None, None),
            (other(0, Stage::None), mark(4, Open), None, None),
            (other(4, Stage::Open), mark(4, Open), None, None),
            (other(5, Stage::Starting), mark(4, Open), None, None),
            (other(0, Stage::None), mark(4, Whole), None, Some(5)),
            (other(9, Stage::Clean), mark(4, Whole), None, Some(10)),
            (side(0, Stage::None), FoundMark::Damaged, None, None),
        ];
        for (pool, found, with, without) in rows {
            let classified = |holds: bool| classify(&pool, &found, false, || !holds);
            assert_eq!(classified(true).ok(), with, "{pool:?} {found:?}");
            assert_eq!(classified(false).ok(), without, "{pool:?} {found:?}");
            let refused = classified(true).err();
            assert!(refused.is_none_or(|why| why.todo.contains("--accept-stale")));
        }
    }

    #[test]
    fn an_empty_directory_admits_a_pool_that_holds_nothing_of_it() {
        for found in [FoundMark::None, mark(4, MarkState::Open)] {
            assert!(classify(&other(7, Stage::Open), &found, true, || true).is_ok());
            assert!(classify(&other(7, Stage::Open), &found, true, || false).is_err());
        }
        assert!(classify(&side(0, Stage::None), &FoundMark::Damaged, true, || true).is_err());
    }

    #[test]
    fn a_refusal_names_the_pool_the_time_and_what_became_of_it() {
        let pool = other(0, Stage::None);
        let found = classify(&pool, &mark(4, MarkState::Open), false, || true).unwrap_err();
        for part in [
            "stale",
            "01010101010101010101010101010101",
            "/dev/shm/pool",
            "open since 2023-11-14 22:13:20 UTC",
            "booted since",
        ] {
            assert!(found.found.contains(part), "{}", found.found);
        }
        assert!(found.todo.contains("replicated engine"), "{}", found.todo);
    }
}
