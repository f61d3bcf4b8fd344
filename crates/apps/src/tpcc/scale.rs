//! How large the database is: TPC-C's cardinalities (clause 1.2.1), some of them divided.

/// Districts of a warehouse, as specified.
pub const DISTRICTS: u32 = 10;
/// What the specification has of items and of customers of a district.
const ITEMS: u32 = 100_000;
const CUSTOMERS: u32 = 3000;
/// Three in ten orders of a new database are not delivered yet: 900 of 3,000.
const OPEN_TENTHS: u32 = 3;
/// NURand's constants A for all items and customers (clause 2.1.6).
const ITEM_SPREAD: u32 = 8191;
const CUSTOMER_SPREAD: u32 = 1023;
/// Last names that three syllables make.
pub const NAMES: u32 = 1000;

/// Cardinalities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    pub warehouses: u32,
    pub items: u32,
    /// Of a district; so many orders it has, too.
    pub customers: u32,
}

impl Scale {
    /// Warehouses whose stock, customers and orders are a `divisor`th of what they should be.
    pub fn divided(warehouses: u32, divisor: u32) -> Scale {
        Scale {
            warehouses,
            items: ITEMS / divisor,
            customers: CUSTOMERS / divisor,
        }
    }

    /// Orders of a new district that are delivered; the rest are not.
    pub fn delivered(&self) -> u32 {
        self.customers - self.customers * OPEN_TENTHS / 10
    }

    /// Last names that lookups may ask for: each of them some customer of every district has.
    pub fn names(&self) -> u32 {
        self.customers.min(NAMES)
    }

    /// NURand's A for items: as large a share of them as in the specification.
    pub fn item_spread(&self) -> u32 {
        spread(ITEM_SPREAD, ITEMS / self.items.max(1))
    }

    pub fn customer_spread(&self) -> u32 {
        spread(CUSTOMER_SPREAD, CUSTOMERS / self.customers.max(1))
    }
}

/// Low bits in a row, as many fewer as `divisor` has.
fn spread(whole: u32, divisor: u32) -> u32 {
    whole >> divisor.max(1).ilog2()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_sizes_are_the_specification_s_and_tenths_keep_its_shares() {
        let whole = Scale::divided(1, 1);
        assert_eq!((whole.item_spread(), whole.customer_spread()), (8191, 1023));
        assert_eq!((whole.delivered(), whole.names()), (2100, 1000));
        let tenth = Scale::divided(10, 10);
        assert_eq!((tenth.items, tenth.customers), (10_000, 300));
        assert_eq!((tenth.item_spread(), tenth.customer_spread()), (1023, 127));
        assert_eq!((tenth.delivered(), tenth.names()), (210, 300));
    }
}
