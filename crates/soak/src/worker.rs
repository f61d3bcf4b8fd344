//! One client: asks, checks every answer, comes back after whatever cut it off, and finds out first
//! what became of the requests that were not answered.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::front_end::{Address, CONNECTIONS, Departure, Errand, FrontEnd, Outcome};
use crate::model::{Model, Uncertain};
use crate::requests::{Choice, Kind, Request};
use crate::tally::{Start, Tally};

/// A daemon that is not back by then will not come.
const RECONNECT_DEADLINE: Duration = Duration::from_secs(90);
/// A client leaves without a word once in so many batches.
const LEAVES_ONE_IN: u32 = 250;

#[derive(Debug, Default)]
pub struct Volume {
    pub name: String,
    pub models: Vec<Mutex<Model>>,
    /// Its clients are to close their front ends.
    pub is_paused: AtomicBool,
    /// Clients with closed front ends that wait.
    pub waiting: AtomicUsize,
    /// NBD connections that are in use by a client.
    pub connections: AtomicU64,
    /// Clients that are alive.
    pub alive: AtomicUsize,
}

/// Counts the connections of the daemon to a volume; `None` where no daemon answers.
pub type CountConnections<'a> = &'a (dyn Fn(&str) -> Option<u64> + Sync);

pub struct Worker<'a> {
    pub tally: &'a Tally,
    pub volume: &'a Volume,
    pub address: Address,
    pub choice: Choice,
    pub count_connections: CountConnections<'a>,
    pub is_interrupted: &'a AtomicBool,
    pub front_end: Option<FrontEnd>,
    /// The daemon that opened it.
    pub generation: u64,
}

