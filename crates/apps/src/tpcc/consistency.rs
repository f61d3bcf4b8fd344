//! What must hold in the database whatever transactions ran (clause 3.3.2, conditions 1 to 4, 8 and 9), and that
//! it has exactly the orders and payments that were acknowledged.

use std::collections::BTreeMap;

use mysql::Conn;
use mysql::prelude::{FromRow, Queryable};

use forebay_harness::Result;

use crate::tpcc::drive::Done;
use crate::tpcc::mix::Kind;
use crate::tpcc::scale::{DISTRICTS, Scale};
use crate::tpcc::schema::DATABASE;

/// A warehouse and a district of it.
type Key = (u32, u32);

/// What the tables say of one district.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct District {
    pub ytd_cents: i64,
    pub next_order: u32,
    pub newest_order: u32,
    /// The oldest and the newest order that is not delivered, and how many there are.
    pub open: Option<(u32, u32, u64)>,
    /// Lines that orders say they have, and lines that there are.
    pub lines_of_orders: u64,
    pub lines: u64,
    /// What history has of payments at this district.
    pub paid_cents: i64,
    pub payments: u64,
}

/// What the tables say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Books {
    /// What each warehouse took.
    pub warehouses: BTreeMap<u32, i64>,
    pub districts: BTreeMap<Key, District>,
}

impl Books {
    /// Reads all of them, in the server's time.
    ///
    /// # Errors
    /// The server's; a row of a district that is none is one.
    pub fn read(connection: &mut Conn) -> Result<Books> {
        connection.query_drop(format!("USE {DATABASE}"))?;
        let taken: Vec<(u32, i64)> =
            connection.query("SELECT w_id, CAST(w_ytd * 100 AS SIGNED) FROM warehouse")?;
        let mut books = Books {
            warehouses: taken.into_iter().collect(),
            districts: BTreeMap::new(),
        };
        let rows: Vec<(u32, u32, i64, u32)> = connection
            .query("SELECT d_w_id, d_id, CAST(d_ytd * 100 AS SIGNED), d_next_o_id FROM district")?;
        for (warehouse, district, ytd_cents, next_order) in rows {
            let row = District {
                ytd_cents,
                next_order,
                ..District::default()
            };
            books.districts.insert((warehouse, district), row);
        }
        books.add(
            connection,
            "SELECT o_w_id, o_d_id, MAX(o_id), CAST(SUM(o_ol_cnt) AS UNSIGNED) FROM orders GROUP BY 1, 2",
            |district, (newest, lines): (u32, u64)| {
                (district.newest_order, district.lines_of_orders) = (newest, lines);
            },
        )?;
        books.add(
            connection,
            "SELECT ol_w_id, ol_d_id, COUNT(*), 0 FROM order_line GROUP BY 1, 2",
            |district, (lines, _): (u64, u64)| district.lines = lines,
        )?;
        books.add(
            connection,
            "SELECT h_w_id, h_d_id, CAST(SUM(h_amount) * 100 AS SIGNED), COUNT(*) FROM history GROUP BY 1, 2",
            |district, (cents, count): (i64, u64)| {
                (district.paid_cents, district.payments) = (cents, count);
            },
        )?;
        books.open_orders(connection)?;
        Ok(books)
    }

    fn add<A, B>(
        &mut self,
        connection: &mut Conn,
        query: &str,
        set: impl Fn(&mut District, (A, B)),
    ) -> Result<()>
    where
        (u32, u32, A, B): FromRow,
    {
        let rows: Vec<(u32, u32, A, B)> = connection.query(query)?;
        for (warehouse, district, first, second) in rows {
            set(self.district((warehouse, district))?, (first, second));
        }
        Ok(())
    }

    fn open_orders(&mut self, connection: &mut Conn) -> Result<()> {
        let rows: Vec<(u32, u32, u32, u32, u64)> = connection.query(
            "SELECT no_w_id, no_d_id, MIN(no_o_id), MAX(no_o_id), COUNT(*) FROM new_order GROUP BY 1, 2",
        )?;
        for (warehouse, district, oldest, newest, count) in rows {
            self.district((warehouse, district))?.open = Some((oldest, newest, count));
        }
        Ok(())
    }

    fn district(&mut self, key: Key) -> Result<&mut District> {
        let found = self.districts.get_mut(&key);
        found.ok_or_else(|| format!("rows of a district {}.{} that is none", key.0, key.1).into())
    }

