//! What the cache may hold at a moment, worked out from what it was asked and what it answered.
//!
//! The history is one of calls and returns. An operation takes effect at one moment between its
//! call and its return: the oracle keeps every state that some choice of moments allows (the
//! linearizability check of Wing and Gong, 1993). After a crash the operations that have not
//! returned took effect or did not, each of them whole: the legal states are the kept ones.

use std::collections::{BTreeSet, HashMap, HashSet};

/// A content, by the number the [`Contents`] gave it.
pub type ContentId = u32;

/// The content of every block of every volume.
pub type BlockStates = Box<[ContentId]>;
/// What the blocks of all volumes were found to hold, in order.
pub type Found = Vec<Vec<u8>>;

/// States beyond which a history is not followed any further: many operations failed half way, and
/// each doubles the states.
const STATES_MAX: usize = 200_000;

/// Distinct block contents, with the operation that made each first.
#[derive(Default)]
pub struct Contents {
    ids: HashMap<Box<[u8]>, ContentId>,
    all: Vec<(Box<[u8]>, String)>,
}

impl Contents {
    /// The number of `bytes`, given now if it is new.
    pub fn intern(&mut self, bytes: &[u8], origin: impl FnOnce() -> String) -> ContentId {
        if let Some(&id) = self.ids.get(bytes) {
            return id;
        }
        let id = ContentId::try_from(self.all.len()).expect("a run makes few contents");
        self.ids.insert(bytes.into(), id);
        self.all.push((bytes.into(), origin()));
        id
    }

    /// The number of `bytes`, if the history can have made them.
    pub fn find(&self, bytes: &[u8]) -> Option<ContentId> {
        self.ids.get(bytes).copied()
    }

    /// The bytes with this number.
    pub fn bytes(&self, id: ContentId) -> &[u8] {
        &self.all[id as usize].0
    }

    /// What made them first.
    pub fn origin(&self, id: ContentId) -> &str {
        &self.all[id as usize].1
    }
}

/// Bytes that replace part of a block.
#[derive(Clone, Debug)]
pub struct Patch {
    /// Which block, in the numbering of [`BlockStates`].
    pub block: usize,
    /// From which byte on.
    pub offset: usize,
    /// The new bytes.
    pub bytes: Vec<u8>,
}

/// One operation of the history.
#[derive(Clone, Debug)]
pub enum Operation {
    /// All patches at once or none.
    Write(Vec<Patch>),
    /// The contents that a read found, all at one moment, from `block` on; none while it has not
    /// returned.
    Read { block: usize, found: Vec<Vec<u8>> },
}

/// How an operation came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It took effect.
    Done,
    /// It did not and never will.
    Refused,
    /// Unknown: it failed where it may have become durable.
    Unknown,
}

/// One entry of the history.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// Operation number so and so began.
    Call(usize),
    /// It came back.
    Return(usize, Outcome),
    /// The process ended: operations under way took effect or never will.
    Ended,
    /// A cache is opened that was not made to its end.
    HalfMade,
}

/// States with, for each, the calls under way that have taken effect in it.
pub struct Oracle {
    kept: HashSet<(BlockStates, Vec<usize>)>,
    under_way: Vec<usize>,
}

impl Oracle {
    /// Starts from `initial`, any of which may be the truth.
    pub fn new(initial: impl IntoIterator<Item = BlockStates>) -> Oracle {
        Oracle {
            kept: initial
                .into_iter()
                .map(|state| (state, Vec::new()))
                .collect(),
            under_way: Vec::new(),
        }
    }

