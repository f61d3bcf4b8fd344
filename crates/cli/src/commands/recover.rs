//! `forebay recover`: what opening does anyway, on request, and with `--dry-run` on a private copy. The
//! directory of a pool of files has all that was acknowledged then, and the pool nothing.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use forebay::Pool;
use forebay_command::{Failure, json_path, output};
use forebay_files::{FileBuffer, FileBufferOptions, FilesRecovery, Marking, VOLUME_PREFIX};
use serde_json::{Value, json};

use crate::arguments::RecoverOptions;
use crate::commands::run::{owner_mark, remove_owner_mark};
use crate::{idle_pool, pool_report};

/// Recovers the pool, or says what that would find.
pub fn run(options: &RecoverOptions) -> Result<(), Failure> {
    output::object(&report(options)?, options.json);
    Ok(())
}

/// Recovers, and gives what is shown.
pub fn report(options: &RecoverOptions) -> Result<Value, Failure> {
    let runtime = options.opening.runtime().accept_loss(options.accept_loss);
    let pool = if options.dry_run {
        idle_pool::open_private_with(&options.pool, runtime)?
    } else {
        idle_pool::open(&options.pool, runtime)?
    };
    let mut report = pool_report::recovery(&pool);
    report["changed"] = (!options.dry_run).into();
    let directory = directory_of(&pool);
    if !options.dry_run {
        pool.close()?;
    }
    if let Some(directory) = directory {
        json_path::put(&mut report, "directory", Some(&directory));
        if !options.dry_run {
            report["files"] = recover_files(options, directory)?;
        }
    }
    Ok(report)
}

/// The directory that a pool of files is for, empty for one of any directory; none if it is no such
/// pool.
fn directory_of(pool: &Pool) -> Option<PathBuf> {
    let stats = pool.stats();
    let name = stats.volumes.first()?.path.clone().into_os_string();
    let root = name.as_bytes().strip_prefix(VOLUME_PREFIX.as_bytes())?;
    Some(PathBuf::from(OsString::from_vec(root.to_vec())))
}

fn recover_files(options: &RecoverOptions, directory: PathBuf) -> Result<Value, Failure> {
    let [pool] = options.pool.as_slice() else {
        return Err(Failure::Arguments(String::from(
            "a pool of files has one member; name that alone",
        )));
    };
    let is_of_runs = directory.as_os_str().is_empty();
    let runtime = options
        .opening
        .runtime()
        .background(false)
        .accept_loss(options.save_lost)
        .accept_stale(options.accept_stale);
    let own = FileBufferOptions::new(pool).runtime(runtime);
    let own = match is_of_runs {
        // As `forebay run` marks it, where mark and pool are never updated together.
        true => own.marking(Marking::OnceABoot(forebay::internals::file_of_pool(pool))),
        false => own.root(directory),
    };
    let buffer = FileBuffer::open(&own).map_err(Failure::of_files)?;
    let report = files_report(buffer.recovery());
    let is_whole = is_of_runs && buffer.recovery().complaints.is_empty();
    if is_whole {
        remove_owner_mark(pool)?;
    }
    buffer.close().map_err(Failure::of_files)?;
    if is_whole {
        forebay_files::say_whole(&own, || owner_mark(pool).exists()).map_err(Failure::of_files)?;
    }
    Ok(report)
}

fn files_report(recovery: &FilesRecovery) -> Value {
    let texts = |paths: &[PathBuf]| -> Vec<String> {
        let text = |path: &PathBuf| Path::display(path).to_string();
        paths.iter().map(text).collect()
    };
    json!({
        "files": recovery.files,
        "blocks_written": recovery.blocks_written,
        "removed": recovery.removed,
        "names_changed": recovery.names_changed,
        "names_made": texts(&recovery.names_made),
        "saved_to": texts(&recovery.saved_to),
        "complaints": recovery.complaints,
        "attributes_left": recovery.attributes_left,
    })
}
