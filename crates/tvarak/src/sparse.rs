//! Lines that were written, in memory of their own; those that were not take none. Or all lines, zeroed, where most are written and
//! one is found in one step.

use crate::line::Words;

/// Lines by number.
#[derive(Debug)]
pub struct Sparse {
    /// For each line one more than its place in `written`, and nought where it was not. Untouched, it takes no memory:
    /// the allocator has zeroed pages from the kernel.
    places: Vec<u32>,
    written: Vec<Words>,
    /// All lines are in `written`.
    is_dense: bool,
}

impl Sparse {
    /// Room for so many.
    pub fn new(lines: u32) -> Sparse {
        Sparse {
            places: vec![0; lines as usize],
            written: Vec::new(),
            is_dense: false,
        }
    }

    /// Room for so many that all hold zeroes.
    pub fn zeroed(lines: u32) -> Sparse {
        Sparse {
            places: Vec::new(),
            // Of zeroed pages from the kernel, too.
            written: vec![[0; 8]; lines as usize],
            is_dense: true,
        }
    }

    /// A line, if it was written, or if all are there.
    #[inline]
    pub fn get(&self, line: u32) -> Option<&Words> {
        if self.is_dense {
            return Some(&self.written[line as usize]);
        }
        match self.places[line as usize] {
            0 => None,
            place => Some(&self.written[place as usize - 1]),
        }
    }

    /// Writes a line.
    #[inline]
    pub fn set(&mut self, line: u32, words: &Words) {
        if self.is_dense {
            self.written[line as usize] = *words;
            return;
        }
        match self.places[line as usize] {
            0 => {
                self.written.push(*words);
                self.places[line as usize] = self.written.len() as u32;
            }
            place => self.written[place as usize - 1] = *words,
        }
    }

    /// Whether no line was written.
    pub fn is_untouched(&self) -> bool {
        self.written.is_empty()
    }
}
