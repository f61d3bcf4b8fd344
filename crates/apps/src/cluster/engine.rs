//! What every engine can be asked: to start, to take a member back, to be written and read by clients.

use std::fmt::Debug;
use std::time::Duration;

use forebay_harness::Result;

use crate::cluster::hosts::Hosts;
use crate::cluster::workload::Workload;

/// Work in one piece.
#[derive(Clone, Copy, Debug)]
pub struct Batch {
    /// That it wrote, one copy of them.
    pub bytes: u64,
    pub elapsed: Duration,
}

/// A client of its own connection. It is made anywhere, and used by one thread, whose sockets are of the clients' network.
pub trait Client: Send {
    /// Brings a key to a version, and returns when that is acknowledged.
    ///
    /// # Errors
    /// It may have been done, or not.
    fn write(&mut self, workload: Workload, key: &str, version: u32) -> Result<()>;

    /// What a key has; none where it is not there. No answer is older than what was acknowledged, if the engine is right.
    ///
    /// # Errors
    /// There is no answer.
    fn read(&mut self, key: &str) -> Result<Option<Vec<u8>>>;
}

/// An engine that keeps copies on several nodes. Its programs end with their nodes.
pub trait Engine: Debug {
    /// Nodes that it runs on.
    fn nodes(&self) -> usize;

    /// What it is loaded with in kill rounds, and where its speed is measured.
    fn workload(&self) -> Workload;

    /// What it is loaded with before a pool is lost: something that is written again and again.
    fn stale_workload(&self) -> Workload {
        self.workload()
    }

    /// Whether it goes on when a majority died and part of it came back.
    fn has_quorum(&self) -> bool;

    /// Whether all its nodes may die together and come back with everything, which no other node has then.
    fn outlives_all(&self) -> bool {
        false
    }

    /// Starts it for the first time, on all nodes, and waits until it serves.
    fn start(&mut self, hosts: &Hosts<'_>) -> Result<()>;

    /// Ends a member whose node lives on, so that nothing uses its brick.
    fn stop(&mut self, hosts: &Hosts<'_>, number: usize) -> Result<()>;

    /// Starts a member whose node came back.
    fn restart(&mut self, hosts: &Hosts<'_>, number: usize) -> Result<()>;

    /// Waits until those of these numbers serve, and have what the others have.
    fn settle(&mut self, hosts: &Hosts<'_>, numbers: &[usize]) -> Result<()>;

    /// Adds a member anew whose node came back with an empty brick, as the guide says.
    fn readmit(&mut self, hosts: &Hosts<'_>, number: usize) -> Result<()>;

    /// Clients that begin at different members where that makes a difference.
    fn clients(&self, hosts: &Hosts<'_>, count: usize) -> Result<Vec<Box<dyn Client>>>;

    /// A client that asks this member.
    fn client_of(&self, hosts: &Hosts<'_>, number: usize) -> Result<Box<dyn Client>>;

    /// The names of what it is measured by in one piece, one after the other; most engines have nothing of the kind.
    fn batches(&self) -> &'static [&'static str] {
        &[]
    }

    /// Does one of them.
    fn batch(&self, _: &Hosts<'_>, name: &str) -> Result<Batch> {
        Err(format!("there is no {name}").into())
    }
}
