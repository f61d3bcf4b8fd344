//! Delivery: the oldest open order of each district of a warehouse, all in one transaction, at once instead of
//! from a queue.

use forebay_harness::Result;

use crate::tpcc::scale::DISTRICTS;
use crate::tpcc::terminal::{Ended, Terminal};

pub fn run(terminal: &mut Terminal) -> Result<Ended> {
    let carrier = terminal.dice.number(1, 10);
    terminal.begin()?;
    for district in 1..=DISTRICTS {
        deliver(terminal, district, carrier)?;
    }
    terminal.commit()?;
    Ok(Ended::Committed)
}

fn deliver(terminal: &mut Terminal, district: u32, carrier: u32) -> Result<()> {
    let home = terminal.home;
    let oldest: Option<u32> = terminal.row(
        "SELECT no_o_id FROM new_order WHERE no_w_id = ? AND no_d_id = ?
            ORDER BY no_o_id LIMIT 1 FOR UPDATE",
        (home, district),
    )?;
    // A district without an open order is passed over (clause 2.7.4.2).
    let Some(order) = oldest else { return Ok(()) };
    let key = (home, district, order);
    terminal.change(
        "DELETE FROM new_order WHERE no_w_id = ? AND no_d_id = ? AND no_o_id = ?",
        key,
    )?;
    let customer: u32 = terminal.one(
        "SELECT o_c_id FROM orders WHERE o_w_id = ? AND o_d_id = ? AND o_id = ?",
        key,
    )?;
    terminal.change(
        "UPDATE orders SET o_carrier_id = ? WHERE o_w_id = ? AND o_d_id = ? AND o_id = ?",
        (carrier, home, district, order),
    )?;
    terminal.change(
        "UPDATE order_line SET ol_delivery_d = NOW() WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?",
        key,
    )?;
    let amount: String = terminal.one(
        "SELECT SUM(ol_amount) FROM order_line WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?",
        key,
    )?;
    terminal.change(
        "UPDATE customer SET c_balance = c_balance + ?, c_delivery_cnt = c_delivery_cnt + 1
            WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?",
        (amount, home, district, customer),
    )
}
