//! A pool that no process serves grows: drained, emptied, and begun anew at the larger size with the
//! same volumes.
//!
//! The plan of a pool is part of its incarnation's line, so the switch to a new incarnation is the switch to the
//! new plan: a crash leaves the pool as it was or as it is to be. What comes first leaves nothing in
//! the pool that the switch could lose.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use forebay_pmem::Region;

use crate::api::pool::MemoryPool;
use crate::api::pool::drain::{Drain, DrainWatcher};
use crate::api::pool::members::clear;
use crate::backing::Backing;
use crate::engine::Ended;
use crate::error::{ErrorKind, Result, refused};
use crate::media::geometry::Geometry;
use crate::media::layout::ENTRY_BYTES;
use crate::mutants::{Mutant, mutated};
use crate::options::RuntimeOptions;
use crate::recovery::{self, Kept, RecoveryReport};

/// How a pool's volume is found by the path in its table.
pub type OpenBacking<'a> = dyn FnMut(&Path) -> Result<Backing> + 'a;

impl MemoryPool {
    /// Grows the members of an idle pool to `member_bytes` each. Everything dirty is written to the
    /// backings first, which are found by their paths, and the new pool starts out empty. Files are
    /// extended; a device must have the bytes already. Done again after a crash or an error it goes
    /// on from there; a pool that has this size is left as it is.
    ///
    /// # Errors
    /// As [`MemoryPool::open`]; [`ErrorKind::Options`]: a smaller size. [`ErrorKind::Refused`]: a device has fewer bytes.
    /// [`ErrorKind::Media`]: no space.
    /// [`ErrorKind::Volume`], [`ErrorKind::Backing`]: a backing is missing or failed.
    /// [`ErrorKind::Cancelled`]: the watcher said so. The pool is as before, less what was written back.
    pub fn grow<P: AsRef<Path>>(
        paths: &[P],
        member_bytes: u64,
        watcher: &mut DrainWatcher<'_>,
    ) -> Result<()> {
        let mut open_backing = |path: &Path| {
            Backing::file(path).map_err(|error| ErrorKind::Volume(error.to_string()).into())
        };
        let options = RuntimeOptions {
            background: false,
            ..RuntimeOptions::default()
        };
        // Once before the files change: what is refused is refused before.
        let pool = MemoryPool::open_with(paths, options.clone())?;
        let geometry = pool.pipeline.media().geometry.grown(member_bytes)?;
        if geometry == pool.pipeline.media().geometry {
            return pool.close();
        }
        pool.drain_all(&mut open_backing, watcher)?;
        pool.close()?;
        for path in paths {
            forebay_pmem::extend(path.as_ref(), geometry.member_bytes)?;
        }
        let regions = paths
            .iter()
            .map(|path| Ok(Region::open(path.as_ref(), &options.region)?))
            .collect::<Result<_>>()?;
        let go_on = &mut |_: &_| ControlFlow::Continue(());
        MemoryPool::grow_on(regions, member_bytes, &mut open_backing, go_on, options)?.close()
    }

    /// As `grow`, over regions that are mapped already and large enough; returns the pool, its
    /// volumes without their backings.
    ///
    /// # Errors
    /// As [`MemoryPool::grow`].
    pub fn grow_on(
        regions: Vec<Region>,
        member_bytes: u64,
        open_backing: &mut OpenBacking<'_>,
        watcher: &mut DrainWatcher<'_>,
        options: RuntimeOptions,
    ) -> Result<MemoryPool> {
        let shortest = regions.iter().min_by_key(|region| region.len());
        if let Some(region) = shortest.filter(|region| region.len() < member_bytes) {
            return Err(refused(
                region.path(),
                format!("{} bytes, fewer than {member_bytes}", region.len()),
                "enlarge the device, or ask for less",
            ));
        }
        let quiet = RuntimeOptions {
            background: false,
            ..options.clone()
        };
        let pool = MemoryPool::open_on(regions, quiet)?;
        let geometry = pool.pipeline.media().geometry.grown(member_bytes)?;
        if geometry == pool.pipeline.media().geometry {
            return Ok(pool);
        }
        pool.drain_all(open_backing, watcher)?;
        pool.lay_out_anew(geometry, options)
    }

    /// Attaches every volume that the pool knows, writes everything back and forgets it.
    fn drain_all(
        &self,
        open_backing: &mut OpenBacking<'_>,
        watcher: &mut DrainWatcher<'_>,
    ) -> Result<()> {
        let mut volumes = Vec::new();
        for known in self.volumes() {
            let backing = open_backing(&known.state.path)?;
            if backing.identity().path != known.state.path {
                return Err(ErrorKind::Volume(format!(
                    "{}: its backing is now {}; detach it first",
                    known.state.path.display(),
                    backing.identity().path.display()
                ))
                .into());
            }
            volumes.push(self.attach(backing)?);
        }
        let mut drain = Drain::new(watcher);
        volumes.iter().try_for_each(|volume| drain.pass(volume))?;
        let dirty_blocks = self.pipeline.table().states().dirty_count();
        assert_eq!(
            dirty_blocks, 0,
            "no other thread writes, and all was written back"
        );
        // By records, and not by zeroes over the table: those a kill could leave where the next process
        // sees them and nothing makes them durable.
        volumes.iter().try_for_each(|volume| {
            self.pipeline
                .engine()
                .drop_volume_blocks(volume.id(), &volume.state.path)
        })
    }

    /// The pool holds nothing any more.
    fn lay_out_anew(self, geometry: Geometry, options: RuntimeOptions) -> Result<MemoryPool> {
        // The tombstones must be in the table before the log goes.
        self.pipeline.engine().checkpoint()?;
        self.end_marks()?;
        let pool_uuid = self.pool_uuid;
        let pipeline = Arc::into_inner(self.pipeline);
        let pipeline = pipeline.expect("the volumes are dropped, the threads never began");
        let Ended {
            media,
            salt,
            incarnation,
            strict,
            sequence,
            next_checkpoint_line,
            round,
        } = pipeline.into_engine().end();
        // What follows the old entries is overwritten, with their seals.
        let media = media.without_all_seals();
        // An incarnation without a record: the log may be overwritten.
        let empty = recovery::start_incarnation(
            &media,
            pool_uuid,
            incarnation + 1,
            salt,
            sequence,
            next_checkpoint_line,
            Kept {
                round,
                ..Kept::default()
            },
        )?;
        // All that lies behind the entries: nothing reads it any more.
        let old = media.geometry;
        let entries_end = old.entry_table + u64::from(old.entries) * ENTRY_BYTES;
        if !mutated(Mutant::GrownOverOldLog) {
            let members: Vec<&Region> = match media.is_mirrored() {
                true => media.metadata().collect(),
                false => media.members().collect(),
            };
            clear(members, entries_end..geometry.slot_area)?;
        }
        let media = media.laid_out(geometry);
        media.seal_empty_table(round);
        let next = recovery::start_incarnation(
            &media,
            pool_uuid,
            empty.incarnation + 1,
            empty.salt,
            sequence,
            empty.next_checkpoint_line,
            empty.kept,
        )?;
        let report = RecoveryReport::default();
        MemoryPool::start(media, pool_uuid, strict, next, Vec::new(), report, options)
    }
}
