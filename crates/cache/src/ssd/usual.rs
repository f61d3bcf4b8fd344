//! What a new pool is made on where nobody says it.

use std::error::Error as _;
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::Path;

use forebay_log::{FileDevice, has_room_for_a_pool};
use forebay_pmem::{MediaKind, PmemError, is_dax_file, nameless_beside};

use super::errors::of_log;
use crate::error::{Error, ErrorKind, Result, refused};
use crate::options::{Medium, PoolOptions, Redundancy};
use crate::signature::refuse_unless_blank;

/// What these options have that no pool on an SSD has.
pub(super) fn what_it_lacks(options: &PoolOptions) -> Option<&'static str> {
    let format = &options.format;
    let is_asked = [
        (
            options.paths.len() > 1 && format.redundancy != Redundancy::Mirror,
            "has one member, or two of a mirror",
        ),
        (
            format.redundancy == Redundancy::Mirror && options.paths.len() != 2,
            "has no redundancy but that of a mirror of two members",
        ),
        (
            ![Redundancy::None, Redundancy::Mirror].contains(&format.redundancy),
            "has no redundancy but that of a mirror",
        ),
        (options.runtime.witness.is_some(), "has no witness"),
        (
            format.block_bytes != forebay_log::PAGE_BYTES as u32,
            "has blocks of 4096 bytes",
        ),
        (
            format.strict || !format.checksums,
            "always has checksums, by which recovery goes, so it cannot be strict either",
        ),
        (
            format.lanes.is_some() || format.lane_bytes.is_some(),
            "has no lanes",
        ),
    ];
    let first = is_asked.into_iter().find(|(is_asked, _)| *is_asked);
    first.map(|(_, what)| what)
}

/// A log on plain files and block devices, and memory that is mapped on everything else. A plain file that can have no log is
/// mapped too, page by page: then the text says why. What is wrong with the place itself `create` says.
///
/// # Errors
/// What a file there would be cannot be asked now; what is there is a link to a file.
pub(crate) fn usual_medium(options: &PoolOptions) -> Result<(Medium, Option<String>)> {
    let Some(path) = options.paths.first() else {
        return Ok((Medium::Memory, None));
    };
    let is_link = std::fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink());
    let found = std::fs::metadata(path).map(|found| found.file_type());
    match found {
        Ok(found) if found.is_block_device() => Ok((Medium::Ssd, None)),
        _ if is_link => Err(of_a_link(path)),
        Ok(found) if !found.is_file() => Ok((Medium::Memory, None)),
        Ok(_) if is_dax_file(path) => Ok((Medium::Memory, None)),
        _ => usual_of_file(options, path),
    }
}

/// Only names of block devices are followed: who may make a link must not choose which file is written.
fn of_a_link(path: &Path) -> Error {
    let target = std::fs::read_link(path).unwrap_or_default();
    let found = format!(
        "a symbolic link to {} stands there, and only links to block devices are followed",
        target.display()
    );
    refused(path, found, "name the file itself")
}

fn usual_of_file(options: &PoolOptions, path: &Path) -> Result<(Medium, Option<String>)> {
    let mapped = |why: String| Ok((Medium::Memory, Some(why)));
    let (probe, kind) = match nameless_beside(path) {
        Ok(probe) => probe,
        Err(error) if is_lasting(&error) => {
            return mapped(format!("what a file there is cannot be asked ({error})"));
        }
        Err(error) => return Err(of_a_moment(path, &error)),
    };
    if kind != MediaKind::PlainFile {
        return Ok((Medium::Memory, None));
    }
    if let Some(what) = what_it_lacks(options) {
        return mapped(format!("a pool on an SSD {what}"));
    }
    if options.paths.len() > 1 {
        return mapped(String::from(
            "a pool on an SSD has one member unless it is said (on the command line --medium ssd)",
        ));
    }
    if !has_room_for_a_pool(options.member_bytes) {
        return mapped(String::from("a pool on an SSD has 9 MiB to 16 TiB"));
    }
    match FileDevice::obstacle(probe, path) {
        Ok(Some(why)) => mapped(why),
        Ok(None) => Ok((Medium::Ssd, None)),
        Err(error) => Err(of_a_moment(path, &error)),
    }
}

/// Whether it is the file system that has no files without names, or there is no such directory, which `create` says.
fn is_lasting(error: &PmemError) -> bool {
    let source = error
        .source()
        .and_then(|source| source.downcast_ref::<std::io::Error>());
    let number = source.and_then(std::io::Error::raw_os_error);
    let lasting = [
        libc::EOPNOTSUPP,
        libc::EISDIR,
        libc::EINVAL,
        libc::ENOENT,
        libc::ENOTDIR,
    ];
    number.is_some_and(|number| lasting.contains(&number))
}

/// A device to make a pool on. What is there is taken with `force` only.
pub(super) fn take_device(path: &Path, force: bool, trust_owner: bool) -> Result<FileDevice> {
    let device = FileDevice::open_with(path, trust_owner).map_err(of_log)?;
    if !force {
        // Not read by pages, since a device may end within one.
        let mut bytes = device.open_for_bytes().map_err(of_log)?;
        let len = bytes.seek(SeekFrom::End(0));
        let len = len.map_err(|source| ErrorKind::Device {
            path: path.to_path_buf(),
            action: "ask for its size",
            source,
        })?;
        let mut read = |offset, out: &mut [u8]| bytes.read_exact_at(out, offset);
        refuse_unless_blank(path, len, &mut read)?;
        return Ok(device);
    }
    forebay_log::clear(&device).map_err(of_log)?;
    Ok(device)
}

/// Where the question fails, no form is taken: the page form makes a write less durable, and another moment's answer may be another.
fn of_a_moment(path: &Path, error: &dyn std::error::Error) -> Error {
    refused(
        path,
        format!("whether a pool on an SSD can be made there could not be tried: {error}"),
        "mend that, or say what the pool is to be (on the command line --medium ssd or --medium page)",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn only_what_lasts_makes_a_pool_page_by_page() {
        let folder = tempfile::tempdir().unwrap();
        let usual = |path: &Path| usual_medium(&PoolOptions::new(path, 12 << 20));
        // No directory: `create` says so.
        let (medium, why) = usual(&folder.path().join("none/pool")).unwrap();
        assert!(medium == Medium::Memory && why.is_some(), "{why:?}");
        // What another moment may have is no answer; of what fails here this alone needs no right and no room.
        let refused = usual(&folder.path().join("x".repeat(300)).join("pool"));
        let text = refused.unwrap_err().to_string();
        assert!(text.contains("--medium ssd or --medium page"), "{text}");
    }

    #[test]
    fn a_link_to_a_file_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        symlink(&file, &link).unwrap();
        for is_there in [false, true] {
            if is_there {
                std::fs::write(&file, b"x").unwrap();
            }
            let refused = usual_medium(&PoolOptions::new(&link, 12 << 20)).unwrap_err();
            let text = refused.to_string();
            assert!(
                text.contains("a symbolic link to") && text.contains("name the file itself"),
                "{text}"
            );
        }
    }
}
