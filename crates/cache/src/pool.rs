//! Pools: created, opened, filled with volumes, closed.

use std::path::Path;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, OnceLock, RwLock};

use forebay_pmem::{Counters, PersistenceDomain, Region};

use crate::backing::{Backing, BackingIdentity};
use crate::bell::Bell;
use crate::core::{CheckpointState, Core, STATE_DIRTY};
use crate::entry::{BLOCK_BITS, Entry};
use crate::error::{Error, Result};
use crate::geometry::Geometry;
use crate::groups::Groups;
use crate::health::Health;
use crate::index::Index;
use crate::lanes::Lanes;
use crate::layout::LINE_BYTES;
use crate::life::Life;
use crate::live::LiveVolumes;
use crate::media::Media;
use crate::options::{PoolOptions, RuntimeOptions, VerifyPolicy};
use crate::pipeline::Background;
use crate::recovery::{self, Mappings, NewLife, RecoveryReport};
use crate::slots::Slots;
use crate::stats::{Stats, Tallies};
use crate::superblock::{self, Assembly};
use crate::sync::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use crate::volume::{Volume, VolumeState};
use crate::volumes::{self, Description};
use crate::writeback::WriteBack;

/// Lane records of a plain file start on fresh pages.
const PAGE_BYTES: u64 = 4096;

/// An open pool. One process owns it; dropping it ends its threads and leaves everything dirty
/// safely in the pool.
pub struct Pool {
    core: Arc<Core>,
    pool_uuid: [u8; 16],
    recovery: RecoveryReport,
    attach: Mutex<()>,
    // Last, so that its threads end before the rest goes.
    background: Option<Background>,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Pool {} (life {})",
            self.core.path().display(),
            self.core.life
        )
    }
}

impl Pool {
    /// Makes a new, empty pool and opens it. Files that exist are refused without `force`.
    ///
    /// Errors: options that do not fit, no space, a file in the way, a locked file.
    pub fn create(options: &PoolOptions) -> Result<Pool> {
        let members = u32::try_from(options.paths.len()).unwrap_or(u32::MAX);
        if members == 0 {
            return Err(Error::Options(
                "a pool has at least one member; name a file".into(),
            ));
        }
        // Plan first: a plan that fails must not leave files behind.
        Geometry::plan(&options.format, members, options.member_bytes)?;
        let mut made = Vec::new();
        let pool = options
            .paths
            .iter()
            .map(|path| member_region(path, options).inspect(|_| made.push(path)))
            .collect::<Result<Vec<Region>>>()
            .and_then(|regions| Pool::create_on(regions, options));
        if pool.is_err() {
            // Devices stay, of course.
            for path in made.into_iter().filter(|path| path.is_file()) {
                // What failed is what the caller has to hear of, not this.
                let _ = std::fs::remove_file(path);
            }
        }
        pool
    }

    /// As `create`, over regions that are mapped already (tests use shadow regions).
    pub fn create_on(regions: Vec<Region>, options: &PoolOptions) -> Result<Pool> {
        let member_bytes = regions.iter().map(Region::len).min().unwrap_or(0);
        let geometry = Geometry::plan(&options.format, regions.len() as u32, member_bytes)?;
        clear_metadata(&regions, &geometry)?;
        let pool_uuid = superblock::format(&regions, &geometry, &options.format)?;
        let media = Media::new(regions, geometry, options.format.checksums);
        let strict = options.format.strict || !options.format.checksums;
        let life = recovery::start_life(&media, pool_uuid, 1, crate::record::Salt(0), 0, 0)?;
        let report = RecoveryReport::default();
        Pool::start(
            media,
            pool_uuid,
            strict,
            life,
            Vec::new(),
            report,
            options.runtime.clone(),
        )
    }

    /// Opens a pool by the paths of all its members, in any order, and recovers it.
    ///
    /// Errors: foreign, truncated, newer, mixed or missing members; damage; a pool in use.
    pub fn open<P: AsRef<Path>>(paths: &[P]) -> Result<Pool> {
        Pool::open_with(paths, RuntimeOptions::default())
    }

