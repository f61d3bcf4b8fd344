//! Fills an empty database (clause 4.3.3), by statements of many rows, on one connection.

use std::fmt::Write as _;

use mysql::Conn;
use mysql::prelude::Queryable;

use forebay_harness::{Result, check_interrupt};

use crate::tpcc::random::{Dice, last_name, money};
use crate::tpcc::scale::{DISTRICTS, NAMES, Scale};
use crate::tpcc::schema::{DATABASE, TABLES};

/// Enough that parsing, not the round trip, takes the time.
const STATEMENT_BYTES: usize = 256 << 10;
/// All rows are of one moment.
const THEN: &str = "'2026-01-01 00:00:00'";
/// What every customer has paid before, and so each district: the specification's 30,000 are of 3,000 customers.
pub const PAID_CENTS: i64 = 1000;

/// Makes the tables and fills them. The same seed makes the same rows.
///
/// Errors: the server's, or a signal came.
pub fn load(connection: &mut Conn, scale: &Scale, seed: u64) -> Result<()> {
    connection.query_drop(format!("CREATE DATABASE {DATABASE}"))?;
    connection.query_drop(format!("USE {DATABASE}"))?;
    for table in TABLES {
        connection.query_drop(format!("{table} ENGINE=InnoDB CHARACTER SET latin1"))?;
    }
    let mut loader = Loader {
        connection,
        scale: *scale,
        dice: Dice::new(seed),
    };
    loader.items()?;
    for warehouse in 1..=scale.warehouses {
        loader.warehouse(warehouse)?;
        loader.stock(warehouse)?;
        for district in 1..=DISTRICTS {
            check_interrupt()?;
            loader.customers(warehouse, district)?;
            loader.orders(warehouse, district)?;
        }
    }
    let tables =
        "warehouse, district, customer, history, new_order, orders, order_line, item, stock";
    let _: Vec<mysql::Row> = connection.query(format!("ANALYZE TABLE {tables}"))?;
    Ok(())
}

/// Rows of one table on their way.
struct Rows<'a> {
    connection: &'a mut Conn,
    head: String,
    statement: String,
}

impl<'a> Rows<'a> {
    fn of(connection: &'a mut Conn, table: &str) -> Rows<'a> {
        Rows {
            connection,
            head: format!("INSERT INTO {table} VALUES "),
            statement: String::new(),
        }
    }

    /// Adds a row, its values as SQL has them.
    fn push(&mut self, values: &str) -> Result<()> {
        let start = match self.statement.is_empty() {
            true => &self.head,
            false => ",",
        };
        self.statement.push_str(start);
        let _ = write!(self.statement, "({values})");
        match self.statement.len() < STATEMENT_BYTES {
            true => Ok(()),
            false => self.send(),
        }
    }

    /// Sends what is left; to be called at the end.
    fn send(&mut self) -> Result<()> {
        let statement = std::mem::take(&mut self.statement);
        if !statement.is_empty() {
            self.connection.query_drop(statement)?;
        }
        Ok(())
    }
}

struct Loader<'a> {
    connection: &'a mut Conn,
    scale: Scale,
    dice: Dice,
}

