//! `forebay attach`: one more disk of a running daemon.

use std::path::{Path, PathBuf};

use forebay_command::{Failure, output};
use forebay_serve::Request;

use crate::arguments::AttachOptions;
use crate::control;

/// Makes the daemon serve the disk.
pub fn run(options: &AttachOptions) -> Result<(), Failure> {
    let request = Request::new("attach")
        .with("backing", text(&options.disk.backing)?)
        .with("name", options.disk.name.clone())
        .with("fuse", options.disk.fuse.as_deref().map(text).transpose()?)
        .with(
            "vhost_user",
            options.disk.vhost_user.as_deref().map(text).transpose()?,
        )
        .with("accept_stale", options.accept_stale.then_some(true))
        .with("ublk", options.disk.ublk.map(|number| number.to_string()));
    let result = control::ask(&options.pool, &request)?;
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