    /// As `open`, with options.
    pub fn open_with<P: AsRef<Path>>(paths: &[P], options: RuntimeOptions) -> Result<Pool> {
        let regions = paths
            .iter()
            .map(|path| Ok(Region::open(path.as_ref(), &options.region)?))
            .collect::<Result<Vec<_>>>()?;
        Pool::open_on(regions, options)
    }

    /// As `open`, over regions that are mapped already.
    pub fn open_on(regions: Vec<Region>, options: RuntimeOptions) -> Result<Pool> {
        let Assembly {
            regions,
            geometry,
            pool_uuid,
            strict,
            checksums,
        } = superblock::assemble(regions)?;
        let media = Media::new(regions, geometry, checksums);
        let volumes: Vec<u32> = volumes::read_attached(&media)
            .iter()
            .map(|v| v.id)
            .collect();
        let recovered =
            recovery::recover(&media, &pool_uuid, strict, &volumes, options.accept_loss)?;
        let Life {
            number,
            salt,
            checkpoint_line,
            ..
        } = recovered.current;
        let next = recovery::start_life(
            &media,
            pool_uuid,
            number + 1,
            salt,
            recovered.last_sequence,
            checkpoint_line ^ 1,
        )?;
        let (mappings, report) = (recovered.mappings, recovered.report);
        Pool::start(media, pool_uuid, strict, next, mappings, report, options)
    }

    /// What opening would find and do, without changing the files. Of a pool that another process
    /// serves it is a rough picture, and the report says so.
    ///
    /// Errors: as `open`.
    pub fn dry_run<P: AsRef<Path>>(paths: &[P]) -> Result<(RecoveryReport, Stats)> {
        let regions = paths
            .iter()
            .map(|path| Ok(Region::open_read_only(path.as_ref())?))
            .collect::<Result<Vec<_>>>()?;
        let in_use = regions.iter().any(Region::is_open_elsewhere);
        let options = RuntimeOptions {
            background: false,
            accept_loss: true,
            ..RuntimeOptions::default()
        };
        let mut pool = Pool::open_on(regions, options)?;
        if in_use {
            // What was read while it was being changed tells of no damage.
            pool.recovery.in_use = true;
            pool.recovery.damage.clear();
        }
        Ok((pool.recovery.clone(), pool.stats()))
    }

    fn start(
        media: Media,
        pool_uuid: [u8; 16],
        strict: bool,
        life: NewLife,
        mappings: Mappings,
        recovery: RecoveryReport,
        options: RuntimeOptions,
    ) -> Result<Pool> {
        let core = Arc::new(Core::start(media, strict, life, &mappings, options));
        let background = core.options.background.then(|| Background::start(&core));
        Ok(Pool {
            core,
            pool_uuid,
            recovery,
            attach: Mutex::new(()),
            background,
        })
    }

    /// Attaches a backing: the volume that it was before, or a new one.
    ///
    /// Errors: no room in the volume table; the backing changed its size since.
    pub fn attach(&self, backing: Backing) -> Result<Volume> {
        let _one_at_a_time = self.attach.lock().unwrap_or_else(|e| e.into_inner());
        let core = &self.core;
        let identity = backing.identity();
        check_size(&identity, core.block_bytes())?;
        let known = volumes::read_attached(&core.media)
            .into_iter()
            .find(|known| known.identity.path == identity.path);
        if let Some(known) = known {
            return self.attach_again(&known, identity, backing);
        }
        let (place, before) = (0..core.media.geometry.volumes)
            .map(|place| (place, volumes::read(&core.media, place)))
            .find(|(_, found)| !found.as_ref().is_some_and(|found| found.attached))
            .ok_or_else(|| {
                Error::Volume(format!(
                    "{}: the pool's table of {} volumes is full; detach one",
                    identity.path.display(),
                    core.media.geometry.volumes
                ))
            })?;
        sync_backing(&backing, &identity)?;
        let id = volumes::next_id(place, before.as_ref());
        volumes::write(&core.media, place, id, &identity, true)?;
        let state = Arc::new(VolumeState {
            id,
            path: identity.path,
            size_bytes: identity.size_bytes,
            backing: OnceLock::from(backing),
            health: Health::default(),
            zeroings: AtomicU32::new(0),
        });
        self.set_volume(place, Some(state.clone()));
        core.live.add(id);
        Ok(Volume {
            core: core.clone(),
            state,
        })
    }

