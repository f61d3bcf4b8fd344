//! `forebay-lab stat` and `forebay-lab flush`: what a running `forebay-lab serve` is asked.

use forebay_command::{Failure, output, progress};
use forebay_serve::control::Parameters;
use forebay_serve::{Client, Request, control_path};

use crate::arguments::AskOptions;

/// Asks the daemon that serves the memory, and prints its answer.
pub fn run(request: &impl Parameters, options: &AskOptions) -> Result<(), Failure> {
    let client = Client::connect(&control_path(&options.memory))?;
    let mut client = client.ok_or_else(|| {
        Failure::NotServed(format!(
            "no daemon serves {}; start one with forebay-lab serve",
            options.memory.display()
        ))
    })?;
    let answer = progress::ask_patiently(&mut client, &Request::of(request))?;
    output::object(&answer, options.json);
    Ok(())
}
