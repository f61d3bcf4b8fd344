//! What a witness decides of a mirror: a member alone goes on if the witness has its roster, and not if that is newer or older.

use crate::histories::must_refuse;
use crate::image::{Image, regions};
use crate::pool;
use crate::scenario::Shape;
use forebay::{Region, Result};
use forebay_pmem::shadow::Shadow;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Numbers of the incarnations of these openings.
const WITNESSED: u64 = 3 << 33;

/// A witness's file, which goes with it.
struct WitnessFile(PathBuf);

impl WitnessFile {
    fn new() -> WitnessFile {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("forebay-check-{}-{number}.witness", std::process::id());
        // Memory where there is some: on a disk the syncs take longer than all the rest.
        let memory = Path::new("/dev/shm");
        let folder = match memory.is_dir() {
            true => memory.to_path_buf(),
            false => std::env::temp_dir(),
        };
        WitnessFile(folder.join(name))
    }
    fn content(&self) -> std::result::Result<Vec<u8>, String> {
        std::fs::read(&self.0).map_err(|error| format!("{}: {error}", self.0.display()))
    }
    /// Puts it back as it was.
    fn restore(&self, content: &[u8]) -> std::result::Result<(), String> {
        std::fs::write(&self.0, content).map_err(|error| format!("{}: {error}", self.0.display()))
    }
}

impl Drop for WitnessFile {
    fn drop(&mut self) {
        // One that was given up is gone.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Opens the members of `image`, has the pool do something, and returns what it leaves.
fn served(
    shape: &Shape,
    image: &Image,
    number: u64,
    work: impl FnOnce(&forebay::Pool, &mut Vec<Arc<Shadow>>) -> Result<()>,
) -> Result<Image> {
    let mut shadows = image.shadows(shape);
    let pool = pool::open_by_itself(shape, WITNESSED + number, regions(&shadows))?;
    work(&pool, &mut shadows)?;
    drop(pool);
    let durable = |shadow: &Arc<Shadow>| shadow.crash_state().durable().to_vec();
    Ok(Image {
        media: shadows.iter().map(durable).collect(),
        ..image.clone()
    })
}

fn rebuild(shape: &Shape, pool: &forebay::Pool, shadows: &mut [Arc<Shadow>]) -> Result<()> {
    // As large as the pool is by now.
    shadows[1] = Arc::new(Shadow::new(shadows[0].len(), shape.model()));
    let region = Region::on_shadow(shadows[1].clone());
    pool.replace_member_on(1, region, &mut |_| ControlFlow::Continue(()))
}

/// Gives a mirror of which both members are in a witness, and verifies who goes on with it.
pub fn verify_witness(shape: &Shape, image: &Image) -> std::result::Result<(), String> {
    if image.media.len() != 2 {
        return Ok(());
    }
    let witness = WitnessFile::new();
    let path: &Path = &witness.0;
    let nothing = |_: &forebay::Pool, _: &mut Vec<Arc<Shadow>>| Ok(());
    let failed = |what: &'static str| move |error| format!("{what}: {error}");
    let alone = |of: &Image, member: usize| Image {
        media: vec![of.media[member].clone()],
        ..image.clone()
    };
    let both = served(shape, image, 0, |pool, _| pool.set_witness(Some(path)))
        .map_err(failed("a pool gets a witness"))?;
    let first = witness.content()?;
    served(shape, &alone(&both, 0), 1, nothing).map_err(failed("a member with its witness"))?;
    let other = served(shape, &alone(&both, 1), 2, nothing);
    must_refuse("a member of which the other one went on alone", other)?;

    witness.restore(&first)?;
    let failing = |pool: &forebay::Pool, _: &mut Vec<Arc<Shadow>>| pool.fail_member(1);
    served(shape, &both, 3, failing).map_err(failed("a member is taken out"))?;
    let gone = served(shape, &alone(&both, 1), 4, nothing);
    must_refuse("a member that was taken out", gone)?;

    witness.restore(&first)?;
    let rebuilt = served(shape, &both, 5, |pool, shadows| {
        pool.fail_member(1)?;
        rebuild(shape, pool, shadows)
    });
    let rebuilt = rebuilt.map_err(failed("a member is rebuilt"))?;
    witness.restore(&first)?;
    let old = served(shape, &alone(&rebuilt, 1), 6, nothing);
    must_refuse("a member beside an old copy of its witness", old)
}
