//! `forebay-lab stat`, `flush` and `delays`: what a running `forebay-lab serve` is asked.

use std::path::Path;

use forebay_command::{Failure, output, progress};
use forebay_serve::control::Parameters;
use forebay_serve::{Client, Request, control_path};

/// Asks the daemon that serves the memory, and prints its answer, as JSON if it is to be.
pub fn run(request: &impl Parameters, (memory, json): (&Path, bool)) -> Result<(), Failure> {
    let client = Client::connect(&control_path(memory))?;
    let mut client = client.ok_or_else(|| {
        Failure::NotServed(format!(
            "no daemon serves {}; start one with forebay-lab serve",
            memory.display()
        ))
    })?;
    let answer = progress::ask_patiently(&mut client, &Request::of(request))?;
    output::object(&answer, json);
    Ok(())
}