    fn attach_again(
        &self,
        known: &volumes::Description,
        identity: BackingIdentity,
        backing: Backing,
    ) -> Result<Volume> {
        if known.identity != identity {
            return Err(Error::Volume(format!(
                "{}: this pool caches a backing of that name with {} bytes (inode {}), but found {} \
                 bytes (inode {}); bring the old one back, or detach it first",
                identity.path.display(),
                known.identity.size_bytes,
                known.identity.inode,
                identity.size_bytes,
                identity.inode
            )));
        }
        let state = self.core.volume(known.id).ok_or_else(|| {
            Error::Volume(format!("{}: it is being detached", identity.path.display()))
        })?;
        sync_backing(&backing, &identity)?;
        state.backing.set(backing).map_err(|_| {
            Error::Volume(format!(
                "{}: it is attached already",
                identity.path.display()
            ))
        })?;
        // Its dirty blocks were passed over while it had no backing.
        state.health.succeeded();
        self.core.announce_dirty(state.id);
        self.core.bell.ring_work();
        Ok(Volume {
            core: self.core.clone(),
            state,
        })
    }

    /// The volumes that the pool knows, with or without an attached backing.
    pub fn volumes(&self) -> Vec<Volume> {
        let volumes = self.core.volumes.read().unwrap_or_else(|e| e.into_inner());
        let known = volumes.iter().flatten();
        known
            .map(|state| Volume {
                core: self.core.clone(),
                state: state.clone(),
            })
            .collect()
    }

    /// Writes everything of a volume back, drops its blocks and forgets it. Writes through other
    /// clones of the volume fail from some moment on; what was acknowledged before is in the backing.
    ///
    /// Errors: the backing failed; the volume is still attached then and nothing is lost.
    pub fn detach(&self, volume: Volume) -> Result<()> {
        let _one_at_a_time = self.attach.lock().unwrap_or_else(|e| e.into_inner());
        let core = &self.core;
        let found = volumes::read_attached(&core.media)
            .into_iter()
            .find(|found| found.id == volume.id() && Arc::ptr_eq(core, &volume.core))
            .ok_or_else(|| Error::Volume(format!("{volume:?} is not attached to this pool")))?;
        // While it is still in use, so that little is left for later.
        volume.flush()?;
        core.live.remove(found.id);
        core.index.wait_for_holders();
        let gone = self.forget(&volume, &found);
        if gone.is_err() {
            core.live.add(found.id);
        }
        gone
    }

    /// Nobody changes the volume any more: its last blocks go, then its place is free.
    fn forget(&self, volume: &Volume, found: &Description) -> Result<()> {
        volume.flush()?;
        self.core.drop_volume_blocks(&volume.state)?;
        // The tombstones must be in the table before the id may be used again.
        self.core.checkpoint()?;
        let Description { place, id, .. } = *found;
        volumes::write(&self.core.media, place, id, &found.identity, false)?;
        self.set_volume(place, None);
        Ok(())
    }

    fn set_volume(&self, place: u32, state: Option<Arc<VolumeState>>) {
        let mut volumes = self.core.volumes.write().unwrap_or_else(|e| e.into_inner());
        volumes[place as usize] = state;
    }