impl Loader<'_> {
    fn items(&mut self) -> Result<()> {
        let mut rows = Rows::of(self.connection, "item");
        for item in 1..=self.scale.items {
            let dice = &mut self.dice;
            let (image, name) = (dice.number(1, 10_000), dice.text(14, 24));
            let (price, data) = (money(i64::from(dice.number(100, 10_000))), dice.data());
            rows.push(&format!("{item},{image},'{name}',{price},'{data}'"))?;
        }
        rows.send()
    }

    fn warehouse(&mut self, warehouse: u32) -> Result<()> {
        let district_cents = i64::from(self.scale.customers) * PAID_CENTS;
        let mut rows = Rows::of(self.connection, "warehouse");
        let address = place(&mut self.dice);
        let sum = money(district_cents * i64::from(DISTRICTS));
        rows.push(&format!("{warehouse},{address},{sum}"))?;
        rows.send()?;
        let mut rows = Rows::of(self.connection, "district");
        for district in 1..=DISTRICTS {
            let (address, paid) = (place(&mut self.dice), money(district_cents));
            let next = self.scale.customers + 1;
            rows.push(&format!("{warehouse},{district},{address},{paid},{next}"))?;
        }
        rows.send()
    }

    fn stock(&mut self, warehouse: u32) -> Result<()> {
        let mut rows = Rows::of(self.connection, "stock");
        for item in 1..=self.scale.items {
            let dice = &mut self.dice;
            let quantity = dice.number(10, 100);
            let districts: Vec<String> = (0..DISTRICTS)
                .map(|_| format!("'{}'", dice.text(24, 24)))
                .collect();
            let (districts, data) = (districts.join(","), dice.data());
            rows.push(&format!(
                "{warehouse},{item},{quantity},{districts},0,0,0,'{data}'"
            ))?;
        }
        rows.send()
    }

    fn customers(&mut self, warehouse: u32, district: u32) -> Result<()> {
        let mut rows = Rows::of(self.connection, "customer");
        let paid = money(PAID_CENTS);
        for customer in 1..=self.scale.customers {
            let dice = &mut self.dice;
            // The first thousand have all names, so that each that is asked for exists.
            let name = match customer <= NAMES {
                true => last_name(customer - 1),
                false => dice.name(&self.scale),
            };
            let credit = if dice.happens(10) { "BC" } else { "GC" };
            let (first, address) = (dice.text(8, 16), address(dice));
            let (phone, discount) = (dice.digits(16), fraction(dice.number(0, 5000)));
            let data = dice.text(300, 500);
            rows.push(&format!(
                "{warehouse},{district},{customer},'{first}','OE','{name}',{address},'{phone}',{THEN},\
                 '{credit}',50000,{discount},-10.00,{paid},1,0,'{data}'"
            ))?;
        }
        rows.send()?;
        let mut rows = Rows::of(self.connection, "history");
        for customer in 1..=self.scale.customers {
            let data = self.dice.text(12, 24);
            rows.push(&format!(
                "{customer},{district},{warehouse},{district},{warehouse},{THEN},{paid},'{data}'"
            ))?;
        }
        rows.send()
    }

    /// An order of each customer, in any order; the last three tenths are not delivered.
    fn orders(&mut self, warehouse: u32, district: u32) -> Result<()> {
        let mut customers: Vec<u32> = (1..=self.scale.customers).collect();
        self.dice.shuffle(&mut customers);
        let delivered = self.scale.delivered();
        let mut counts = Vec::with_capacity(customers.len());
        let mut rows = Rows::of(self.connection, "orders");
        for (customer, order) in customers.into_iter().zip(1..) {
            let (carrier, count) = (self.dice.number(1, 10).to_string(), self.dice.number(5, 15));
            let carrier = known(order <= delivered, &carrier);
            counts.push(count);
            rows.push(&format!(
                "{warehouse},{district},{order},{customer},{THEN},{carrier},{count},1"
            ))?;
        }
        rows.send()?;
        let mut rows = Rows::of(self.connection, "new_order");
        for order in delivered + 1..=self.scale.customers {
            rows.push(&format!("{warehouse},{district},{order}"))?;
        }
        rows.send()?;
        let mut rows = Rows::of(self.connection, "order_line");
        for (count, order) in counts.into_iter().zip(1..) {
            let is_delivered = order <= delivered;
            for number in 1..=count {
                let dice = &mut self.dice;
                let (item, info) = (dice.number(1, self.scale.items), dice.text(24, 24));
                let cents = if is_delivered {
                    0
                } else {
                    dice.number(1, 999_999)
                };
                let (when, amount) = (known(is_delivered, THEN), money(i64::from(cents)));
                rows.push(&format!(
                    "{warehouse},{district},{order},{number},{item},{warehouse},{when},5,{amount},'{info}'"
                ))?;
            }
        }
        rows.send()
    }
}

fn known(is_known: bool, value: &str) -> &str {
    if is_known { value } else { "NULL" }
}

/// Ten-thousandths as SQL takes them.
fn fraction(ten_thousandths: u32) -> String {
    format!("0.{ten_thousandths:04}")
}

/// Name, address and tax of a warehouse or a district.
fn place(dice: &mut Dice) -> String {
    let (name, address) = (dice.text(6, 10), address(dice));
    format!("'{name}',{address},{}", fraction(dice.number(0, 2000)))
}

/// Two streets, a city, a state and a zip code.
fn address(dice: &mut Dice) -> String {
    let streets = [dice.text(10, 20), dice.text(10, 20), dice.text(10, 20)];
    let (state, zip) = (dice.text(2, 2), dice.zip());
    format!("'{}','{state}','{zip}'", streets.join("','"))
}