    /// Takes the next entry of the history in; `operations` has all that it names. False if there
    /// are too many states to go on. The error says in words why no order of effects explains the
    /// history.
    pub fn advance(
        &mut self,
        event: Event,
        operations: &[Operation],
        contents: &mut Contents,
    ) -> Result<bool, String> {
        match event {
            Event::Call(call) => {
                self.under_way.push(call);
                if !self.close(operations, contents) {
                    return Ok(false);
                }
            }
            Event::Ended => {
                self.under_way.clear();
                let kept = std::mem::take(&mut self.kept);
                self.kept = kept
                    .into_iter()
                    .map(|(state, _)| (state, Vec::new()))
                    .collect();
            }
            // The caller knows what else it may be, and says so.
            Event::HalfMade => {}
            Event::Return(call, outcome) => {
                if outcome == Outcome::Unknown {
                    return Ok(true);
                }
                let took_effect = outcome == Outcome::Done;
                let is_possible = |done: &Vec<usize>| done.contains(&call) == took_effect;
                if !self.kept.iter().any(|(_, done)| is_possible(done)) {
                    let what = self.in_words(&operations[call], contents);
                    return Err(format!("no order of effects explains {event:?} of {what}"));
                }
                self.under_way.retain(|&other| other != call);
                let kept = std::mem::take(&mut self.kept);
                let possible = kept.into_iter().filter(|(_, done)| is_possible(done));
                self.kept = possible
                    .map(|(state, mut done)| {
                        done.retain(|&other| other != call);
                        (state, done)
                    })
                    .collect();
            }
        }
        assert!(!self.kept.is_empty(), "some state is the truth");
        Ok(true)
    }

    /// What an operation found, and what the kept states have there; or what it brought.
    fn in_words(&self, operation: &Operation, contents: &Contents) -> String {
        let Operation::Read { block, found } = operation else {
            return format!("{operation:?}");
        };
        let mut words = Vec::new();
        for (block, bytes) in (*block..).zip(found) {
            let origins = |ids: BTreeSet<ContentId>| {
                let origins: Vec<_> = ids.iter().map(|id| contents.origin(*id)).collect();
                origins.join(" or ")
            };
            let starts = |id: &ContentId| contents.bytes(*id).starts_with(bytes);
            let matching = origins(
                (0..contents.all.len() as ContentId)
                    .filter(starts)
                    .collect(),
            );
            let kept = origins(self.kept.iter().map(|(state, _)| state[block]).collect());
            words.push(match matching.as_str() {
                "" => format!("block {block}: bytes never written, not what {kept} left"),
                matching => format!("block {block}: what {matching} left, of {kept}"),
            });
        }
        format!("a read in {} states: {}", self.kept.len(), words.join("; "))
    }

    /// Any of `states` may be the truth as well. Nothing is under way.
    pub fn allow(&mut self, states: &HashSet<BlockStates>) {
        let states = states.iter().cloned();
        self.kept.extend(states.map(|state| (state, Vec::new())));
    }

    /// Every state that a recovery at this moment may find.
    pub fn legal(&self) -> HashSet<BlockStates> {
        self.kept.iter().map(|(state, _)| state.clone()).collect()
    }

    /// Adds what follows from the kept states when calls under way take effect; false if that is
    /// too much.
    fn close(&mut self, operations: &[Operation], contents: &mut Contents) -> bool {
        let mut to_visit: Vec<_> = self.kept.iter().cloned().collect();
        while let Some((state, done)) = to_visit.pop() {
            for &call in &self.under_way {
                if done.contains(&call) {
                    continue;
                }
                let Some(after) = effect(contents, &state, call, &operations[call]) else {
                    continue;
                };
                let mut done = done.clone();
                done.push(call);
                done.sort_unstable();
                let next = (after, done);
                if self.kept.insert(next.clone()) {
                    to_visit.push(next);
                }
                if self.kept.len() > STATES_MAX {
                    return false;
                }
            }
        }
        true
    }
}

