//! A user's connection to the server, and what all its transactions do alike.

use mysql::prelude::{FromRow, Queryable};
use mysql::{Conn, Params};

use forebay_harness::Result;

use crate::tpcc::random::Dice;
use crate::tpcc::scale::{DISTRICTS, Scale};

/// How a transaction ended that met no error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Committed,
    /// As one New-Order in a hundred has to.
    RolledBack,
}

/// Somebody at a warehouse.
pub struct Terminal {
    connection: Conn,
    pub dice: Dice,
    pub scale: Scale,
    /// The warehouse that this user works at.
    pub home: u32,
}

impl Terminal {
    pub fn new(connection: Conn, scale: Scale, home: u32, seed: u64) -> Terminal {
        Terminal {
            connection,
            dice: Dice::new(seed),
            scale,
            home,
        }
    }

    pub fn begin(&mut self) -> Result<()> {
        Ok(self.connection.query_drop("START TRANSACTION")?)
    }

    /// When it returns, what was done is durable.
    pub fn commit(&mut self) -> Result<()> {
        Ok(self.connection.query_drop("COMMIT")?)
    }

    pub fn roll_back(&mut self) -> Result<()> {
        Ok(self.connection.query_drop("ROLLBACK")?)
    }

    /// Runs a statement, which the server has to parse once.
    pub fn change(&mut self, statement: &str, parameters: impl Into<Params>) -> Result<()> {
        Ok(self.connection.exec_drop(statement, parameters)?)
    }

    pub fn rows<T: FromRow>(
        &mut self,
        statement: &str,
        parameters: impl Into<Params>,
    ) -> Result<Vec<T>> {
        Ok(self.connection.exec(statement, parameters)?)
    }

    pub fn row<T: FromRow>(
        &mut self,
        statement: &str,
        parameters: impl Into<Params>,
    ) -> Result<Option<T>> {
        Ok(self.connection.exec_first(statement, parameters)?)
    }

    /// A row that has to be there.
    pub fn one<T: FromRow>(&mut self, statement: &str, parameters: impl Into<Params>) -> Result<T> {
        let row = self.row(statement, parameters)?;
        row.ok_or_else(|| format!("the database lacks the row of: {statement}").into())
    }

    pub fn any_district(&mut self) -> u32 {
        self.dice.number(1, DISTRICTS)
    }

    /// In so many of a hundred cases another warehouse than the user's, if there is one.
    pub fn any_warehouse(&mut self, remote_percent: u32) -> u32 {
        let others = self.scale.warehouses - 1;
        if others == 0 || !self.dice.happens(remote_percent) {
            return self.home;
        }
        // Those from the next on, round and round, so that it is never this one.
        (self.home - 1 + self.dice.number(1, others)) % self.scale.warehouses + 1
    }

    /// A customer of a district: three in five by last name, of those alike the middle one by first name
    /// (clauses 2.5.2.2 and 2.6.2.2).
    pub fn find_customer(&mut self, warehouse: u32, district: u32) -> Result<u32> {
        if !self.dice.happens(60) {
            return Ok(self.dice.customer(&self.scale));
        }
        let name = self.dice.name(&self.scale);
        let found: Vec<u32> = self.rows(
            "SELECT c_id FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_last = ? ORDER BY c_first",
            (warehouse, district, &name),
        )?;
        let middle = found.len().div_ceil(2).saturating_sub(1);
        let middle = found.get(middle).copied();
        middle.ok_or_else(|| format!("no customer {name} in {warehouse}.{district}").into())
    }
}

/// Whether the server called a transaction off for others' sake, so that it is to be tried again.
pub fn is_conflict(error: &(dyn std::error::Error + Send + Sync + 'static)) -> bool {
    const DEADLOCK: u16 = 1213;
    const LOCK_WAIT_TIMEOUT: u16 = 1205;
    match error.downcast_ref() {
        Some(mysql::Error::MySqlError(told)) => [DEADLOCK, LOCK_WAIT_TIMEOUT].contains(&told.code),
        _ => false,
    }
}
