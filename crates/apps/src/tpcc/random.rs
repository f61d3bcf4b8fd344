//! What TPC-C draws at random (clauses 2.1.5, 2.1.6, 4.3.2 and 4.3.3). The same seed draws the same.

use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

use crate::tpcc::scale::Scale;

const SYLLABLES: [&str; 10] = [
    "BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING",
];
/// NURand's A for last names.
const NAME_SPREAD: u32 = 255;
/// NURand's C, the same for all fields: any number will do.
const SHIFT: u32 = 123;
const LETTERS: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";

#[derive(Debug)]
pub struct Dice(SmallRng);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(SmallRng::seed_from_u64(seed))
    }

    /// A number from `least` to `most`, all alike.
    pub fn number(&mut self, least: u32, most: u32) -> u32 {
        self.0.random_range(least..=most)
    }

    /// Whether something happens that does so in so many of a hundred cases.
    pub fn happens(&mut self, percent: u32) -> bool {
        self.number(1, 100) <= percent
    }

    /// From `least` to `most`, some of them much more often.
    fn favoured(&mut self, spread: u32, least: u32, most: u32) -> u32 {
        let drawn = self.number(0, spread) | self.number(least, most);
        (drawn + SHIFT) % (most - least + 1) + least
    }

    pub fn item(&mut self, scale: &Scale) -> u32 {
        self.favoured(scale.item_spread(), 1, scale.items)
    }

    pub fn customer(&mut self, scale: &Scale) -> u32 {
        self.favoured(scale.customer_spread(), 1, scale.customers)
    }

    /// A last name that some customer of each district has.
    pub fn name(&mut self, scale: &Scale) -> String {
        last_name(self.favoured(NAME_SPREAD, 0, scale.names() - 1))
    }

    /// Letters and digits, `least` to `most` of them.
    pub fn text(&mut self, least: u32, most: u32) -> String {
        let length = self.number(least, most);
        let letter = |_| char::from(LETTERS[self.0.random_range(0..LETTERS.len())]);
        (0..length).map(letter).collect()
    }

    pub fn digits(&mut self, length: u32) -> String {
        let digit = |_| char::from(b'0' + self.0.random_range(0..10_u8));
        (0..length).map(digit).collect()
    }

    /// Data of an item or of stock: every tenth one is an original.
    pub fn data(&mut self) -> String {
        let mut text = self.text(26, 50);
        if self.happens(10) {
            let at = self.number(0, text.len() as u32 - 8) as usize;
            text.replace_range(at..at + 8, "ORIGINAL");
        }
        text
    }

    pub fn zip(&mut self) -> String {
        self.digits(4) + "11111"
    }

    pub fn shuffle<T>(&mut self, all: &mut [T]) {
        all.shuffle(&mut self.0);
    }
}

/// The last name of that number, below 1,000 (clause 4.3.2.3).
pub fn last_name(number: u32) -> String {
    [number / 100, number / 10, number]
        .map(|part| SYLLABLES[(part % 10) as usize])
        .concat()
}

/// An amount of money as SQL takes it.
pub fn money(cents: i64) -> String {
    let sign = if cents < 0 { "-" } else { "" };
    format!("{sign}{}.{:02}", cents.abs() / 100, cents.abs() % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_of_the_specification_s_syllables() {
        assert_eq!(last_name(371), "PRICALLYOUGHT");
        assert_eq!(last_name(40), "BARPRESBAR");
    }

    #[test]
    fn all_that_is_drawn_lies_in_its_range_and_repeats() {
        let scale = Scale::divided(2, 100);
        let draw = |seed| {
            let mut dice = Dice::new(seed);
            let items: Vec<u32> = (0..2000).map(|_| dice.item(&scale)).collect();
            let customers: Vec<u32> = (0..2000).map(|_| dice.customer(&scale)).collect();
            assert!(items.iter().all(|item| (1..=scale.items).contains(item)));
            let known = 1..=scale.customers;
            assert!(customers.iter().all(|customer| known.contains(customer)));
            let data = dice.data();
            assert!((26..=50).contains(&data.len()), "{data}");
            (items, customers, data)
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn money_has_two_places() {
        assert_eq!([1005, -1000, 7].map(money), ["10.05", "-10.00", "0.07"]);
    }
}
