//! `redis-server` that appends each command to its log and syncs it before it answers, under
//! `redis-benchmark`.

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;

use forebay_harness::{Daemon, Result};
use rustix::process::Signal;

use crate::context::program;
use crate::outcome::Outcome;
use crate::place::Session;

const PILOT_REQUESTS: u64 = 500;
const REQUESTS_MAX: u64 = 1_000_000;

/// A server that makes every write durable before it is acknowledged, and its socket. Several have numbers from
/// 0 on.
pub fn start(session: &Session<'_>, number: usize) -> Result<(Daemon, PathBuf)> {
    let socket = session.scratch(&format!("redis-{number}.sock"));
    let directory = session.data().join(format!("redis-{number}"));
    std::fs::create_dir(&directory)?;
    let mut command = session.command(&program("redis-server")?, number)?;
    command
        .args(["--port", "0", "--unixsocket"])
        .arg(&socket)
        .arg("--dir")
        .arg(directory)
        .args(["--appendonly", "yes", "--appendfsync", "always"])
        .args(["--save", ""]);
    let server = session.start(command, || UnixStream::connect(&socket).is_ok())?;
    Ok((server, socket))
}

/// `SET` by one client, and by fifty.
pub fn run(session: &Session<'_>) -> Result<Outcome> {
    let (server, socket) = start(session, 0)?;
    let mut outcome = Outcome::default();
    for (clients, name) in [(1, "redis_set"), (50, "redis_set_50_clients")] {
        let measure = |requests: u64| -> Result<f64> {
            let mut command = Command::new(program("redis-benchmark")?);
            command
                .arg("-s")
                .arg(&socket)
                .args(["-t", "set", "--csv", "-c", &clients.to_string()])
                .args(["-n", &requests.to_string()]);
            requests_per_second(&session.output(command)?)
        };
        // The pilot also warms up.
        let wanted = measure(PILOT_REQUESTS * clients)? * session.context.pace.seconds;
        let requests = (wanted as u64).clamp(PILOT_REQUESTS, REQUESTS_MAX);
        outcome = outcome.and(Outcome::rate(name, measure(requests)?, "requests/s"));
    }
    server.end(Signal::TERM)?;
    Ok(outcome)
}

/// From lines like `"SET","12345.67","0.03",…`.
fn requests_per_second(csv: &str) -> Result<f64> {
    let line = csv.lines().find(|line| line.starts_with("\"SET\""));
    let field = line.and_then(|line| line.split(',').nth(1));
    field
        .and_then(|field| field.trim_matches('"').parse().ok())
        .ok_or_else(|| format!("redis-benchmark printed no rate:\n{csv}").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_read_from_the_second_field() {
        let csv = "\"test\",\"rps\",\"avg_latency_ms\"\n\"SET\",\"52356.02\",\"0.017\"\n";
        assert_eq!(requests_per_second(csv).expect("a rate"), 52356.02);
        assert!(requests_per_second("\"GET\",\"1\"\n").is_err());
    }
}
