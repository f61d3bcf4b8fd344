//! Which blocks or inodes are taken, in DRAM; the disk's bitmaps follow it.

/// A set of the numbers below its size.
#[derive(Clone, Debug)]
pub(super) struct Bitmap {
    words: Vec<u64>,
    len: u64,
    used: u64,
}

impl Bitmap {
    /// All free.
    pub(super) fn new(len: u64) -> Bitmap {
        Bitmap {
            words: vec![0; len.div_ceil(64) as usize],
            len,
            used: 0,
        }
    }

    /// How many are free.
    pub(super) fn free(&self) -> u64 {
        self.len - self.used
    }

    pub(super) fn is_used(&self, number: u64) -> bool {
        self.words[(number / 64) as usize] >> (number % 64) & 1 == 1
    }

    /// Takes or frees a number; it was the other before.
    pub(super) fn set(&mut self, number: u64, is_used: bool) {
        assert_ne!(self.is_used(number), is_used, "{number} changes twice");
        self.words[(number / 64) as usize] ^= 1 << (number % 64);
        self.used = self.used + u64::from(is_used) - u64::from(!is_used);
    }

    /// The eight numbers around `number` as the disk's bitmap has them.
    pub(super) fn byte(&self, number: u64) -> u8 {
        (self.words[(number / 64) as usize] >> (number % 64 / 8 * 8)) as u8
    }

    /// The first free number from `from` on, not beyond the end.
    pub(super) fn first_free(&self, from: u64) -> Option<u64> {
        let mut number = from;
        while number < self.len {
            let free = !self.words[(number / 64) as usize] >> (number % 64);
            if free != 0 {
                number += u64::from(free.trailing_zeros());
                return (number < self.len).then_some(number);
            }
            number = (number / 64 + 1) * 64;
        }
        None
    }

    /// The first run of `wanted` free numbers from `from` on and then from `start`; where there is
    /// none, the longest run that was seen, which is empty when nothing is free.
    pub(super) fn run(&self, start: u64, from: u64, wanted: u64) -> (u64, u64) {
        let mut longest = (0, 0);
        for (mut number, end) in [(from, self.len), (start, from)] {
            while let Some(first) = self.first_free(number).filter(|&first| first < end) {
                let len = (first..self.len.min(first + wanted))
                    .take_while(|&number| !self.is_used(number))
                    .count() as u64;
                if len == wanted {
                    return (first, len);
                }
                if len > longest.1 {
                    longest = (first, len);
                }
                number = first + len + 1;
            }
        }
        longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_found_near_and_then_anywhere() {
        let mut bitmap = Bitmap::new(200);
        for number in (0..200).filter(|number| !(70..75).contains(number) && *number != 190) {
            bitmap.set(number, true);
        }
        assert_eq!(bitmap.free(), 6);
        assert_eq!(bitmap.first_free(75), Some(190));
        assert_eq!(bitmap.first_free(191), None);
        assert_eq!(bitmap.run(0, 0, 3), (70, 3));
        assert_eq!(bitmap.run(0, 100, 3), (70, 3));
        assert_eq!(bitmap.run(0, 100, 1), (190, 1));
        assert_eq!(bitmap.run(0, 0, 9), (70, 5));
        assert_eq!(bitmap.byte(71), 0b1100_0000 ^ 0xff);
        bitmap.set(70, true);
        assert!(bitmap.is_used(70));
    }
}
