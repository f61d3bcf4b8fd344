//! `forebay run`: a program with its files buffered by the preloaded library. Before it the backing is
//! brought up to date, and after it again, where a process was killed while it had the pool.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use forebay_command::{Failure, output};
use forebay_files::{FileBuffer, FileBufferOptions, Marking};
use signal_hook::iterator::Signals;

use crate::arguments::RunOptions;
use crate::commands::tally::Tally;
use crate::commands::{obstacles, program, shared};

const LIBRARY: &str = "libforebay_preload.so";

/// Runs the program; returns its exit code.
pub fn run(options: &RunOptions) -> Result<u8, Failure> {
    let pool = named(&options.pool)?;
    if let Some(directory) = &options.shared {
        return shared::run(options, &pool, directory);
    }
    let library = library(options.library.as_deref())?;
    let mark = forebay::internals::file_of_pool(&pool);
    let own = FileBufferOptions::new(&pool)
        .runtime(options.trust.runtime())
        .marking(Marking::OnceABoot(mark.clone()));
    let accepting = options.trust.runtime().accept_stale(options.accept_stale);
    let mut is_empty = bring_up_to_date(&own.clone().runtime(accepting))?;
    let (name, arguments) = options.program.split_first().expect("clap wants one");
    let mut command = Command::new(name);
    command
        .args(arguments)
        .env("LD_PRELOAD", preloaded(&library))
        .env("FOREBAY_POOL", &pool)
        .env("FOREBAY_MARK", &mark)
        .env("FOREBAY_COVER", cover(&options.cover)?);
    if options.trust.trust_owner {
        command.env("FOREBAY_TRUST_OWNER", "1");
    }
    if let Some(log) = &options.log {
        command.env("FOREBAY_LOG", std::path::absolute(log)?);
    }
    let tally = Tally::new().ok();
    if let Some(tally) = &tally {
        command.env("FOREBAY_TALLY", tally.path());
    }
    if !options.quiet {
        for obstacle in obstacles::of(name) {
            output::error(&format!("{obstacle}; use forebay mount for it"));
        }
    }
    // Before the program begins: a signal that arrives then is passed on too.
    let signals = Signals::new(program::heard())?;
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            let code = program::not_started(name, &error);
            if is_empty {
                note_whole(&own, &mark);
            }
            return Ok(code);
        }
    };
    let status = program::wait(&mut child, signals)?;
    if owner_mark(&pool).exists() {
        is_empty = after_killed(&own);
    }
    if is_empty {
        note_whole(&own, &mark);
    }
    if let Some(tally) = tally.filter(|_| !options.quiet) {
        output::error(&tally.summary());
    }
    Ok(program::exit_code(status))
}

/// The program has ended: its files are whole, unless a process still has the pool or died with it.
fn note_whole(own: &FileBufferOptions, mark: &Path) {
    let is_left = || owner_mark(own.pool()).exists();
    if let Err(error) = forebay_files::say_whole(own, is_left) {
        output::error(&format!(
            "{}: it could not be noted that the files are whole ({error}); without this pool they count \
             as stale",
            mark.display()
        ));
    }
}

/// The pool, absolute, without following a link in its place.
fn named(pool: &Path) -> Result<PathBuf, Failure> {
    let found = std::path::absolute(pool).and_then(|path| {
        path.symlink_metadata()?;
        let parent = path.parent().unwrap_or(Path::new("/")).canonicalize()?;
        Ok(parent.join(path.file_name().unwrap_or_default()))
    });
    found.map_err(|error| {
        Failure::Failed(format!(
            "{}: {error}; make a pool with forebay create",
            pool.display()
        ))
    })
}

/// Opens the pool, which recovers it, and closes it. Whether that leaves nothing in it: files that could not
/// have their data keep it there.
fn bring_up_to_date(options: &FileBufferOptions) -> Result<bool, Failure> {
    let pool = options.pool();
    let opened = FileBuffer::open(options).and_then(|buffer| {
        let is_empty = buffer.recovery().complaints.is_empty();
        remove_owner_mark(pool)?;
        buffer.close()?;
        Ok(is_empty)
    });
    opened.map_err(|error| {
        let message = format!("{}: {error}", pool.display());
        match error.downcast::<forebay::Error>() {
            Ok(error) => Failure::from(error),
            Err(_) => Failure::Failed(message),
        }
    })
}

/// What the library puts beside the pool while a process has it.
pub(crate) fn owner_mark(pool: &Path) -> PathBuf {
    let mut path = OsString::from(pool);
    path.push(".owner");
    PathBuf::from(path)
}

/// No program has the pool any more: opening it has emptied it. To be called before the pool is closed, as
/// the mark may be the next owner's after that.
pub(crate) fn remove_owner_mark(pool: &Path) -> io::Result<()> {
    match std::fs::remove_file(owner_mark(pool)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Whether the pool is left with nothing in it.
fn after_killed(options: &FileBufferOptions) -> bool {
    match bring_up_to_date(options) {
        Ok(is_empty) => {
            output::error(
                "a process ended without letting the pool go; its files have been brought up to date",
            );
            is_empty
        }
        // Processes that the program left behind go on, and bring their files back themselves.
        Err(Failure::InUse(_)) => true,
        Err(failure) => {
            output::error(&format!(
                "what a killed process left is still in the pool: {failure}; forebay recover brings it back"
            ));
            false
        }
    }
}

/// Our library, then what was to be preloaded anyway.
fn preloaded(library: &Path) -> OsString {
    let mut list = OsString::from(library);
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        list.push(":");
        list.push(others);
    }
    list
}

fn cover(globs: &[String]) -> Result<OsString, Failure> {
    if let Some(glob) = globs.iter().find(|glob| glob.contains(':')) {
        return Err(Failure::Arguments(format!(
            "--cover {glob}: a colon separates globs; use ? for it"
        )));
    }
    if !globs.is_empty() {
        let here = std::env::current_dir()?;
        let absolute: Vec<_> = globs.iter().map(|glob| here.join(glob)).collect();
        return std::env::join_paths(absolute)
            .map_err(|error| Failure::Arguments(format!("--cover: {error}")));
    }
    let here = std::env::current_dir()?.into_os_string().into_string();
    let here = here.map_err(|_| {
        Failure::Arguments(
            "this directory's name is no text; name what to cover with --cover".into(),
        )
    })?;
    let mut escaped = String::new();
    for character in here.chars() {
        match character {
            '?' | '*' | '[' | ']' => escaped.extend(['[', character, ']']),
            // It separates globs.
            ':' => escaped.push('?'),
            _ => escaped.push(character),
        }
    }
    Ok(OsString::from(format!(
        "{}/**",
        escaped.trim_end_matches('/')
    )))
}

fn library(wanted: Option<&Path>) -> Result<PathBuf, Failure> {
    if let Some(wanted) = wanted {
        return std::fs::canonicalize(wanted)
            .map_err(|error| Failure::Failed(format!("{}: {error}", wanted.display())));
    }
    let command = std::env::current_exe()?;
    let folder = command.parent().unwrap_or(Path::new("/"));
    let places = [folder.join(LIBRARY), folder.join("../lib").join(LIBRARY)];
    places
        .into_iter()
        .find(|place| place.exists())
        .ok_or_else(|| {
            Failure::Failed(format!(
                "{LIBRARY} is neither in {} nor in ../lib from there; name it with --library",
                folder.display()
            ))
        })
}
