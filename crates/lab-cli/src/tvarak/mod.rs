//! `forebay-lab tvarak`: the simulator of TVARAK's paper.

pub mod arguments;
mod bugs;
mod cells;
mod costs;
mod figures;
mod numbers;
mod page;
mod paper_size;
mod run;
mod store;
mod trace;

use forebay_command::{Failure, output};
use forebay_tvarak::claims::{CLAIMS, text};

use crate::tvarak::arguments::{Asked, TvarakCommand, TvarakOptions, TvarakRun};

/// Does what is asked for.
pub fn run(options: &TvarakOptions) -> Result<(), Failure> {
    match &options.command {
        TvarakCommand::Run(options) => run_asked(options),
        TvarakCommand::Sweep(options) => figures::sweep(options),
        TvarakCommand::Bugs(options) => bugs::run(options),
        TvarakCommand::Trace(options) => trace::run(options),
        TvarakCommand::Claims(options) => {
            match options.json {
                true => output::json(&serde_json::json!(CLAIMS)),
                false => output::text_of_ours(&text()),
            }
            Ok(())
        }
    }
}

/// Figures or workloads.
fn run_asked(options: &TvarakRun) -> Result<(), Failure> {
    if options.paper_size {
        return paper_size::run(options);
    }
    let (mut figures, mut workloads) = (Vec::new(), Vec::new());
    for asked in &options.what {
        match asked {
            Asked::Figures(some) => figures.extend(some),
            Asked::Workloads(some) => workloads.extend(some),
        }
    }
    let refused = |what: &str| Err(Failure::Arguments(what.into()));
    if figures.is_empty() {
        let cells = &options.cells;
        if cells.seeds.is_some() || cells.threads.is_some() || cells.measured {
            return refused("--seeds, --threads and --measured are of figures");
        }
        return run::run(options, workloads);
    }
    if !workloads.is_empty() {
        return refused("figures and workloads are asked for apart");
    }
    if options.check || options.seed.is_some() {
        return refused("--check and --seed are of workloads; figures have --seeds");
    }
    figures::run(options, &figures)
}
