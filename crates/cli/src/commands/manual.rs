//! `forebay completions` and the hidden `forebay man`: both come from the command line's own
//! description, so that they always agree with it.

use std::io::{self, Write};

use clap::CommandFactory;

use crate::arguments::{Arguments, CompletionsOptions, ManOptions};
use crate::failure::{EXIT_CODES, Failure};

/// Prints the completions of a shell.
pub fn completions(options: &CompletionsOptions) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(
        options.shell,
        &mut Arguments::command(),
        "forebay",
        &mut script,
    );
    io::stdout().write_all(&script)?;
    Ok(())
}

/// Writes `forebay.1` and one page for each command that is not hidden.
pub fn man(options: &ManOptions) -> Result<(), Failure> {
    std::fs::create_dir_all(&options.directory)?;
    let mut command = Arguments::command().disable_help_subcommand(true);
    command.build();
    write_page(options, &command, "forebay")?;
    for inner in command
        .get_subcommands()
        .filter(|inner| !inner.is_hide_set())
    {
        let name = format!("forebay-{}", inner.get_name());
        write_page(options, inner, &name)?;
    }
    Ok(())
}

fn write_page(options: &ManOptions, command: &clap::Command, name: &str) -> Result<(), Failure> {
    let codes: String = EXIT_CODES
        .iter()
        .map(|(code, meaning)| format!(".TP\n\\fB{code}\\fR\n{meaning}\n"))
        .collect();
    let mut page = Vec::new();
    let man = clap_mangen::Man::new(command.clone()).manual("Forebay");
    man.render(&mut page)?;
    page.extend_from_slice(b".SH \"EXIT STATUS\"\n");
    page.extend_from_slice(codes.as_bytes());
    std::fs::write(options.directory.join(format!("{name}.1")), page)?;
    Ok(())
}