impl Worker<'_> {
    /// Works until the run is over and the end of everything it asked is known.
    pub fn run(mut self) {
        self.volume.alive.fetch_add(1, SeqCst);
        while !self.is_interrupted.load(SeqCst) {
            if self.front_end.is_none() && !self.connect() {
                break;
            }
            if !self.model().lock().uncertain.is_empty() {
                self.resolve();
            } else if self.tally.is_over.load(SeqCst) {
                break;
            } else if self.volume.is_paused.load(SeqCst) {
                self.wait();
            } else {
                self.work();
            }
        }
        self.close();
        self.volume.alive.fetch_sub(1, SeqCst);
    }

    fn model(&self) -> &'_ Mutex<Model> {
        &self.volume.models[self.choice.client as usize]
    }

    /// Opens the front end. False if it stays closed.
    fn connect(&mut self) -> bool {
        let began = Instant::now();
        while !self.is_interrupted.load(SeqCst) {
            self.generation = self.tally.generation.load(SeqCst);
            match self.address.open() {
                Ok(front_end) => {
                    if matches!(front_end, FrontEnd::Nbd(_)) {
                        self.volume
                            .connections
                            .fetch_add(CONNECTIONS as u64, SeqCst);
                    }
                    self.front_end = Some(front_end);
                    return true;
                }
                Err(error) if began.elapsed() > RECONNECT_DEADLINE => {
                    let name = self.address.name();
                    self.tally.error(format!("{name} does not open: {error}"));
                    return false;
                }
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
        false
    }

    fn close(&mut self) {
        // Counted out before it is closed: a check that sees more in the daemon waits.
        if let Some(FrontEnd::Nbd(_)) = &self.front_end {
            self.volume
                .connections
                .fetch_sub(CONNECTIONS as u64, SeqCst);
        }
        self.front_end = None;
    }

    fn wait(&mut self) {
        self.close();
        self.volume.waiting.fetch_add(1, SeqCst);
        while self.volume.is_paused.load(SeqCst) && !self.is_interrupted.load(SeqCst) {
            std::thread::sleep(Duration::from_millis(2));
        }
        self.volume.waiting.fetch_sub(1, SeqCst);
    }

    fn work(&mut self) {
        let is_leaving = self.choice.rng.u32(..LEAVES_ONE_IN) == 0;
        let batch = self.choice.batch();
        if is_leaving && matches!(self.front_end, Some(FrontEnd::Nbd(_))) {
            self.leave(&batch);
        } else {
            self.perform(&batch, false);
        }
        if matches!(self.front_end, Some(FrontEnd::Fuse(_))) && self.choice.rng.u32(..8) == 0 {
            // Now and then the mount is unused, so that a daemon that ends can unmount it.
            self.front_end = None;
        }
    }

    /// Has the requests done by whichever connection; what became of each, and of the connection.
    fn ask(
        &mut self,
        model: &Model,
        requests: &[Request],
        half_close: bool,
    ) -> Option<(Vec<Outcome>, io::Result<()>)> {
        let name = self.address.name();
        let errand = Errand {
            tally: self.tally,
            model,
            requests,
            name: &name,
        };
        match &mut self.front_end {
            Some(FrontEnd::Nbd(clients)) => {
                let index = self.choice.rng.usize(..clients.len());
                Some(errand.over_nbd(&mut clients[index], half_close))
            }
            Some(FrontEnd::Fuse(file)) => Some(errand.over_fuse(file)),
            None => None,
        }
    }

    fn perform(&mut self, batch: &[Request], half_close: bool) {
        let volume = self.volume;
        let mut model = volume.models[self.choice.client as usize].lock();
        let start = self.tally.start();
        let Some((outcomes, result)) = self.ask(&model, batch, half_close) else {
            return;
        };
        let name = self.address.name();
        for (request, outcome) in batch.iter().zip(outcomes) {
            self.take(&mut model, request, outcome, start, &name);
        }
        drop(model);
        if let Err(error) = &result {
            self.cut_off(start, error);
        }
        if result.is_err() || half_close {
            self.close();
        }
    }

    fn take(
        &self,
        model: &mut Model,
        request: &Request,
        outcome: Outcome,
        start: Start,
        name: &str,
    ) {
        match outcome {
            Outcome::Done(data) if request.kind == Kind::Read => {
                model.check(request.bytes.start, &data, |complaint| {
                    self.tally
                        .complain(complaint, &format!("{name}, read {:?}", request.bytes));
                });
            }
            Outcome::Done(_) if request.kind.is_change() => {
                model.acknowledge(&request.bytes, request.version);
            }
            Outcome::Done(_) => {}
            Outcome::Failed(errno) => {
                self.tally.failed(start, || {
                    format!(
                        "{name}: {:?} {:?}: error {errno}",
                        request.kind, request.bytes
                    )
                });
                self.doubt(model, request, true);
            }
            Outcome::Unknown => self.doubt(model, request, true),
        }
    }

    fn doubt(&self, model: &mut Model, request: &Request, may_be_there: bool) {
        if request.kind.is_change() {
            model.uncertain.push(Uncertain {
                bytes: request.bytes.clone(),
                version: request.version,
                // Zeroes may be there in part.
                is_whole: request.kind.has_data(),
                may_be_there,
            });
        }
    }

    /// Breaks off in one of three ways, and waits until the daemon has seen it.
    fn leave(&mut self, batch: &[Request]) {
        let departure = match self.choice.rng.u32(..3) {
            0 => Departure::InData,
            1 => Departure::BeforeReplies,
            _ => Departure::HalfClosed,
        };
        if departure == Departure::HalfClosed {
            self.tally.fault("client_half_closed");
            return self.perform(batch, true);
        }
        self.tally.fault(match departure {
            Departure::InData => "client_left_in_data",
            _ => "client_left_before_replies",
        });
        let Some(FrontEnd::Nbd(mut clients)) = self.front_end.take() else {
            return;
        };
        self.volume
            .connections
            .fetch_sub(CONNECTIONS as u64, SeqCst);
        let volume = self.volume;
        let mut model = volume.models[self.choice.client as usize].lock();
        let name = self.address.name();
        let errand = Errand {
            tally: self.tally,
            model: &model,
            requests: batch,
            name: &name,
        };
        let whole = clients
            .pop()
            .map_or(0, |client| errand.and_leave(client, departure));
        drop(clients);
        for (index, request) in batch.iter().enumerate() {
            self.doubt(&mut model, request, index < whole);
        }
        drop(model);
        self.wait_until_forgotten();
    }

    /// What the daemon had received of a client that left may still be done. It is decided when the
    /// daemon knows of no more connections than clients have, or when it is another daemon.
    fn wait_until_forgotten(&self) {
        let generation = self.tally.generation.load(SeqCst);
        let began = Instant::now();
        while !self.is_interrupted.load(SeqCst) && self.tally.generation.load(SeqCst) == generation
        {
            let found = (self.count_connections)(&self.volume.name);
            if found.is_some_and(|count| count <= self.volume.connections.load(SeqCst)) {
                return;
            }
            if began.elapsed() > RECONNECT_DEADLINE {
                let name = self.address.name();
                let message = format!("{name}: connections that were closed are still open");
                return self.tally.error(message);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn resolve(&mut self) {
        let volume = self.volume;
        let mut model = volume.models[self.choice.client as usize].lock();
        let Some(change) = model.uncertain.last().cloned() else {
            return;
        };
        let request = Request {
            kind: Kind::Read,
            bytes: change.bytes.clone(),
            version: 0,
        };
        let start = self.tally.start();
        let asked = self.ask(&model, std::slice::from_ref(&request), false);
        let Some((outcomes, result)) = asked else {
            return;
        };
        let name = self.address.name();
        match &outcomes[0] {
            Outcome::Done(data) => {
                model.uncertain.pop();
                self.tally.resolved.fetch_add(1, SeqCst);
                model.resolve(&change, data, |complaint| {
                    self.tally
                        .complain(complaint, &format!("{name}, after it broke off"));
                });
            }
            Outcome::Failed(errno) => {
                self.tally.failed(start, || {
                    format!("{name}: Read {:?}: error {errno}", change.bytes)
                });
                std::thread::sleep(Duration::from_millis(20));
            }
            Outcome::Unknown => {}
        }
        drop(model);
        if let Err(error) = result {
            self.cut_off(start, &error);
            self.close();
        }
    }

    /// The front end is no more. That of an earlier daemon cannot be.
    fn cut_off(&self, start: Start, error: &io::Error) {
        if self.tally.generation.load(SeqCst) == self.generation {
            let name = self.address.name();
            self.tally.failed(start, || format!("{name}: {error}"));
        }
    }
}
