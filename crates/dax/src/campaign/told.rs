//! What a trial found out.

use super::kinds::Combination;

/// What came of one trial.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub what: Combination,
    /// The medium held, or loads got, something else than they should.
    pub is_struck: bool,
    /// Something was said of it, or it was put right.
    pub is_found: bool,
    /// It was found, and in the end nothing was named, and everything right.
    pub is_repaired: bool,
    /// A page was damaged in its window, and is vouched for as it is.
    pub is_in_window: bool,
    /// What must not be: the first one.
    pub wrong: Option<String>,
    /// What happened, where it is to be told.
    pub story: Option<Vec<String>>,
}

impl Outcome {
    pub fn new(what: Combination, tells: bool) -> Outcome {
        Outcome {
            what,
            is_struck: false,
            is_found: false,
            is_repaired: false,
            is_in_window: false,
            wrong: None,
            story: tells.then(Vec::new),
        }
    }

    pub fn tell(&mut self, what: impl FnOnce() -> String) {
        if let Some(story) = &mut self.story {
            story.push(what());
        }
    }

    /// Something must not be.
    pub fn is_wrong(&mut self, what: impl FnOnce() -> String) {
        if self.wrong.is_none() {
            let what = what();
            self.tell(|| format!("WRONG: {what}"));
            self.wrong = Some(what);
        }
    }

    /// Something is said to be wrong, which it may be only if it is.
    pub fn says(&mut self, what: impl FnOnce() -> String) {
        match self.is_struck {
            true => {
                self.is_found = true;
                self.tell(|| format!("said: {}", what()));
            }
            false => self.is_wrong(|| format!("nothing was wrong yet, and it says: {}", what())),
        }
    }
}
