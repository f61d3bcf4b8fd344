//! `forebay attach`: one more disk of a running daemon.

use std::path::{Path, PathBuf};

use forebay_command::{Failure, output};
use forebay_serve::Request;

use crate::arguments::AttachOptions;
use crate::control;
use crate::requests::Attach;

/// Makes the daemon serve the disk.
pub fn run(options: &AttachOptions) -> Result<(), Failure> {
    let disk = &options.disk;
    let attach = Attach {
        backing: text(&disk.backing)?,
        name: disk.name.clone(),
        fuse: disk.fuse.as_deref().map(text).transpose()?,
        ublk: disk.ublk,
        vhost_user: disk.vhost_user.as_deref().map(text).transpose()?,
        accept_stale: options.accept_stale,
    };
    let result = control::ask(&options.pool, &Request::of(&attach))?;
    output::object(&result, options.json);
    Ok(())
}

/// An absolute path, since the daemon's working directory is another one.
pub fn text(path: &Path) -> Result<String, Failure> {
    let absolute: PathBuf = std::path::absolute(path)?;
    absolute.into_os_string().into_string().map_err(|path| {
        Failure::Arguments(format!(
            "{} is not UTF-8, which the control socket needs; use another name",
            Path::new(&path).display()
        ))
    })
}
