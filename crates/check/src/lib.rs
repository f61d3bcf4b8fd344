//! Crashes the release code of Forebay, or of an engine of the lab, wherever the order of stores can
//! matter, recovers what each crash could leave, and compares it with everything that had been
//! acknowledged.

mod cache;
mod campaign;
mod command;
mod content;
mod digest;
mod directed;
mod engine;
mod engine_scenario;
mod engine_shape;
mod explore;
#[cfg(test)]
mod faulty;
mod files;
mod focus;
mod focus_scripts;
mod harm;
mod histories;
mod image;
mod incarnation;
mod load;
mod long_rounds;
mod lost;
mod mark;
mod medium;
#[cfg(feature = "mutants")]
mod mutants;
mod named;
mod oracle;
mod pool;
mod pool_actor;
mod pool_reads;
mod process;
mod rebuilt;
mod refusal;
mod rows;
mod scenario;
mod scheduler;
mod search;
mod ssd;
#[cfg(feature = "mutants")]
mod ssd_budgets;
mod stacked;
mod story;
mod streamed;
mod subject;
mod systematic;
mod trace;
mod verdict;
mod witnessed;
mod world;

pub use command::{Arguments, run};
pub use medium::{Arguments as FaultArguments, run as run_faults};
