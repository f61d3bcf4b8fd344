//! `forebay fault`: something breaks in a test pool that a daemon serves.

use forebay_command::{Failure, output};
use forebay_serve::Request;

use crate::arguments::{Fault, FaultOptions};
use crate::control;

/// Makes the daemon break it.
pub fn run(options: &FaultOptions) -> Result<(), Failure> {
    let request = match &options.fault {
        Fault::FlipBit { volume, block, bit } => Request::new("fault")
            .with("fault", "flip-bit")
            .with("volume", volume.clone())
            .with("block", *block)
            .with("bit", *bit),
        Fault::FailBacking {
            volume,
            reads,
            writes,
            syncs,
        } => Request::new("fault")
            .with("fault", "fail-backing")
            .with("volume", volume.clone())
            .with("reads", *reads)
            .with("writes", *writes)
            .with("syncs", *syncs),
        Fault::DelayBacking {
            volume,
            microseconds,
        } => Request::new("fault")
            .with("fault", "delay-backing")
            .with("volume", volume.clone())
            .with("microseconds", *microseconds),
    };
    let result = control::ask(&options.pool, &request)?;
    output::object(&result, options.json);
    Ok(())
}
