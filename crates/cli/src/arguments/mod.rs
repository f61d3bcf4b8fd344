//! The command line: every option, with an example for each command.

mod daemon;
mod dax;
mod member;
mod pool;
mod run;
mod scrub;

pub use daemon::*;
pub use dax::*;
pub use member::*;
pub use pool::*;
pub use run::*;
pub use scrub::*;

use clap::{Parser, Subcommand};

/// A crash-consistent persistent-memory cache in front of disks and files.
#[derive(Debug, Parser)]
#[command(
    name = "forebay",
    version,
    after_help = after_help()
)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

fn after_help() -> String {
    let codes: Vec<String> = forebay_command::failure::EXIT_CODES
        .iter()
        .map(|(code, meaning)| format!("  {code}  {meaning}"))
        .collect();
    format!(
        "Exit codes:
{}

Example, a disk with fast fsync in front of an image file:
  forebay create /dev/shm/forebay/pool --size 512M
  forebay serve --pool /dev/shm/forebay/pool --backing disk.img --fuse /mnt/forebay
  losetup --find --show /mnt/forebay/disk",
        codes.join("\n")
    )
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make a pool, and say what its medium survives.
    Create(CreateOptions),
    /// Show a pool's format and content, or whether a backing has its newest data, changing nothing.
    Info(InfoOptions),
    /// Serve the disks of a pool until told to stop.
    Serve(Box<ServeOptions>),
    /// Serve a directory whose synchronous writes are durable in a pool, until told to stop.
    Mount(MountArguments),
    /// Have a running daemon serve one more disk.
    Attach(AttachOptions),
    /// Have a running daemon drain a disk and stop serving it.
    Detach(DetachOptions),
    /// Run one program, unmodified, with its files buffered in a pool.
    Run(RunOptions),
    /// Ask a running daemon for its counters.
    Stat(DaemonArgument),
    /// Watch a running daemon.
    Top(TopOptions),
    /// Write everything dirty back to the backing and sync it.
    Flush(FlushOptions),
    /// Change settings of a running daemon.
    Set(SetOptions),
    /// Grow a pool that no process serves, or a disk that a daemon serves.
    Resize(ResizeOptions),
    /// Show, take out, replace or bring back the members of a mirrored pool.
    Member(MemberOptions),
    /// Have a running daemon read everything in its pool, and repair what is wrong in one copy of two.
    Scrub(ScrubArguments),
    /// Make, show, seal, verify or rebuild mapped regions: files beside a pool that programs store into directly.
    Dax(DaxOptions),
    /// Break something in a test pool.
    Fault(FaultOptions),
    /// Verify every block of an idle pool, without changing it.
    Check(PoolArgument),
    /// Recover an idle pool after a crash; serve does the same by itself.
    Recover(RecoverOptions),
    /// Measure this machine and the library on it.
    Bench(BenchOptions),
    /// Commit, kill, recover, verify: the main job without root, over the library alone.
    Demo(DemoOptions),
    /// Print the completions of a shell.
    Completions(CompletionsOptions),
    /// Write the man pages.
    #[command(hide = true)]
    Man(ManOptions),
    /// Unmount for a daemon that gave up the right to.
    #[command(hide = true)]
    Unmounter(UnmounterOptions),
    /// Have the pool for a program of many processes.
    #[command(hide = true)]
    Broker(BrokerOptions),
    /// Become a program that sees a directory through the process that has the pool.
    #[command(hide = true)]
    Within(WithinOptions),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_option_is_on_a_page_for_users() {
        use clap::CommandFactory;
        let shelf = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/using");
        let pages: String = std::fs::read_dir(shelf)
            .expect(shelf)
            .map(|page| std::fs::read_to_string(page.unwrap().path()).unwrap())
            .collect();
        let words: std::collections::HashSet<&str> = pages
            .split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-')
            .collect();
        let root = Arguments::command();
        for command in root.get_subcommands().filter(|one| !one.is_hide_set()) {
            for option in command.get_arguments().filter(|one| !one.is_hide_set()) {
                let Some(name) = option.get_long() else {
                    continue;
                };
                assert!(
                    words.contains(format!("--{name}").as_str()),
                    "docs/using lacks --{name} of forebay {}",
                    command.get_name()
                );
            }
        }
    }
}
