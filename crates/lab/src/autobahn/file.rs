//! The write stage (§4.3.1, §5.2) and reads, by the one thread that has a file open.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::block_lock::{BlockLock, Holder};
use super::counts::add;
use super::media::{Inode, State, block_word};
use super::opened::Opened;
use super::pipeline::{OpenVolume, Pipeline};
use super::sync::pause;

/// What a file's writes may be (§5.4). Both are durable when they return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteMode {
    /// `O_NVM`: whole blocks at multiples of a block.
    Aligned,
    /// `O_NVMPARTIAL`: any bytes.
    Partial,
}

/// An open file. There is one of each file (§5.5), and one thread uses it at a time. One that is dropped instead of
/// closed stays in use until the buffer is opened again, as after a kill.
#[derive(Debug)]
pub struct AutoBahnFile {
    pipeline: Arc<Pipeline>,
    opened: Arc<Opened>,
    volume: u32,
    open: Arc<OpenVolume>,
    path: PathBuf,
    mode: WriteMode,
    /// Inodes by block number; an entry that its inode does not confirm is not valid any more (§4.3.3).
    inodes: HashMap<u64, u32>,
    size_bytes: u64,
    /// What a block is put together in.
    block: Vec<u8>,
}

/// A cached block whose lock the writer has, until this is dropped.
struct Locked<'p> {
    lock: &'p BlockLock,
    inode: u32,
    found: Inode,
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.lock.unlock();
    }
}

/// A piece of a write: bytes of one block.
struct Piece<'d> {
    lbn: u64,
    within: u64,
    data: &'d [u8],
    /// Bytes of the block that the file has so far.
    valid: u64,
}

impl Piece<'_> {
    fn end(&self) -> u64 {
        self.within + self.data.len() as u64
    }

    /// No byte that the file has is overwritten.
    fn is_append(&self) -> bool {
        self.within >= self.valid
    }

    /// Bytes of the old content stay.
    fn keeps_some(&self) -> bool {
        self.valid > 0 && (self.within > 0 || self.end() < self.valid)
    }
}

impl AutoBahnFile {
    /// One that was just opened, with what is cached of it.
    pub(super) fn new(
        pipeline: &Arc<Pipeline>,
        opened: &Arc<Opened>,
        (volume, open): (u32, Arc<OpenVolume>),
        (path, mode): (&Path, WriteMode),
        inodes: HashMap<u64, u32>,
    ) -> AutoBahnFile {
        AutoBahnFile {
            size_bytes: Pipeline::durable_size(&open),
            block: vec![0; pipeline.media.layout.block_bytes as usize],
            pipeline: pipeline.clone(),
            opened: opened.clone(),
            volume,
            open,
            path: path.to_owned(),
            mode,
            inodes,
        }
    }

    /// Its size.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Writes at the end; durable on return.
    ///
    /// # Errors
    /// As [`AutoBahnFile::write_at`].
    pub fn append(&mut self, data: &[u8]) -> io::Result<()> {
        self.write_at(self.size_bytes, data)
    }

    /// Writes; durable on return, block by block: a power cut leaves each block as it was or as it is to be.
    ///
    /// # Errors
    /// It begins beyond the end; it is not of whole blocks, and the file was not opened for others; a stage failed.
    pub fn write_at(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        let block_bytes = self.block.len() as u64;
        let is_whole = (offset | data.len() as u64).is_multiple_of(block_bytes);
        if self.mode == WriteMode::Aligned && !is_whole {
            return Err(self.invalid("writes are whole blocks where it is not open for others"));
        }
        if offset > self.size_bytes {
            return Err(self.invalid("a write begins beyond its end; holes are not kept"));
        }
        let (mut offset, mut data) = (offset, data);
        while !data.is_empty() {
            let within = offset % block_bytes;
            let (now, later) = data.split_at(data.len().min((block_bytes - within) as usize));
            let lbn = offset / block_bytes;
            self.write_piece(&Piece {
                lbn,
                within,
                data: now,
                valid: self.valid(lbn),
            })?;
            offset += now.len() as u64;
            data = later;
        }
        Ok(())
    }

    fn invalid(&self, why: &str) -> io::Error {
        let message = format!("{}: {why}", self.path.display());
        io::Error::new(io::ErrorKind::InvalidInput, message)
    }

    /// Bytes of a block that the file has.
    fn valid(&self, lbn: u64) -> u64 {
        let block_bytes = self.block.len() as u64;
        self.size_bytes
            .saturating_sub(lbn * block_bytes)
            .min(block_bytes)
    }

