//! Payment: a customer, in fifteen of a hundred cases one of another warehouse, pays.

use forebay_harness::Result;

use crate::tpcc::random::money;
use crate::tpcc::terminal::{Ended, Terminal};

const REMOTE_PERCENT: u32 = 15;
/// What a customer's data may be long.
const DATA_LETTERS: usize = 500;

pub fn run(terminal: &mut Terminal) -> Result<Ended> {
    let (home, district) = (terminal.home, terminal.any_district());
    let of_warehouse = terminal.any_warehouse(REMOTE_PERCENT);
    let of_district = match of_warehouse == home {
        true => district,
        false => terminal.any_district(),
    };
    let amount = money(i64::from(terminal.dice.number(100, 500_000)));
    terminal.begin()?;
    terminal.change(
        "UPDATE warehouse SET w_ytd = w_ytd + ? WHERE w_id = ?",
        (&amount, home),
    )?;
    let warehouse_name: String =
        terminal.one("SELECT w_name FROM warehouse WHERE w_id = ?", (home,))?;
    terminal.change(
        "UPDATE district SET d_ytd = d_ytd + ? WHERE d_w_id = ? AND d_id = ?",
        (&amount, home, district),
    )?;
    let district_name: String = terminal.one(
        "SELECT d_name FROM district WHERE d_w_id = ? AND d_id = ?",
        (home, district),
    )?;
    let customer = terminal.find_customer(of_warehouse, of_district)?;
    let key = (of_warehouse, of_district, customer);
    let (credit, data): (String, String) = terminal.one(
        "SELECT c_credit, c_data FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_id = ? FOR UPDATE",
        key,
    )?;
    let data = match credit == "BC" {
        true => noted(&data, (key, (home, district), &amount)),
        false => data,
    };
    terminal.change(
        "UPDATE customer SET c_balance = c_balance - ?, c_ytd_payment = c_ytd_payment + ?,
            c_payment_cnt = c_payment_cnt + 1, c_data = ? WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?",
        (&amount, &amount, data, key.0, key.1, key.2),
    )?;
    terminal.change(
        "INSERT INTO history VALUES (?, ?, ?, ?, ?, NOW(), ?, ?)",
        (
            customer,
            of_district,
            of_warehouse,
            district,
            home,
            &amount,
            format!("{warehouse_name}    {district_name}"),
        ),
    )?;
    terminal.commit()?;
    Ok(Ended::Committed)
}

/// The data of a customer with bad credit: the payment in front, what is too much cut off.
fn noted(data: &str, payment: ((u32, u32, u32), (u32, u32), &str)) -> String {
    let ((warehouse, district, customer), (at_warehouse, at_district), amount) = payment;
    let note =
        format!("{customer} {district} {warehouse} {at_district} {at_warehouse} {amount} {data}");
    note.chars().take(DATA_LETTERS).collect()
}
