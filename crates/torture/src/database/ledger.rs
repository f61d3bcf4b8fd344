//! A bank of a few accounts: each transaction moves money and is written down.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use fastrand::Rng;
use forebay_harness::Result;
use rusqlite::{Connection, OptionalExtension, params};

use crate::task::Journal;

const ACCOUNTS: i64 = 500;
const BALANCE: i64 = 1000;

/// Makes transactions until it is killed; says its process id, then the number of each that is done.
pub fn run(path: &Path, journal: Journal) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", std::process::id())?;
    let mut connection = Connection::open(path)?;
    connection.busy_timeout(Duration::from_secs(10))?;
    if journal == Journal::WalExclusive {
        connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    }
    let mode = if journal == Journal::Delete {
        "DELETE"
    } else {
        "WAL"
    };
    connection.pragma_update(None, "journal_mode", mode)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    // Small, so that pages go to the file before the end of a transaction too.
    connection.pragma_update(None, "cache_size", 20)?;
    connection.pragma_update(None, "wal_autocheckpoint", 50)?;
    make(&mut connection)?;
    let mut rng = Rng::new();
    loop {
        let number = transfer(&mut connection, &mut rng)?;
        // One call: it is said whole or not.
        out.write_all(format!("{number}\n").as_bytes())?;
        out.flush()?;
    }
}

fn make(connection: &mut Connection) -> Result<()> {
    let transaction = connection.transaction()?;
    transaction.execute_batch(
        "create table if not exists accounts (id integer primary key, balance integer, text blob);
         create table if not exists transfers (id integer primary key, amount integer, text blob);",
    )?;
    for id in 0..ACCOUNTS {
        transaction.execute(
            "insert or ignore into accounts values (?1, ?2, zeroblob(100))",
            params![id, BALANCE],
        )?;
    }
    Ok(transaction.commit()?)
}

fn transfer(connection: &mut Connection, rng: &mut Rng) -> Result<i64> {
    let transaction = connection.transaction()?;
    let last: Option<i64> = transaction
        .query_row("select max(id) from transfers", [], |row| row.get(0))
        .optional()?
        .flatten();
    let number = last.unwrap_or(0) + 1;
    let amount = rng.i64(1..100);
    let change = "update accounts set balance = balance + ?2, text = randomblob(?3) where id = ?1";
    for _ in 0..rng.usize(1..20) {
        let len = rng.u32(10..900);
        let (from, to) = (rng.i64(0..ACCOUNTS), rng.i64(0..ACCOUNTS));
        transaction.execute(change, params![from, -amount, len])?;
        transaction.execute(change, params![to, amount, len])?;
    }
    transaction.execute(
        "insert into transfers values (?1, ?2, randomblob(?3))",
        params![number, amount, rng.u32(10..3000)],
    )?;
    // So that the file shrinks and is cut, too.
    transaction.execute("delete from transfers where id < ?1 - 200", params![number])?;
    transaction.commit()?;
    Ok(number)
}

/// How many transactions were made.
///
/// Errors: the database is not sound, or money was made or lost.
pub fn check(path: &Path) -> Result<u64> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(Duration::from_secs(10))?;
    let verdict: String = connection.query_row("pragma integrity_check", [], |row| row.get(0))?;
    if verdict != "ok" {
        return Err(format!("the database is not sound: {verdict}").into());
    }
    let tables = "select count(*) from sqlite_master where name = 'transfers'";
    let count: i64 = connection.query_row(tables, [], |row| row.get(0))?;
    if count == 0 {
        return Ok(0);
    }
    let sum: i64 =
        connection.query_row("select sum(balance) from accounts", [], |row| row.get(0))?;
    let wanted = ACCOUNTS * BALANCE;
    if sum != wanted {
        return Err(format!("the accounts hold {sum}, not {wanted}").into());
    }
    let last = "select coalesce(max(id), 0) from transfers";
    let last: i64 = connection.query_row(last, [], |row| row.get(0))?;
    let kept = "select count(*) from transfers";
    let kept: i64 = connection.query_row(kept, [], |row| row.get(0))?;
    match kept == last.min(201) {
        true => Ok(last.try_into()?),
        false => Err(format!("{kept} of {last} transfers are written down").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_transferred_is_counted_and_lost_money_is_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("database");
        let mut connection = Connection::open(&path).expect("opened");
        make(&mut connection).expect("made");
        let mut rng = Rng::with_seed(4);
        for number in 1..=210 {
            let made = transfer(&mut connection, &mut rng).expect("transferred");
            assert_eq!(made, number);
        }
        assert_eq!(check(&path).expect("sound"), 210);
        let steal = "update accounts set balance = balance - 1 where id = 3";
        connection.execute(steal, []).expect("stolen");
        check(&path).expect_err("a coin is missing");
    }
}
