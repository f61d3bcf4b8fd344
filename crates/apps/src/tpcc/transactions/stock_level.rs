//! Stock-Level: how many items of a district's last twenty orders are scarce. It only reads.

use forebay_harness::Result;

use crate::tpcc::terminal::{Ended, Terminal};

const ORDERS: u32 = 20;

pub fn run(terminal: &mut Terminal) -> Result<Ended> {
    let (home, district) = (terminal.home, terminal.any_district());
    let threshold = terminal.dice.number(10, 20);
    terminal.begin()?;
    let next: u32 = terminal.one(
        "SELECT d_next_o_id FROM district WHERE d_w_id = ? AND d_id = ?",
        (home, district),
    )?;
    let _: u64 = terminal.one(
        "SELECT COUNT(DISTINCT s_i_id) FROM order_line JOIN stock ON s_w_id = ol_w_id AND s_i_id = ol_i_id
            WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id >= ? AND ol_o_id < ? AND s_quantity < ?",
        (home, district, next.saturating_sub(ORDERS), next, threshold),
    )?;
    terminal.commit()?;
    Ok(Ended::Committed)
}
