//! Completions of a shell, and man pages: both come from the command line's own description, so that
//! they always agree with it.

use std::io::{self, Write};
use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::failure::{EXIT_CODES, Failure};

/// Prints the completions of a shell for a program.
pub fn completions<A: CommandFactory>(shell: Shell) -> Result<(), Failure> {
    let mut script = Vec::new();
    let mut command = A::command();
    let name = command.get_name().to_owned();
    clap_complete::generate(shell, &mut command, name, &mut script);
    match io::stdout().write_all(&script) {
        // A reader that went away is no reason to fail.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// Writes a program's page, and one for each of its commands that is not hidden, and of theirs, into a
/// directory, which is made where it is missing.
pub fn man<A: CommandFactory>(directory: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(directory)?;
    let mut command = A::command().disable_help_subcommand(true);
    command.build();
    let program = command.get_name().to_owned();
    write_pages(directory, &command, &program)
}

fn write_pages(directory: &Path, command: &clap::Command, name: &str) -> Result<(), Failure> {
    write_page(directory, command, name)?;
    let inner = command.get_subcommands();
    for inner in inner.filter(|inner| !inner.is_hide_set()) {
        write_pages(directory, inner, &format!("{name}-{}", inner.get_name()))?;
    }
    Ok(())
}

fn write_page(directory: &Path, command: &clap::Command, name: &str) -> Result<(), Failure> {
    let codes: String = EXIT_CODES
        .iter()
        .map(|(code, meaning)| format!(".TP\n\\fB{code}\\fR\n{meaning}\n"))
        .collect();
    let mut page = Vec::new();
    let man = clap_mangen::Man::new(command.clone()).manual("Forebay");
    man.render(&mut page)?;
    page.extend_from_slice(b".SH \"EXIT STATUS\"\n");
    page.extend_from_slice(codes.as_bytes());
    std::fs::write(directory.join(format!("{name}.1")), page)?;
    Ok(())
}
