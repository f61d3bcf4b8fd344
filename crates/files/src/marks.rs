//! Where the mark of files lies, and how the last of many processes says that they are whole.

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;

use forebay::internals::{FoundMark, MarkFiles, MarkState, Stage};
use forebay::{MarkPlace, Pool};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::errors::told;
use crate::options::{FileBufferOptions, Marking};

/// The place that the options ask for.
pub(crate) fn mark_place(options: &FileBufferOptions) -> io::Result<Box<dyn MarkPlace>> {
    let place = match (&options.marking, &options.root) {
        (Marking::OnceABoot(file), _) => MarkFiles::at(file.clone()).kept_for_a_boot(),
        (Marking::EachTime, Some(root)) => {
            let root = root.canonicalize()?;
            MarkFiles::of_directory(File::open(&root)?, &root)
        }
        (Marking::EachTime, None) => MarkFiles::of_pool_of_files(&options.pool),
    };
    Ok(Box::new(place))
}

/// Says in the mark that the files of the pool are whole, unless a process has the pool or `is_left` finds
/// that one died with it. The pool is not opened, and no other process can have it meanwhile.
///
/// # Errors
/// The pool cannot be looked at, the mark not written; it says `open` then.
pub fn say_whole(options: &FileBufferOptions, is_left: impl Fn() -> bool) -> io::Result<()> {
    let pool = &options.pool;
    let file = File::options()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW)
        .open(pool)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        // The process that has it says so itself, or is about to write.
        Err(Errno::WOULDBLOCK) => return Ok(()),
        Err(error) => return Err(error.into()),
    }
    if is_left() {
        return Ok(());
    }
    let place = mark_place(options)?;
    let found = FoundMark::of(&place.read()?);
    let Some(mark) = found.mark().filter(|mark| mark.state == MarkState::Open) else {
        return Ok(());
    };
    let sides = Pool::sides(&[pool], options.runtime.region_options()).map_err(told)?;
    let is_its = sides.iter().any(|(_, side)| {
        let is_same = (side.pool, side.volume) == (mark.pool, mark.volume);
        is_same && side.generation == mark.generation && side.stage == Stage::Open
    });
    match is_its {
        true => place.write(&mark.clone().whole().encode()),
        false => Ok(()),
    }
}
