//! Clients that write without a pause, each awaiting every answer, and a check of what they were told.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use forebay_harness::{Result, sleep, wait_for};

use crate::cluster::engine::Client;
use crate::cluster::manifest::{Finding, Manifest};
use crate::cluster::node::Network;
use crate::cluster::workload::{Step, Workload};

/// After an error, so that a dead engine isn't asked all the time.
const PAUSE: Duration = Duration::from_millis(50);
/// A key is asked for so long while there is no answer.
const READ_DEADLINE: Duration = Duration::from_secs(60);
const READ_PAUSE: Duration = Duration::from_millis(200);

/// What clients write.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    pub workload: Workload,
    /// Clients are numbered from here on; those of the same number have the same keys.
    pub first_client: usize,
    /// What was written to these keys before.
    pub before: &'a Manifest,
}

/// What clients did.
#[derive(Clone, Debug, Default)]
pub struct Done {
    pub manifest: Manifest,
    /// Of each acknowledged step.
    pub latencies_ns: Vec<u64>,
    /// Bytes that were acknowledged.
    pub bytes: u64,
    /// Steps without an answer.
    pub failures: u64,
    pub elapsed: Duration,
}

/// Lets clients work while `meanwhile` runs, and until it returns; what it returned.
///
/// # Errors
/// That of `meanwhile`. What clients are refused is counted.
pub fn run<T>(
    network: &Network,
    clients: Vec<Box<dyn Client>>,
    plan: Plan<'_>,
    meanwhile: impl FnOnce() -> Result<T>,
) -> Result<(Done, T)> {
    let is_over = AtomicBool::new(false);
    let began = Instant::now();
    thread::scope(|scope| {
        let is_over = &is_over;
        let threads: Vec<_> = clients
            .into_iter()
            .enumerate()
            .map(|(number, client)| {
                scope.spawn(move || work(network, client, (plan, number), is_over))
            })
            .collect();
        let result = meanwhile();
        is_over.store(true, Ordering::Relaxed);
        let mut all = Done {
            manifest: plan.before.clone(),
            ..Done::default()
        };
        for thread in threads {
            let done = thread.join().map_err(|_| "a client panicked")??;
            all.manifest.absorb(done.manifest);
            all.latencies_ns.extend(done.latencies_ns);
            all.bytes += done.bytes;
            all.failures += done.failures;
        }
        all.elapsed = began.elapsed();
        all.latencies_ns.sort_unstable();
        Ok((all, result?))
    })
}

/// Lets clients work for so long.
pub fn run_for(
    network: &Network,
    clients: Vec<Box<dyn Client>>,
    plan: Plan<'_>,
    time: Duration,
) -> Result<Done> {
    Ok(run(network, clients, plan, || sleep(time))?.0)
}