    /// What is wrong, a sentence each; nothing in a database that was only ever changed by transactions that
    /// were `done` since it was loaded.
    pub fn violations(&self, scale: &Scale, done: &Done) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut expect = |is_so: bool, what: String| {
            if !is_so {
                wrong.push(what);
            }
        };
        for (warehouse, ytd_cents) in &self.warehouses {
            let districts = self.districts.range((*warehouse, 0)..(*warehouse + 1, 0));
            let (mut taken, mut paid) = (0, 0);
            for (_, district) in districts {
                taken += district.ytd_cents;
                paid += district.paid_cents;
            }
            expect(
                *ytd_cents == taken,
                format!(
                    "condition 1: warehouse {warehouse} took {ytd_cents} cents, its districts {taken}"
                ),
            );
            expect(
                *ytd_cents == paid,
                format!(
                    "condition 8: warehouse {warehouse} took {ytd_cents} cents, history has {paid}"
                ),
            );
        }
        for (key, district) in &self.districts {
            wrong.extend(district.violations(*key));
        }
        wrong.extend(self.unlike(scale, done));
        wrong
    }

    /// What is more, or less, than was loaded and acknowledged.
    fn unlike(&self, scale: &Scale, done: &Done) -> Vec<String> {
        let loaded = u64::from(scale.customers);
        let districts = u64::from(scale.warehouses * DISTRICTS);
        let sum = |of: fn(&District) -> u64| self.districts.values().map(of).sum::<u64>();
        let orders = sum(|district| u64::from(district.next_order.saturating_sub(1)));
        let counts = [
            ("districts", self.districts.len() as u64, districts),
            (
                "orders",
                orders,
                loaded * districts + done.of(Kind::NewOrder),
            ),
            (
                "payments",
                sum(|district| district.payments),
                loaded * districts + done.of(Kind::Payment),
            ),
        ];
        let differs = counts.into_iter().filter(|(_, found, due)| found != due);
        differs
            .map(|(what, found, due)| format!("{found} {what} where {due} were acknowledged"))
            .collect()
    }
}

impl District {
    fn violations(&self, (warehouse, district): Key) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut expect = |is_so: bool, condition: u32, what: String| {
            if !is_so {
                wrong.push(format!(
                    "condition {condition}: district {warehouse}.{district}: {what}"
                ));
            }
        };
        let (next, newest) = (self.next_order, self.newest_order);
        expect(
            next == newest + 1,
            2,
            format!("the next order is {next}, the newest {newest}"),
        );
        if let Some((oldest_open, newest_open, count)) = self.open {
            expect(
                newest_open == newest,
                2,
                format!("the newest order is {newest}, the newest open one {newest_open}"),
            );
            let span = u64::from(newest_open - oldest_open) + 1;
            expect(
                span == count,
                3,
                format!("{count} open orders from {oldest_open} to {newest_open}"),
            );
        }
        let (promised, lines) = (self.lines_of_orders, self.lines);
        expect(
            promised == lines,
            4,
            format!("orders have {promised} lines, there are {lines}"),
        );
        let (ytd, paid) = (self.ytd_cents, self.paid_cents);
        expect(
            ytd == paid,
            9,
            format!("it took {ytd} cents, history has {paid}"),
        );
        wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCALE: Scale = Scale {
        warehouses: 1,
        items: 10,
        customers: 20,
    };

    fn sound() -> Books {
        let district = District {
            ytd_cents: 2000,
            next_order: 21,
            newest_order: 20,
            open: Some((15, 20, 6)),
            lines_of_orders: 200,
            lines: 200,
            paid_cents: 2000,
            payments: 20,
        };
        let districts = (1..=DISTRICTS).map(|number| ((1, number), district.clone()));
        Books {
            warehouses: [(1, 20_000)].into(),
            districts: districts.collect(),
        }
    }

    fn found(break_it: impl FnOnce(&mut District)) -> Vec<String> {
        let mut books = sound();
        break_it(books.districts.get_mut(&(1, 4)).expect("there"));
        books.violations(&SCALE, &Done::default())
    }

    #[test]
    fn a_sound_database_has_nothing_wrong() {
        assert_eq!(sound().violations(&SCALE, &Done::default()), [""; 0]);
        assert_eq!(found(|district| district.open = None), [""; 0]);
    }

    #[test]
    fn each_condition_is_missed_where_its_number_is_off() {
        type Break = fn(&mut District);
        let breaks: [(Break, &[&str]); 7] = [
            (|d| d.ytd_cents += 1, &["condition 1", "condition 9"]),
            (|d| d.newest_order -= 1, &["condition 2", "condition 2"]),
            (|d| d.open = Some((14, 20, 6)), &["condition 3"]),
            (|d| d.open = Some((14, 19, 6)), &["condition 2"]),
            (|d| d.lines -= 1, &["condition 4"]),
            (|d| d.paid_cents -= 1, &["condition 8", "condition 9"]),
            (|d| d.payments -= 1, &["199 payments where 200"]),
        ];
        for (break_it, expected) in breaks {
            let found = found(break_it);
            assert_eq!(found.len(), expected.len(), "{found:?}");
            let fits = found.iter().zip(expected);
            assert!(
                fits.clone().all(|(found, start)| found.starts_with(start)),
                "{found:?}"
            );
        }
    }

    #[test]
    fn an_order_that_was_lost_whole_is_missed() {
        let found = found(|district| {
            // As if the last order had never been: every condition of the specification holds.
            (district.next_order, district.newest_order) = (20, 19);
            district.open = Some((15, 19, 5));
        });
        assert_eq!(found, ["199 orders where 200 were acknowledged"]);
    }
}
