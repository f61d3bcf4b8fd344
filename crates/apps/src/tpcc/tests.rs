//! The driver and the check against a real server, without any mount: skipped where MariaDB is not installed.

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use forebay_harness::TestEnv;
use mysql::prelude::Queryable;

use crate::context::program;
use crate::tpcc::consistency::Books;
use crate::tpcc::drive::{Done, drive};
use crate::tpcc::load::load;
use crate::tpcc::mix::{KINDS, Kind};
use crate::tpcc::pace::Goal;
use crate::tpcc::scale::Scale;
use crate::tpcc::schema::DATABASE;
use crate::tpcc::server::Server;
use crate::tpcc::terminal::{Ended, Terminal};
use crate::tpcc::transactions;

const SCALE: Scale = Scale {
    warehouses: 2,
    items: 200,
    customers: 20,
};
const GOAL: Goal = Goal {
    transactions: 40,
    limit: Duration::from_secs(60),
};
const POOL_BYTES: u64 = 16 << 20;

/// Changes of one row each, and what the check says of it.
const BREAKS: [(&str, &str); 5] = [
    (
        "UPDATE warehouse SET w_ytd = w_ytd + 0.01 WHERE w_id = 2",
        "condition 1: warehouse 2",
    ),
    (
        "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = 1 AND d_id = 3",
        "condition 2: district 1.3",
    ),
    (
        "DELETE FROM order_line WHERE ol_w_id = 1 AND ol_d_id = 5 AND ol_o_id = 7 AND ol_number = 2",
        "condition 4: district 1.5",
    ),
    (
        "DELETE FROM new_order WHERE no_w_id = 2 AND no_d_id = 9 ORDER BY no_o_id DESC LIMIT 1",
        "condition 2: district 2.9",
    ),
    ("DELETE FROM history LIMIT 1", "payments where"),
];

#[test]
fn transactions_keep_the_database_consistent_and_a_broken_row_is_caught() {
    let (Ok(_), Ok(_)) = (program("mariadbd"), program("mariadb-install-db")) else {
        let _ = writeln!(
            std::io::stderr(),
            "skipped TPC-C on a server: needs MariaDB"
        );
        return;
    };
    // No command of ours takes part.
    let folder = std::env::temp_dir();
    let env = TestEnv::new(Path::new("/bin/false"), &folder).expect("folders");
    let data = env.path("data");
    Server::install(&env, &data).expect("a database system");
    let server = Server::start(&env, &data, POOL_BYTES).expect("a server");
    load(&mut server.connect(None).expect("connected"), &SCALE, 7).expect("loaded");
    let violations = |done: &Done| {
        let mut connection = server.connect(None).expect("connected");
        let books = Books::read(&mut connection).expect("read");
        books.violations(&SCALE, done)
    };
    assert_eq!(violations(&Done::default()), [""; 0], "as loaded");

    let connect = || server.connect(Some(DATABASE)).expect("connected");
    let terminals =
        (0..4_u32).map(|user| Terminal::new(connect(), SCALE, user % 2 + 1, u64::from(user)));
    let (mut done, _) = drive(terminals.collect(), GOAL).expect("worked");
    // Each kind has run, however slow the machine is.
    let mut terminal = Terminal::new(connect(), SCALE, 1, 99);
    for kind in KINDS {
        while transactions::run(kind, &mut terminal).expect("alone") == Ended::RolledBack {}
        done.note(kind);
    }
    assert_eq!(violations(&done), [""; 0], "after {done:?}");
    let mut short = done;
    short.note(Kind::Payment);
    assert_eq!(
        violations(&short).len(),
        1,
        "one payment was acknowledged and is not there"
    );

    let mut connection = server.connect(Some(DATABASE)).expect("connected");
    for (statement, told) in BREAKS {
        connection.query_drop(statement).expect(statement);
        let found = violations(&done);
        assert!(
            found.iter().any(|one| one.contains(told)),
            "{statement}: {found:?}"
        );
    }
    drop(connection);
    server.end().expect("ended");
}
