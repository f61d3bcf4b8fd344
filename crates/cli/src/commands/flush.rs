//! `forebay flush`: everything dirty goes to its backing, through the daemon or, on an idle pool, here.

use forebay::Backing;
use forebay_command::{Failure, output, progress};
use forebay_serve::{Client, Request, control_path};
use serde_json::json;

use crate::arguments::FlushOptions;
use crate::idle_pool;
use crate::requests::Flush;

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
    let pool = idle_pool::open(&options.pool, options.opening.runtime())?;
    let backing = Backing::file(backing)?;
    let volume = match options.accept_stale {
        true => pool.attach_stale(backing)?,
        false => pool.attach(backing)?,
    };
    volume.flush()?;
    drop(volume);
    pool.close()?;
    output::object(&json!({"flushed": true}), options.json);
    Ok(())
}
