//! `forebay detach`: a disk of a running daemon is drained and closed; one whose image is lost is given up.

use std::path::Path;

use forebay::Pool;
use forebay_command::{Failure, json_path, output, progress};
use forebay_serve::{Client, Request, control_path};
use serde_json::{Value, json};

use crate::arguments::DetachOptions;
use crate::commands::attach;
use crate::requests::Detach;
use crate::{control, idle_pool};

/// Makes the daemon drain the disk and forget it.
pub fn run(options: &DetachOptions) -> Result<(), Failure> {
    if options.discard_unwritten {
        return discard_lost(options);
    }
    let mut client = control::connect(&options.pool)?;
    let detach = Detach {
        volume: options.volume.clone(),
        discard_unwritten: false,
    };
    let result = progress::ask_patiently(&mut client, &Request::of(&detach))?;
    output::object(&result, options.json);
    Ok(())
}

fn discard_lost(options: &DetachOptions) -> Result<(), Failure> {
    let image = Path::new(&options.volume);
    if let Some(mut client) = Client::connect(&control_path(&options.pool))? {
        let detach = Detach {
            volume: attach::text(image)?,
            discard_unwritten: true,
        };
        let result = client.request(&Request::of(&detach), |_| true)?;
        output::object(&result, options.json);
        return Ok(());
    }
    let mut members = vec![options.pool.clone()];
    members.extend(options.members.iter().cloned());
    let runtime = options.opening.runtime().background(false);
    let pool = idle_pool::open(&members, runtime)?;
    let result = discard(&pool, &std::path::absolute(image)?)?;
    pool.close()?;
    output::object(&result, options.json);
    Ok(())
}

/// Gives up the volume whose image had this path, and says what is lost.
///
/// # Errors
/// The pool knows none of that path; it is served.
pub fn discard(pool: &Pool, image: &Path) -> Result<Value, Failure> {
    let volumes = pool.stats().volumes;
    let Some(found) = volumes.iter().find(|known| known.path == image) else {
        let known: Vec<String> = volumes
            .iter()
            .map(|known| known.path.display().to_string())
            .collect();
        return Err(Failure::Arguments(format!(
            "the pool has no disk of the image {}; it knows: {}",
            image.display(),
            known.join(", ")
        )));
    };
    let volume = pool
        .volume(found.id)
        .ok_or_else(|| Failure::InUse(format!("{} is just being detached", image.display())))?;
    if found.attached {
        return Err(Failure::InUse(format!(
            "{} is served; forebay detach with the disk's name writes it back and loses nothing",
            image.display()
        )));
    }
    let block_bytes = volume.block_size() as u64;
    let blocks = pool.discard_volume(volume)?;
    let report = json!({
        "discarded_blocks": blocks,
        "discarded_bytes": blocks * block_bytes,
    });
    Ok(json_path::with(report, "discarded", image))
}
