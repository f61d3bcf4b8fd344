//! `forebay-lab tvarak`: the simulator of TVARAK's paper.

pub mod arguments;
mod bugs;
mod run;

use forebay_command::{Failure, output};
use forebay_tvarak::claims::{CLAIMS, text};

use crate::tvarak::arguments::{TvarakCommand, TvarakOptions};

/// Does what is asked for.
pub fn run(options: &TvarakOptions) -> Result<(), Failure> {
    match &options.command {
        TvarakCommand::Run(options) => run::run(options),
        TvarakCommand::Bugs(options) => bugs::run(options),
        TvarakCommand::Claims(options) => {
            match options.json {
                true => output::json(&serde_json::json!(CLAIMS)),
                false => output::text_of_ours(&text()),
            }
            Ok(())
        }
    }
}
