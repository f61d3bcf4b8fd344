//! Order-Status: what became of a customer's last order. It only reads.

use forebay_harness::Result;

use crate::tpcc::terminal::{Ended, Terminal};

pub fn run(terminal: &mut Terminal) -> Result<Ended> {
    let (home, district) = (terminal.home, terminal.any_district());
    terminal.begin()?;
    let customer = terminal.find_customer(home, district)?;
    let key = (home, district, customer);
    let _: (String, String, String, String) = terminal.one(
        "SELECT c_balance, c_first, c_middle, c_last FROM customer
            WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?",
        key,
    )?;
    let last: Option<u32> = terminal.row(
        "SELECT o_id FROM orders WHERE o_w_id = ? AND o_d_id = ? AND o_c_id = ?
            ORDER BY o_id DESC LIMIT 1",
        key,
    )?;
    if let Some(order) = last {
        let _: Vec<(u32, u32, u32, String)> = terminal.rows(
            "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount FROM order_line
                WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?",
            (home, district, order),
        )?;
    }
    terminal.commit()?;
    Ok(Ended::Committed)
}
