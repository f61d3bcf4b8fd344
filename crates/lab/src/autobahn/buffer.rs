//! The buffer: made over a region, opened after whatever became of the last one, and asked for files.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use forebay_pmem::{Counters, Region};

use super::background::StageThreads;
use super::counts::StageCounts;
use super::file::{AutoBahnFile, WriteMode};
use super::folder::Folder;
use super::layout::{IN_USE, PARTIAL};
use super::media::{Media, State, VolumeEntry};
use super::opened::{Opened, Volumes};
use super::options::AutoBahnOptions;
use super::pipeline::{OpenVolume, Pipeline};
use super::recover::{Recovered, recover};

/// AutoBahn over a region and a folder.
#[derive(Debug)]
pub struct AutoBahn {
    // Before the pipeline: its threads end first.
    _threads: Option<StageThreads>,
    pipeline: Arc<Pipeline>,
    folder: Arc<dyn Folder>,
    opened: Arc<Opened>,
    recovered: Recovered,
}

impl AutoBahn {
    /// Makes one, with nothing in it.
    ///
    /// # Errors
    /// The region is too small, or fails.
    pub fn create(
        region: Region,
        folder: Arc<dyn Folder>,
        options: &AutoBahnOptions,
    ) -> io::Result<AutoBahn> {
        let media = Media::create(region, options)?;
        AutoBahn::start(media, folder, options, Recovered::default())
    }

    /// Opens one that was made: what it has is brought to the files first (§4.5).
    ///
    /// # Errors
    /// The region has none, or it is damaged; a file is not where it was, or fails: all others have their data then,
    /// and the region keeps that of this one.
    pub fn open(
        region: Region,
        folder: Arc<dyn Folder>,
        options: &AutoBahnOptions,
    ) -> io::Result<AutoBahn> {
        let media = Media::open(region, options)?;
        let recovered = recover(&media, &*folder, options)?;
        AutoBahn::start(media, folder, options, recovered)
    }

    fn start(
        media: Media,
        folder: Arc<dyn Folder>,
        options: &AutoBahnOptions,
        recovered: Recovered,
    ) -> io::Result<AutoBahn> {
        let mut volumes = Volumes::default();
        for volume in 0..media.layout.volumes as u32 {
            match media.described(volume)? {
                Some(entry) => drop(volumes.kept.insert(entry.path, volume)),
                None => drop(volumes.unused.insert(volume)),
            }
        }
        let pipeline = Arc::new(Pipeline::new(media, options));
        for inode in 0..pipeline.media.layout.blocks as u32 {
            match pipeline.media.state(inode) {
                Some(State::Clean) => pipeline.clean.enqueue(inode),
                _ => pipeline.free.enqueue(inode),
            }
        }
        let threads = match options.background {
            true => Some(StageThreads::start(&pipeline)?),
            false => None,
        };
        Ok(AutoBahn {
            _threads: threads,
            pipeline,
            folder,
            opened: Arc::new(Opened(Mutex::new(volumes))),
            recovered,
        })
    }

    /// Opens a file, or makes it, as with `O_NVM` or `O_NVMPARTIAL` (§5.4). The path is one that the folder knows.
    ///
    /// # Errors
    /// It is open already (§5.5); no volume is left; the file's, or the region's.
    pub fn open_file(&self, path: &Path, mode: WriteMode) -> io::Result<AutoBahnFile> {
        let busy = |why: &str| {
            let message = format!("{}: {why}", path.display());
            io::Error::new(io::ErrorKind::ResourceBusy, message)
        };
        self.pipeline.check()?;
        if !self
            .opened
            .with(|volumes| volumes.paths.insert(path.to_owned()))
        {
            return Err(busy("it is open already; a file is open once at a time"));
        }
        let kept = self.opened.with(|volumes| volumes.kept.remove(path));
        let volume = kept.or_else(|| self.opened.with(|volumes| volumes.unused.pop_first()));
        let opened = match volume {
            Some(volume) => self.prepare(volume, kept.is_some(), (path, mode)),
            None => Err(busy("all volumes are in use; close a file first")),
        };
        if opened.is_err() {
            let volume = volume.filter(|_| kept.is_none());
            self.opened.with(|volumes| {
                volumes.paths.remove(path);
                volumes.unused.extend(volume);
            });
        }
        opened
    }

    fn prepare(
        &self,
        volume: u32,
        is_kept: bool,
        (path, mode): (&Path, WriteMode),
    ) -> io::Result<AutoBahnFile> {
        let media = &self.pipeline.media;
        let file = self.folder.open(path, true)?;
        let size_bytes = match is_kept {
            true => media.size_bytes(volume),
            false => file.size_bytes()?,
        };
        let partial = if mode == WriteMode::Partial {
            PARTIAL
        } else {
            0
        };
        media.describe(
            volume,
            &VolumeEntry {
                path: path.to_owned(),
                number: file.number()?,
                size_bytes,
                flags: 0,
            },
        )?;
        // All of the volume before it is in use.
        media.fence()?;
        media.set_flags(volume, IN_USE | partial);
        // In use before any inode names it.
        media.fence()?;
        let open = Arc::new(OpenVolume {
            file,
            size_bytes: AtomicU64::new(size_bytes),
        });
        self.pipeline.set_volume(volume, Some(open.clone()));
        let inodes = match is_kept {
            true => self.cached_of(volume),
            false => HashMap::new(),
        };
        Ok(AutoBahnFile::new(
            &self.pipeline,
            &self.opened,
            (volume, open),
            (path, mode),
            inodes,
        ))
    }

    /// The blocks of a volume that recovery kept.
    fn cached_of(&self, volume: u32) -> HashMap<u64, u32> {
        let media = &self.pipeline.media;
        let inodes = 0..media.layout.blocks as u32;
        let ours = inodes.filter_map(|inode| {
            let found = media.inode(inode);
            let is_kept = found.state == Some(State::Clean) && found.volume == Some(volume);
            is_kept.then_some((found.lbn, inode))
        });
        ours.collect()
    }

    /// A turn of every stage, on this thread.
    ///
    /// # Errors
    /// A stage's.
    pub fn run_stages(&self) -> io::Result<()> {
        self.pipeline.check()?;
        for dirty in &self.pipeline.dirty {
            self.pipeline.flush(dirty)?;
        }
        self.pipeline.reclaim(i64::MAX);
        Ok(())
    }

    /// What the region persisted.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.pipeline.media.region().counters()
    }

    /// What the stages did.
    #[must_use]
    pub fn stages(&self) -> StageCounts {
        self.pipeline.counted.told()
    }

    /// What opening found to be done.
    #[must_use]
    pub fn recovered(&self) -> Recovered {
        self.recovered
    }

    /// Blocks of the region.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.pipeline.media.layout.blocks
    }
}