fn work(
    network: &Network,
    mut client: Box<dyn Client>,
    (plan, number): (Plan<'_>, usize),
    is_over: &AtomicBool,
) -> Result<Done> {
    network.enter()?;
    let (workload, client_number) = (plan.workload, plan.first_client + number);
    let mut done = Done {
        manifest: plan.before.clone(),
        ..Done::default()
    };
    let mut number = 0;
    while !is_over.load(Ordering::Relaxed) {
        let attempted = |key: &str| done.manifest.attempted(key);
        let Some(step) = workload.step(client_number, number, attempted) else {
            number += 1;
            continue;
        };
        let began = Instant::now();
        match take(&mut client, workload, &step, &mut done) {
            Ok(()) => {
                done.latencies_ns.push(began.elapsed().as_nanos() as u64);
                number += 1;
            }
            Err(_) => {
                done.failures += 1;
                number = workload.after_failure(number);
                thread::sleep(PAUSE);
            }
        }
    }
    Ok(done)
}

/// Takes one step, and notes what was acknowledged.
fn take(
    client: &mut Box<dyn Client>,
    workload: Workload,
    step: &Step,
    done: &mut Done,
) -> Result<()> {
    if step.is_read {
        let found = client.read(&step.key)?;
        let is_right = found == workload.content(&step.key, step.version);
        return match is_right {
            true => Ok(()),
            false => Err(format!("{} is not as acknowledged", step.key).into()),
        };
    }
    done.manifest.attempt(&step.key, step.version);
    client.write(workload, &step.key, step.version)?;
    if workload.is_promised(step.version) {
        done.manifest.acknowledge(&step.key);
    }
    done.bytes += workload.written(&step.key, step.version).1.len() as u64;
    Ok(())
}

/// What a check found, of keys of which something was acknowledged.
#[derive(Clone, Debug, Default)]
pub struct Checked {
    pub keys: u64,
    pub losses: u64,
    /// The first of them, in words.
    pub example: Option<String>,
}

/// Compares what is there with what was acknowledged.
///
/// # Errors
/// There is no answer for a minute.
pub fn check(
    network: &Network,
    client: &mut Box<dyn Client>,
    workload: Workload,
    manifest: &Manifest,
) -> Result<Checked> {
    network.run(|| {
        let mut checked = Checked::default();
        for (key, entry) in manifest.acknowledged() {
            let found = read(client, key)?;
            checked.keys += 1;
            match Manifest::classify(workload, key, entry, found.as_deref()) {
                Finding::AsAcknowledged => {}
                finding => {
                    checked.losses += 1;
                    let told = || {
                        let version = entry.acknowledged;
                        format!("{key}: version {version} was acknowledged, and it is {finding:?}")
                    };
                    checked.example.get_or_insert_with(told);
                }
            }
        }
        Ok(checked)
    })
}

/// An engine that has just elected a leader may not answer at once.
fn read(client: &mut Box<dyn Client>, key: &str) -> Result<Option<Vec<u8>>> {
    let mut last = None;
    let found = wait_for(READ_DEADLINE, || match client.read(key) {
        Ok(found) => Ok(Some(found)),
        Err(error) => {
            last = Some(error);
            thread::sleep(READ_PAUSE);
            Ok(None)
        }
    })?;
    let last = || last.map_or(String::new(), |error| format!(": {error}"));
    found.ok_or_else(|| format!("{key} cannot be read{}", last()).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::sync::{Arc, Mutex};

    /// An engine in memory that refuses each tenth write, half of them after it was done.
    #[derive(Clone, Default)]
    struct Memory {
        values: Arc<Mutex<BTreeMap<String, Option<Vec<u8>>>>>,
        writes: u64,
    }

    impl Client for Memory {
        fn write(&mut self, workload: Workload, key: &str, version: u32) -> Result<()> {
            self.writes += 1;
            let is_refused = self.writes.is_multiple_of(10);
            if !is_refused || self.writes.is_multiple_of(20) {
                let mut values = self.values.lock().expect("whole");
                values.insert(key.to_owned(), workload.content(key, version));
            }
            if is_refused {
                Err("refused".into())
            } else {
                Ok(())
            }
        }

        fn read(&mut self, key: &str) -> Result<Option<Vec<u8>>> {
            let values = self.values.lock().expect("whole");
            Ok(values.get(key).cloned().flatten())
        }
    }

    fn own_network() -> Option<Network> {
        let node = crate::cluster::node::Node::start().ok()?;
        node.network().ok()
    }

    #[test]
    fn what_is_acknowledged_is_found_and_what_is_lost_is_noticed() {
        let Some(network) = own_network() else {
            println!(
                "skipped what_is_acknowledged_is_found_and_what_is_lost_is_noticed: needs root"
            );
            return;
        };
        for workload in [
            Workload::Puts,
            Workload::Mail,
            Workload::Fileserver,
            Workload::Webproxy,
            Workload::Overwrites,
        ] {
            let memory = Memory::default();
            let clients = (0..3).map(|_| Box::new(memory.clone()) as Box<dyn Client>);
            let enough = || {
                let is_enough = || memory.values.lock().expect("whole").len() > 30;
                wait_for(READ_DEADLINE, || Ok(is_enough().then_some(())))
            };
            let plan = Plan {
                workload,
                first_client: 0,
                before: &Manifest::default(),
            };
            let (done, _) = run(&network, clients.collect(), plan, enough).expect("done");
            assert!(done.failures > 0 && !done.latencies_ns.is_empty());
            let mut client: Box<dyn Client> = Box::new(memory.clone());
            let checked = check(&network, &mut client, workload, &done.manifest).expect("read");
            assert_eq!((checked.losses, checked.example), (0, None));
            assert!(checked.keys > 20);
            let (key, _) = done.manifest.acknowledged().next().expect("one");
            memory
                .values
                .lock()
                .expect("whole")
                .insert(key.into(), Some(vec![1]));
            let checked = check(&network, &mut client, workload, &done.manifest).expect("read");
            assert_eq!(checked.losses, 1);
            assert!(checked.example.expect("told").contains(key));
        }
    }
}