    /// How the pool stands and what it did.
    pub fn stats(&self) -> Stats {
        self.core.stats(&self.recovery)
    }
    /// Lines, fences and bytes persisted since the members were mapped, by all threads.
    pub fn counters(&self) -> Counters {
        self.core.media.counters()
    }
    /// What recovery found when this pool was opened.
    pub fn recovery_report(&self) -> &RecoveryReport {
        &self.recovery
    }
    /// The pool's identity.
    pub fn uuid(&self) -> [u8; 16] {
        self.pool_uuid
    }
    /// What the medium of the first member survives, in plain words.
    pub fn survives(&self) -> &'static str {
        self.core.media.main().kind().survives()
    }
    /// The most bytes one transaction can hold: 4 MiB or an eighth of the pool.
    pub fn transaction_limit_bytes(&self) -> u64 {
        self.core.media.geometry.transaction_limit_bytes()
    }
    /// When reads compare data with checks; can be changed at any time.
    pub fn set_verify(&self, policy: VerifyPolicy) {
        self.core.set_verify(policy);
    }
    /// Makes everything acknowledged durable in place and empties the log.
    ///
    /// Errors: a fence failed.
    pub fn checkpoint(&self) -> Result<()> {
        self.core.checkpoint()
    }
    /// Evicts up to `wanted` clean blocks; returns how many. Background threads do this unasked.
    ///
    /// Errors: a fence failed.
    pub fn reclaim_once(&self, wanted: usize) -> Result<usize> {
        self.core.reclaim_once(wanted)
    }
    /// Writes one batch of dirty blocks back; returns how many. Background threads do this unasked.
    ///
    /// Errors: a backing failed or a block is corrupt; nothing is lost, the rest was written.
    pub fn write_back_once(&self) -> Result<usize> {
        self.core.write_back_once()
    }
    /// Reads every cached block and compares it with its check. `progress` hears (done, of all
    /// entries) now and then. Returns how many are good, and volume and block of the bad ones.
    pub fn check(&self, mut progress: impl FnMut(u64, u64)) -> (u64, Vec<(u32, u64)>) {
        self.core.check_all(&mut progress)
    }

    /// Ends the threads, empties the log, and closes. Dirty blocks stay in the pool.
    ///
    /// Errors: a fence failed; the next open recovers.
    pub fn close(mut self) -> Result<()> {
        self.background = None;
        self.core.checkpoint()
    }
}

fn member_region(path: &Path, options: &PoolOptions) -> Result<Region> {
    let region_options = &options.runtime.region;
    if !path.exists() {
        return Ok(Region::create(path, options.member_bytes, region_options)?);
    }
    let is_file = std::fs::metadata(path).is_ok_and(|found| found.is_file());
    if is_file {
        if !options.force {
            return Err(Error::Refused {
                path: path.to_path_buf(),
                found: "the file exists already".into(),
                todo: "name another one, or use force to overwrite it".into(),
            });
        }
        remove_unlocked(path)?;
        return Ok(Region::create(path, options.member_bytes, region_options)?);
    }
    let region = Region::open(path, region_options)?;
    if !options.force && !superblock::is_blank(&region) {
        return Err(Error::Refused {
            path: path.to_path_buf(),
            found: "the device is not blank".into(),
            todo: "use force to overwrite it".into(),
        });
    }
    Ok(region)
}

/// Removes a file that nobody serves, whatever is in it.
fn remove_unlocked(path: &Path) -> Result<()> {
    let removed = std::fs::File::open(path).and_then(|file| {
        file.try_lock()?;
        std::fs::remove_file(path)
    });
    removed.map_err(|error| Error::Refused {
        path: path.to_path_buf(),
        found: format!("the file there cannot be replaced: {error}"),
        todo: "end the process that uses it, or name another file".into(),
    })
}

/// Zeroes everything but the slots, so that nothing old looks like ours.
fn clear_metadata(regions: &[Region], geometry: &Geometry) -> Result<()> {
    let zeroes = vec![0; 1 << 16];
    for region in regions {
        let end = geometry.slot_area / LINE_BYTES * LINE_BYTES;
        let mut offset = 0;
        while offset < end {
            let len = (zeroes.len() as u64).min(end - offset);
            region.stream(offset, &zeroes[..len as usize]);
            offset += len;
        }
        region.fence()?;
    }
    Ok(())
}

/// A killed process, ours or another, may have written what it did not sync; a clean block stands on
/// durable bytes only (I7).
fn sync_backing(backing: &Backing, identity: &BackingIdentity) -> Result<()> {
    backing.sync().map_err(|source| Error::Backing {
        path: identity.path.clone(),
        source,
    })
}

