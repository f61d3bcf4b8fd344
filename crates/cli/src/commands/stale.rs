//! `forebay fault … inject stale-member`: a member of an idle test pool, kept and put back as it was.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use forebay::Region;
use forebay::internals::test_member;
use forebay_command::{Failure, json_path};
use serde_json::{Value, json};

use crate::drills::Inject;

const CHUNK_BYTES: usize = 1 << 20;

/// Keeps the member, or puts it back.
///
/// # Errors
/// It is none of a test pool, or in use; the copy is another member's.
pub fn run(member: &Path, inject: &Inject) -> Result<Value, Failure> {
    let region =
        Region::open(member, &forebay::RegionOptions::default()).map_err(forebay::Error::from)?;
    let Some(own) = test_member(&region) else {
        return Err(Failure::Arguments(format!(
            "{} is no member of a pool that was made with forebay create --test",
            member.display()
        )));
    };
    match (&inject.save, &inject.restore) {
        (Some(copy), None) => {
            save(&region, copy)?;
            Ok(json_path::with(json!({"saved": true}), "copy", copy))
        }
        (None, Some(copy)) => {
            let kept = Region::open_read_only(copy).map_err(forebay::Error::from)?;
            if test_member(&kept) != Some(own) || kept.len() != region.len() {
                return Err(Failure::Arguments(format!(
                    "{} is no copy of {}",
                    copy.display(),
                    member.display()
                )));
            }
            restore(&region, copy)?;
            Ok(json_path::with(json!({"restored": true}), "copy", copy))
        }
        _ => Err(Failure::Arguments(String::from(
            "name a file with --save, and later, when the pool is idle again, the same with --restore",
        ))),
    }
}

fn save(region: &Region, copy: &Path) -> Result<(), Failure> {
    let mut options = OpenOptions::new();
    let new = options.write(true).create_new(true).mode(0o600).open(copy);
    let mut file = new.map_err(|error| of_copy(copy, &error))?;
    let mut chunk = vec![0; CHUNK_BYTES];
    let saved = (0..region.len())
        .step_by(CHUNK_BYTES)
        .try_for_each(|offset| {
            let len = (region.len() - offset).min(CHUNK_BYTES as u64) as usize;
            region.read(offset, &mut chunk[..len]);
            file.write_all(&chunk[..len])
        });
    let saved = saved.and_then(|()| file.sync_all());
    saved.map_err(|error| {
        // The caller needs the first error, not this one.
        let _ = std::fs::remove_file(copy);
        of_copy(copy, &error)
    })
}

fn restore(region: &Region, copy: &Path) -> Result<(), Failure> {
    let mut file = File::open(copy).map_err(|error| of_copy(copy, &error))?;
    let mut chunk = vec![0; CHUNK_BYTES];
    for offset in (0..region.len()).step_by(CHUNK_BYTES) {
        let len = (region.len() - offset).min(CHUNK_BYTES as u64) as usize;
        file.read_exact(&mut chunk[..len])
            .map_err(|error| of_copy(copy, &error))?;
        region.store(offset, &chunk[..len]);
        region.flush(offset, len);
    }
    // Orders all of it before the command says so.
    region.fence().map_err(forebay::Error::from)?;
    Ok(())
}

fn of_copy(copy: &Path, error: &std::io::Error) -> Failure {
    Failure::Failed(format!("{}: {error}", copy.display()))
}
