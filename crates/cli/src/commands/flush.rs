//! `forebay flush`: everything dirty goes to its backing, through the daemon or, on an idle pool, here.

use forebay::{Backing, Pool};
use serde_json::json;

use crate::arguments::FlushOptions;
use crate::failure::Failure;
use crate::output;

/// Drains the pool.
pub fn run(options: &FlushOptions) -> Result<(), Failure> {
    let path = forebay_serve::control_path(&options.pool[0]);
    if let Some(answer) = forebay_serve::request(&path, "flush")? {
        let result = answer.map_err(Failure::Failed)?;
        output::object(&result, options.json);
        return Ok(());
    }
    let Some(backing) = &options.backing else {
        return Err(Failure::NotServed(format!(
            "no daemon serves {}; name the backing with --backing to flush the idle pool to it",
            options.pool[0].display()
        )));
    };
    let pool = Pool::open(&options.pool)?;
    let volume = pool.attach(Backing::file(backing)?)?;
    volume.flush()?;
    drop(volume);
    pool.close()?;
    output::object(&json!({"flushed": true}), options.json);
    Ok(())
}