    fn write_piece(&mut self, piece: &Piece<'_>) -> io::Result<()> {
        self.pipeline.check()?;
        // A block that the flusher meets meanwhile goes to the end of its queue.
        let pipeline = self.pipeline.clone();
        match self.cached(&pipeline, piece.lbn) {
            Some(locked) if piece.is_append() => self.append_in_place(&locked, piece),
            Some(locked) => self.update_out_of_place(&locked, piece),
            None => self.write_new(&pipeline, piece),
        }
    }

    /// The inode of a cached block, locked for this writer. It waits for a flusher, and gives the block up to the
    /// reclaimer (§5.1).
    fn cached<'p>(&mut self, pipeline: &'p Pipeline, lbn: u64) -> Option<Locked<'p>> {
        let inode = *self.inodes.get(&lbn)?;
        let is_ours = |found: Inode| (found.volume, found.lbn) == (Some(self.volume), lbn);
        // Only this thread makes it ours. One that has another place now may be locked by this thread for that.
        if !is_ours(pipeline.media.inode(inode)) {
            self.inodes.remove(&lbn);
            return None;
        }
        let lock = pipeline.lock(inode);
        let (mut spins, mut is_waiting) = (0, false);
        while !lock.try_lock(Holder::Writer) {
            // Of a block of ours that is clean nobody but this thread makes a dirty one: the reclaimer takes it.
            if lock.is_held_by_reclaimer() && pipeline.media.state(inode) == Some(State::Clean) {
                self.inodes.remove(&lbn);
                return None;
            }
            if !std::mem::replace(&mut is_waiting, true) {
                add(&pipeline.counted.waits_for_flusher, 1);
            }
            pause(&mut spins);
        }
        let found = pipeline.media.inode(inode);
        let locked = Locked { lock, inode, found };
        if !is_ours(found) {
            self.inodes.remove(&lbn);
            return None;
        }
        Some(locked)
    }

    /// Figure 9: the bytes go behind those that the file has, and count when its size says so.
    fn append_in_place(&mut self, locked: &Locked<'_>, piece: &Piece<'_>) -> io::Result<()> {
        let media = &self.pipeline.media;
        media.put(locked.found.block, piece.within, piece.data);
        if locked.found.state != Some(State::Dirty) {
            media.set_state(locked.inode, State::Dirty);
        }
        self.commit_size(piece)
    }

    /// §5.2.1: new content in a free block, then the inode's pointer. The old block goes to the free inode.
    fn update_out_of_place(&mut self, locked: &Locked<'_>, piece: &Piece<'_>) -> io::Result<()> {
        let free = self.pipeline.take_free()?;
        let media = &self.pipeline.media;
        let to = media.inode(free).block;
        if piece.keeps_some() {
            let kept = &mut self.block[..piece.valid as usize];
            media.get(locked.found.block, 0, kept);
        }
        self.put_whole(to, piece);
        let media = &self.pipeline.media;
        // The content is durable before anything points to it.
        media.fence()?;
        media.switch(locked.inode, self.word_for(to, piece));
        media.point(free, locked.found.block);
        if self.pipeline.options.as_printed {
            media.flush_inode(free);
        }
        // The block counts.
        media.fence()?;
        self.pipeline.free.enqueue(free);
        self.grow(piece)
    }

    /// A block that is not cached gets a free one.
    fn write_new(&mut self, pipeline: &Pipeline, piece: &Piece<'_>) -> io::Result<()> {
        if piece.keeps_some() {
            let begin = piece.lbn * self.block.len() as u64;
            let kept = &mut self.block[..piece.valid as usize];
            let read = self.open.file.read_at(begin, kept)?;
            if read < kept.len() {
                return Err(self.invalid("it is shorter than it was left; was it cut meanwhile?"));
            }
        }
        let inode = pipeline.take_free()?;
        let media = &pipeline.media;
        let block = media.inode(inode).block;
        self.put_whole(block, piece);
        if piece.valid > 0 {
            // The content is durable before an inode says that the file's own is older.
            media.fence()?;
        }
        let is_locked = pipeline.lock(inode).try_lock(Holder::Writer);
        assert!(is_locked, "a free block is nobody else's");
        media.assign(inode, (self.volume, piece.lbn), self.word_for(block, piece));
        self.inodes.insert(piece.lbn, inode);
        let committed = match piece.end() > piece.valid {
            // The size is stored after a fence that all of this comes before.
            true => self.commit_size(piece),
            // The block counts.
            false => media.fence(),
        };
        pipeline.lock(inode).unlock();
        pipeline.enqueue_dirty(self.volume, inode);
        committed
    }

    /// Puts a block together of what stays and what is new, in memory and then in the region.
    fn put_whole(&mut self, block: u32, piece: &Piece<'_>) {
        let media = &self.pipeline.media;
        if !piece.keeps_some() {
            return media.put(block, piece.within, piece.data);
        }
        let (within, end) = (piece.within as usize, piece.end() as usize);
        self.block[within..end].copy_from_slice(piece.data);
        media.put(block, 0, &self.block[..end.max(piece.valid as usize)]);
    }

    /// What the inode is switched to. Where a block is overwritten and grows, both in one word.
    fn word_for(&self, block: u32, piece: &Piece<'_>) -> u64 {
        let is_both = piece.end() > piece.valid && !piece.is_append();
        match is_both && !self.pipeline.options.as_printed {
            true => block_word(block, piece.end() as u32),
            false => block_word(block, 0),
        }
    }

    /// Where the write made the file longer.
    fn grow(&mut self, piece: &Piece<'_>) -> io::Result<()> {
        match piece.end() > piece.valid {
            true => self.set_size(piece),
            false => Ok(()),
        }
    }

    /// The bytes durable, then the size.
    fn commit_size(&mut self, piece: &Piece<'_>) -> io::Result<()> {
        // Content and inode are durable before the size that counts them.
        self.pipeline.media.fence()?;
        self.set_size(piece)
    }

    fn set_size(&mut self, piece: &Piece<'_>) -> io::Result<()> {
        let size_bytes = piece.lbn * self.block.len() as u64 + piece.end();
        let media = &self.pipeline.media;
        media.set_size_bytes(self.volume, size_bytes);
        // The append counts.
        media.fence()?;
        self.size_bytes = size_bytes;
        // Release: a flusher that sees it may write so far.
        self.open.size_bytes.store(size_bytes, Ordering::Release);
        Ok(())
    }

    /// Reads from `offset` on; less than asked for only at the end.
    ///
    /// # Errors
    /// The file's own.
    pub fn read_at(&mut self, offset: u64, out: &mut [u8]) -> io::Result<usize> {
        let block_bytes = self.block.len() as u64;
        let rest = self.size_bytes.saturating_sub(offset);
        let wanted = out.len().min(usize::try_from(rest).unwrap_or(usize::MAX));
        let pipeline = self.pipeline.clone();
        let mut done = 0;
        while done < wanted {
            let at = offset + done as u64;
            let (lbn, within) = (at / block_bytes, at % block_bytes);
            let piece = (wanted - done).min((block_bytes - within) as usize);
            let out = &mut out[done..done + piece];
            match self.cached(&pipeline, lbn) {
                Some(locked) => pipeline.media.get(locked.found.block, within, out),
                None => {
                    if self.open.file.read_at(at, out)? < piece {
                        return Err(
                            self.invalid("it is shorter than it was left; was it cut meanwhile?")
                        );
                    }
                }
            }
            done += piece;
        }
        Ok(wanted)
    }

    /// Brings the file up to date, durably, and gives its volume back.
    ///
    /// # Errors
    /// The file's, or the region's; what the buffer has stays, and opening it again brings it to the file.
    pub fn close(mut self) -> io::Result<()> {
        self.pipeline.check()?;
        let closed = self.bring_home();
        match closed {
            Ok(()) => {
                self.pipeline.set_volume(self.volume, None);
                self.opened.closed(self.volume, &self.path);
            }
            // The volume is not given to another file: its dirty blocks name it.
            Err(ref error) => self.pipeline.fail(error),
        }
        closed
    }

    fn bring_home(&mut self) -> io::Result<()> {
        let pipeline = self.pipeline.clone();
        let mut lbns: Vec<u64> = self.inodes.keys().copied().collect();
        lbns.sort_unstable();
        let mut ours = Vec::new();
        for lbn in lbns {
            let Some(locked) = self.cached(&pipeline, lbn) else {
                continue;
            };
            if locked.found.state == Some(State::Dirty) {
                pipeline.write_run(&self.open, lbn, &[locked.found.block])?;
            }
            ours.push(locked);
        }
        self.open.file.sync()?;
        add(&pipeline.counted.syncs, 1);
        for locked in &ours {
            pipeline.media.set_state(locked.inode, State::Clean);
        }
        // Clean before the volume is not in use: dirty blocks have a volume.
        pipeline.media.fence()?;
        for locked in &ours {
            pipeline.media.disown(locked.inode);
        }
        pipeline.media.set_flags(self.volume, 0);
        // The volume may be another file's.
        pipeline.media.fence()
    }
}
