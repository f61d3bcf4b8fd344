//! New-Order: a customer orders five to fifteen items; one order in a hundred names an item that does not
//! exist, and is rolled back.

use forebay_harness::Result;

use crate::tpcc::random::money;
use crate::tpcc::terminal::{Ended, Terminal};

/// Of a hundred items, those that another warehouse supplies.
const REMOTE_PERCENT: u32 = 1;
/// Stock is filled up before it falls below this.
const LEAST_STOCK: i32 = 10;
const REFILL: i32 = 91;

struct Line {
    supplier: u32,
    item: u32,
    quantity: u32,
}

struct Order {
    district: u32,
    customer: u32,
    lines: Vec<Line>,
}

impl Order {
    fn drawn(terminal: &mut Terminal) -> Order {
        let district = terminal.any_district();
        let scale = terminal.scale;
        let customer = terminal.dice.customer(&scale);
        let count = terminal.dice.number(5, 15);
        let line = |_| Line {
            supplier: terminal.any_warehouse(REMOTE_PERCENT),
            item: terminal.dice.item(&scale),
            quantity: terminal.dice.number(1, 10),
        };
        let mut lines: Vec<Line> = (0..count).map(line).collect();
        // Users lock stock in the same order, so that few of them wait for each other in a circle.
        lines.sort_by_key(|line| (line.supplier, line.item));
        if let Some(last) = lines.last_mut().filter(|_| terminal.dice.happens(1)) {
            last.item = scale.items + 1;
        }
        Order {
            district,
            customer,
            lines,
        }
    }
}

pub fn run(terminal: &mut Terminal) -> Result<Ended> {
    let order = Order::drawn(terminal);
    let (home, district) = (terminal.home, order.district);
    terminal.begin()?;
    let _: (String, String, String, String) = terminal.one(
        "SELECT c_discount, c_last, c_credit, w_tax FROM customer JOIN warehouse ON w_id = c_w_id
            WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?",
        (home, district, order.customer),
    )?;
    let (number, _tax): (u32, String) = terminal.one(
        "SELECT d_next_o_id, d_tax FROM district WHERE d_w_id = ? AND d_id = ? FOR UPDATE",
        (home, district),
    )?;
    terminal.change(
        "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = ? AND d_id = ?",
        (home, district),
    )?;
    let is_local = order.lines.iter().all(|line| line.supplier == home);
    terminal.change(
        "INSERT INTO orders VALUES (?, ?, ?, ?, NOW(), NULL, ?, ?)",
        (
            home,
            district,
            number,
            order.customer,
            order.lines.len(),
            is_local,
        ),
    )?;
    terminal.change(
        "INSERT INTO new_order VALUES (?, ?, ?)",
        (home, district, number),
    )?;
    for (line, place) in order.lines.iter().zip(1_u32..) {
        if !add(terminal, district, number, line, place)? {
            terminal.roll_back()?;
            return Ok(Ended::RolledBack);
        }
    }
    terminal.commit()?;
    Ok(Ended::Committed)
}

/// Takes an item from stock and adds its line; false if there is no such item.
fn add(
    terminal: &mut Terminal,
    district: u32,
    order: u32,
    line: &Line,
    place: u32,
) -> Result<bool> {
    let home = terminal.home;
    let known: Option<(i64, String, String)> = terminal.row(
        "SELECT CAST(i_price * 100 AS SIGNED), i_name, i_data FROM item WHERE i_id = ?",
        (line.item,),
    )?;
    let Some((price_cents, ..)) = known else {
        return Ok(false);
    };
    let select = format!(
        "SELECT s_quantity, s_dist_{district:02}, s_data FROM stock WHERE s_w_id = ? AND s_i_id = ? FOR UPDATE"
    );
    let (stock, info, _data): (i32, String, String) =
        terminal.one(&select, (line.supplier, line.item))?;
    let rest = stock - line.quantity.cast_signed();
    let stock = if rest >= LEAST_STOCK {
        rest
    } else {
        rest + REFILL
    };
    let is_remote = line.supplier != home;
    terminal.change(
        "UPDATE stock SET s_quantity = ?, s_ytd = s_ytd + ?, s_order_cnt = s_order_cnt + 1,
            s_remote_cnt = s_remote_cnt + ? WHERE s_w_id = ? AND s_i_id = ?",
        (stock, line.quantity, is_remote, line.supplier, line.item),
    )?;
    let amount = money(price_cents * i64::from(line.quantity));
    terminal.change(
        "INSERT INTO order_line VALUES (?, ?, ?, ?, ?, ?, NULL, ?, ?, ?)",
        (
            home,
            district,
            order,
            place,
            line.item,
            line.supplier,
            line.quantity,
            amount,
            info,
        ),
    )?;
    Ok(true)
}
