//! Which transaction comes next: TPC-C's mix, dealt from decks (clause 5.2.4.2), so that each hundred of a
//! user's transactions has it exactly.

use crate::tpcc::random::Dice;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    NewOrder,
    Payment,
    OrderStatus,
    Delivery,
    StockLevel,
}

pub const KINDS: [Kind; 5] = [
    Kind::NewOrder,
    Kind::Payment,
    Kind::OrderStatus,
    Kind::Delivery,
    Kind::StockLevel,
];

impl Kind {
    /// Of a hundred transactions.
    const fn share(self) -> usize {
        match self {
            Kind::NewOrder => 45,
            Kind::Payment => 43,
            Kind::OrderStatus | Kind::Delivery | Kind::StockLevel => 4,
        }
    }

    pub const fn title(self) -> &'static str {
        match self {
            Kind::NewOrder => "New-Order",
            Kind::Payment => "Payment",
            Kind::OrderStatus => "Order-Status",
            Kind::Delivery => "Delivery",
            Kind::StockLevel => "Stock-Level",
        }
    }
}

/// A user's cards; a new deck is shuffled when the last card is dealt.
#[derive(Debug, Default)]
pub struct Deck(Vec<Kind>);

impl Deck {
    pub fn deal(&mut self, dice: &mut Dice) -> Kind {
        loop {
            if let Some(kind) = self.0.pop() {
                return kind;
            }
            self.0 = KINDS
                .into_iter()
                .flat_map(|kind| std::iter::repeat_n(kind, kind.share()))
                .collect();
            dice.shuffle(&mut self.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_hundred_transactions_have_the_standard_mix() {
        let (mut dice, mut deck) = (Dice::new(1), Deck::default());
        let mut orders = Vec::new();
        for _ in 0..20 {
            let hundred: Vec<Kind> = (0..100).map(|_| deck.deal(&mut dice)).collect();
            let count = |kind| hundred.iter().filter(|dealt| **dealt == kind).count();
            assert_eq!(KINDS.map(count), [45, 43, 4, 4, 4]);
            orders.push(hundred);
        }
        orders.dedup();
        assert_eq!(orders.len(), 20, "each deck has an order of its own");
    }
}