fn check_size(identity: &BackingIdentity, block_bytes: usize) -> Result<()> {
    let blocks = identity.size_bytes.div_ceil(block_bytes as u64);
    if blocks == 0 || blocks > 1 << BLOCK_BITS {
        return Err(Error::Volume(format!(
            "{}: {} bytes; a volume has 1 to 2^{BLOCK_BITS} blocks",
            identity.path.display(),
            identity.size_bytes
        )));
    }
    Ok(())
}

impl Core {
    fn start(
        media: Media,
        strict: bool,
        life: NewLife,
        mappings: &[(u32, Entry)],
        options: RuntimeOptions,
    ) -> Core {
        let geometry = media.geometry;
        let mut used_entries = vec![0u64; (geometry.entries as usize).div_ceil(64)];
        let mut used_slots = vec![0u64; (geometry.slots() as usize).div_ceil(64)];
        let set = |words: &mut [u64], bit: u32| words[bit as usize / 64] |= 1 << (bit % 64);
        for (index, entry) in mappings {
            set(&mut used_entries, *index);
            if let Some(slot) = entry.slot() {
                set(&mut used_slots, slot);
            }
        }
        let is_set = |words: &[u64], bit: u32| words[bit as usize / 64] >> (bit % 64) & 1 != 0;
        let page_domain = media
            .members()
            .iter()
            .any(|m| m.domain() == PersistenceDomain::Page);
        let align = if page_domain && geometry.unit_bytes as u64 >= PAGE_BYTES {
            PAGE_BYTES
        } else {
            LINE_BYTES
        };
        let dirty_high =
            u64::from(geometry.slots()) * u64::from(options.dirty_high_per_mille) / 1000;
        let core = Core {
            index: Index::with_used(geometry.entries, |entry| is_set(&used_entries, entry)),
            slots: Slots::new(geometry.slots(), geometry.lanes, |slot| {
                is_set(&used_slots, slot)
            }),
            lanes: Lanes::new(geometry.lanes, geometry.lane_bytes, align, life.sequence),
            states: (0..geometry.entries).map(|_| AtomicU8::new(0)).collect(),
            dirty: Groups::new(geometry.entries),
            dirty_count: AtomicU64::new(0),
            table_lines: (0..geometry.entries.div_ceil(4 * 64))
                .map(|_| AtomicU64::new(0))
                .collect(),
            checkpoint: Mutex::new(CheckpointState {
                next_line: life.next_checkpoint_line,
                sequence: life.sequence,
                count: 0,
            }),
            replacement: options.replacement.build(geometry.entries as usize),
            volumes: RwLock::new(vec![None; geometry.volumes as usize]),
            live: LiveVolumes::new(geometry.volumes),
            salt: life.salt,
            life: life.life,
            strict,
            verify: AtomicBool::new(options.verify == VerifyPolicy::Always),
            poisoned: AtomicBool::new(false),
            tallies: Tallies::default(),
            write_back: WriteBack::default(),
            bell: Bell::new(dirty_high),
            options,
            media,
        };
        core.know_volumes();
        core.know_mappings(mappings);
        core
    }

    fn know_volumes(&self) {
        let mut volumes = self.volumes.write().unwrap_or_else(|e| e.into_inner());
        for known in volumes::read_attached(&self.media) {
            self.live.add(known.id);
            volumes[known.place as usize] = Some(Arc::new(VolumeState {
                id: known.id,
                path: known.identity.path,
                size_bytes: known.identity.size_bytes,
                backing: OnceLock::new(),
                health: Health::default(),
                zeroings: AtomicU32::new(0),
            }));
        }
    }

    fn know_mappings(&self, mappings: &[(u32, Entry)]) {
        self.replacement
            .insert_all(&mut mappings.iter().map(|(index, _)| *index));
        for (index, entry) in mappings {
            self.index.link(self.place(entry.key()), *index);
            if !entry.is_clean() {
                self.set_state(*index, STATE_DIRTY);
                self.dirty_count.fetch_add(1, Ordering::Relaxed);
                self.dirty.insert(*index);
            }
        }
    }
}