/// The state after an operation, if the operation is possible in `state`.
fn effect(
    contents: &mut Contents,
    state: &BlockStates,
    call: usize,
    operation: &Operation,
) -> Option<BlockStates> {
    let mut after = state.clone();
    match operation {
        Operation::Write(patches) => {
            for patch in patches {
                let mut bytes = contents.bytes(after[patch.block]).to_vec();
                bytes[patch.offset..][..patch.bytes.len()].copy_from_slice(&patch.bytes);
                after[patch.block] = contents.intern(&bytes, || format!("operation {call}"));
            }
        }
        Operation::Read { block, found } => {
            if found.is_empty() {
                return None;
            }
            for (content, bytes) in after[*block..].iter().zip(found) {
                // Of a block that its volume has a part of, that part was read.
                if !contents.bytes(*content).starts_with(bytes) {
                    return None;
                }
            }
        }
    }
    Some(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Run {
        oracle: Oracle,
        contents: Contents,
        operations: Vec<Operation>,
    }

    impl Run {
        /// Two blocks of two bytes, both "..".
        fn new() -> Run {
            let mut contents = Contents::default();
            let empty = contents.intern(b"..", || String::from("the beginning"));
            let oracle = Oracle::new([vec![empty, empty].into_boxed_slice()]);
            Run {
                oracle,
                contents,
                operations: Vec::new(),
            }
        }

        fn call(&mut self, operation: Operation) -> usize {
            self.operations.push(operation);
            let call = self.operations.len() - 1;
            assert!(self.event(Event::Call(call)).unwrap());
            call
        }

        fn write(&mut self, patches: &[(usize, usize, &str)]) -> usize {
            let patches = patches.iter().map(|&(block, offset, bytes)| Patch {
                block,
                offset,
                bytes: bytes.as_bytes().to_vec(),
            });
            self.call(Operation::Write(patches.collect()))
        }

        fn event(&mut self, event: Event) -> Result<bool, String> {
            self.oracle
                .advance(event, &self.operations, &mut self.contents)
        }

        fn legal(&self) -> Vec<String> {
            let mut all: Vec<String> = self
                .oracle
                .legal()
                .iter()
                .map(|state| {
                    let blocks = state.iter().map(|&id| self.contents.bytes(id));
                    String::from_utf8(blocks.collect::<Vec<_>>().concat()).unwrap()
                })
                .collect();
            all.sort();
            all
        }
    }

    #[test]
    fn a_write_under_way_is_whole_or_absent_and_one_that_returned_is_present() {
        let mut run = Run::new();
        let call = run.write(&[(0, 0, "aa"), (1, 1, "b")]);
        assert_eq!(run.legal(), ["....", "aa.b"]);
        run.event(Event::Return(call, Outcome::Done)).unwrap();
        assert_eq!(run.legal(), ["aa.b"]);
    }

    #[test]
    fn a_refused_write_is_absent_and_an_unknown_one_stays_open() {
        let mut run = Run::new();
        let refused = run.write(&[(0, 0, "aa")]);
        run.event(Event::Return(refused, Outcome::Refused)).unwrap();
        assert_eq!(run.legal(), ["...."]);
        let unknown = run.write(&[(0, 0, "bb")]);
        run.event(Event::Return(unknown, Outcome::Unknown)).unwrap();
        assert_eq!(run.legal(), ["....", "bb.."]);
    }

    #[test]
    fn after_a_kill_what_was_under_way_is_done_or_never_will_be() {
        let mut run = Run::new();
        run.write(&[(0, 0, "aa")]);
        run.event(Event::Ended).unwrap();
        assert_eq!(run.legal(), ["....", "aa.."]);
        let later = run.write(&[(0, 0, "bb")]);
        run.event(Event::Return(later, Outcome::Done)).unwrap();
        assert_eq!(run.legal(), ["bb.."]);
    }

    #[test]
    fn overlapping_writes_may_take_effect_in_either_order() {
        let mut run = Run::new();
        let one = run.write(&[(0, 0, "aa")]);
        let two = run.write(&[(0, 1, "b")]);
        assert_eq!(run.legal(), ["....", ".b..", "aa..", "ab.."]);
        run.event(Event::Return(one, Outcome::Done)).unwrap();
        run.event(Event::Return(two, Outcome::Done)).unwrap();
        assert_eq!(run.legal(), ["aa..", "ab.."]);
    }

    #[test]
    fn what_was_read_is_there_to_stay() {
        let mut run = Run::new();
        run.write(&[(0, 0, "aa"), (1, 0, "aa")]);
        let found = vec![b"aa".to_vec()];
        let read = run.call(Operation::Read { block: 1, found });
        assert_eq!(run.legal(), ["....", "aaaa"]);
        run.event(Event::Return(read, Outcome::Done)).unwrap();
        assert_eq!(run.legal(), ["aaaa"]);
    }

    #[test]
    fn a_read_that_no_order_explains_is_an_error() {
        let mut run = Run::new();
        let write = run.write(&[(0, 0, "aa")]);
        run.event(Event::Return(write, Outcome::Done)).unwrap();
        let found = vec![b"..".to_vec()];
        let read = run.call(Operation::Read { block: 0, found });
        let wrong = run.event(Event::Return(read, Outcome::Done)).unwrap_err();
        let told = "a read in 1 states: block 0: what the beginning left, of operation 0";
        assert!(wrong.ends_with(told), "{wrong}");
    }
}
