//! `forebay fault`: something breaks in a test pool that a daemon serves, or a member of an idle one becomes stale.

use forebay_command::{Failure, output};
use forebay_serve::Request;

use crate::arguments::FaultOptions;
use crate::commands::stale;
use crate::control;
use crate::drills::DrillKind;
use crate::requests::Fault;

/// Makes the daemon break it.
pub fn run(options: &FaultOptions) -> Result<(), Failure> {
    let result = match &options.fault {
        Fault::Inject(inject) if inject.kind == DrillKind::StaleMember => {
            stale::run(&options.pool, inject)?
        }
        Fault::Inject(inject) if inject.save.is_some() || inject.restore.is_some() => {
            return Err(Failure::Arguments(String::from(
                "--save and --restore are of stale-member alone",
            )));
        }
        fault => {
            let mut client = control::connect(&options.pool)?;
            client.request(&Request::of(fault), |_| {
                output::note("waiting for a write");
                true
            })?
        }
    };
    output::object(&result, options.json);
    Ok(())
}
