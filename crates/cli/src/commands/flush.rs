//! `forebay flush`: everything dirty goes to its backing, through the daemon or, on an idle pool, here.

use std::sync::Arc;

use forebay::{Backing, Volume};
use forebay_command::{Failure, output, progress};
use forebay_serve::{Client, Request, control_path};
use serde_json::json;

use crate::arguments::FlushOptions;
use crate::idle_pool;
use crate::requests::Flush;
use crate::stack::{self, Attached, PoolBehind};

/// Drains the pool, or one disk of it.
pub fn run(options: &FlushOptions) -> Result<(), Failure> {
    let pool = &options.pool[0];
    if let Some(mut client) = Client::connect(&control_path(pool))? {
        let flush = Flush {
            volume: options.volume.clone(),
        };
        let result = progress::ask_patiently(&mut client, &Request::of(&flush))?;
        output::object(&result, options.json);
        return Ok(());
    }
    let Some(backing) = &options.backing else {
        return Err(Failure::NotServed(format!(
            "no daemon serves {}; name the backing with --backing to flush the idle pool to it",
            pool.display()
        )));
    };
    let behind = options.behind.clone();
    let behind = behind.map(|path| PoolBehind::open(path, options.opening.runtime()));
    let behind = behind.transpose()?;
    let pool = idle_pool::open(&options.pool, options.opening.runtime())?;
    let backing = Backing::file(backing)?;
    let attached = match (&behind, options.accept_stale) {
        (None, false) => Attached {
            volume: pool.attach_to_flush(backing)?,
            lower: None,
        },
        (behind, accepts_stale) => stack::attach(&pool, behind.as_ref(), backing, accepts_stale)?,
    };
    let Attached { volume, lower } = attached;
    volume.flush()?;
    lower.as_ref().map_or(Ok(()), Volume::flush)?;
    drop((volume, lower));
    pool.close()?;
    if let Some(behind) = behind {
        let pool = Arc::into_inner(behind.pool);
        pool.expect("the pool in front had it, and is closed")
            .close()?;
    }
    output::object(&json!({"flushed": true}), options.json);
    Ok(())
}
