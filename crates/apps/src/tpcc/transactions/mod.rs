//! TPC-C's five transactions (clauses 2.4 to 2.8).

mod delivery;
mod new_order;
mod order_status;
mod payment;
mod stock_level;

use forebay_harness::Result;

use crate::tpcc::mix::Kind;
use crate::tpcc::terminal::{Ended, Terminal};

/// One transaction, from its begin to its end. After an error it is rolled back.
///
/// # Errors
/// The server's; a conflict among them.
pub fn run(kind: Kind, terminal: &mut Terminal) -> Result<Ended> {
    let ended = match kind {
        Kind::NewOrder => new_order::run(terminal),
        Kind::Payment => payment::run(terminal),
        Kind::OrderStatus => order_status::run(terminal),
        Kind::Delivery => delivery::run(terminal),
        Kind::StockLevel => stock_level::run(terminal),
    };
    if ended.is_err() {
        // Where this fails too, the connection is gone and the first error says why.
        let _ = terminal.roll_back();
    }
    ended
}
