//! The region: words of volumes and inodes, and the content of blocks. Nothing is durable before a fence.

use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use forebay_pmem::{LINE_BYTES, Region, crc32c};

use super::layout::{
    BLOCK_AT, FLAGS_AT, HEADER_WORDS, IN_USE, LBN_AT, Layout, MAGIC, NUMBER_AT, OWNER_AT, PATH_AT,
    PATH_BYTES_MAX, PATH_WORD_AT, SIZE_AT, STATE_AT,
};
use super::options::AutoBahnOptions;

const LINE: u64 = LINE_BYTES as u64;

/// The state of an inode and of its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Free = 0,
    Dirty = 1,
    Clean = 2,
}

/// What an inode says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Inode {
    /// Which volume's it is.
    pub(super) volume: Option<u32>,
    /// Which block of the file.
    pub(super) lbn: u64,
    /// Where the content is.
    pub(super) block: u32,
    /// Bytes of the block that counted when it was switched; zero where the file's size alone says that.
    pub(super) valid: u32,
    /// None where the word is no state.
    pub(super) state: Option<State>,
}

/// What a volume says of its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct VolumeEntry {
    pub(super) path: PathBuf,
    /// Of the file's inode.
    pub(super) number: u64,
    pub(super) size_bytes: u64,
    pub(super) flags: u64,
}

#[derive(Debug)]
pub(super) struct Media {
    region: Region,
    pub(super) layout: Layout,
    flush_content: bool,
}

impl Media {
    /// Divides a region; all volumes unused, all inodes free with a block each. Durable on return.
    pub(super) fn create(region: Region, options: &AutoBahnOptions) -> io::Result<Media> {
        let layout = Layout::new(region.len(), options).ok_or_else(|| {
            refused(
                &region,
                "too small for four blocks, or blocks and inodes of odd sizes",
            )
        })?;
        let media = Media {
            region,
            layout,
            flush_content: options.flush_content,
        };
        media.store_header(&[0; HEADER_WORDS]);
        // Whatever was here is no buffer any more, before its parts change.
        media.fence()?;
        for volume in 0..layout.volumes as u32 {
            media.set_flags(volume, 0);
        }
        for inode in 0..layout.blocks as u32 {
            media.format_inode(inode, inode);
        }
        // The header comes last: it says that all else is there.
        media.fence()?;
        media.store_header(&media.header());
        media.fence()?;
        Ok(media)
    }

    /// Reads the header of one that was made.
    pub(super) fn open(region: Region, options: &AutoBahnOptions) -> io::Result<Media> {
        if region.len() < LINE {
            return Err(refused(&region, "no AutoBahn buffer: it is too small"));
        }
        let words: [u64; HEADER_WORDS] =
            std::array::from_fn(|word| region.load_u64(8 * word as u64));
        let layout = Layout {
            block_bytes: words[1],
            inode_bytes: words[2],
            volumes: words[3],
            blocks: words[4],
        };
        let media = Media {
            region,
            layout,
            flush_content: options.flush_content,
        };
        match words == media.header() && layout.is_sound(media.region.len()) {
            true => Ok(media),
            false => Err(refused(
                &media.region,
                "no AutoBahn buffer: its header says something else; make a new one",
            )),
        }
    }

    fn header(&self) -> [u64; HEADER_WORDS] {
        let Layout {
            block_bytes,
            inode_bytes,
            volumes,
            blocks,
        } = self.layout;
        let mut words = [MAGIC, block_bytes, inode_bytes, volumes, blocks, 0];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        words[HEADER_WORDS - 1] = u64::from(crc32c(&bytes));
        words
    }

    fn store_header(&self, words: &[u64; HEADER_WORDS]) {
        for (at, word) in (0..).step_by(8).zip(words) {
            self.region.store_u64(at, *word);
        }
        self.region.flush(0, LINE_BYTES);
    }

    /// The region: its counters, its path.
    pub(super) fn region(&self) -> &Region {
        &self.region
    }

    /// Returns when all that this thread stored is durable.
    pub(super) fn fence(&self) -> io::Result<()> {
        self.region.fence().map_err(io::Error::other)
    }

    // Volumes.

    pub(super) fn size_bytes(&self, volume: u32) -> u64 {
        self.region.load_u64(self.layout.volume(volume) + SIZE_AT)
    }

    /// Sets the file's size: the commit of an append.
    pub(super) fn set_size_bytes(&self, volume: u32, size_bytes: u64) {
        self.set_volume_word(volume, SIZE_AT, size_bytes);
    }

    pub(super) fn flags(&self, volume: u32) -> u64 {
        self.region.load_u64(self.layout.volume(volume) + FLAGS_AT)
    }

    pub(super) fn set_flags(&self, volume: u32, flags: u64) {
        self.set_volume_word(volume, FLAGS_AT, flags);
    }

    fn set_volume_word(&self, volume: u32, at: u64, value: u64) {
        let at = self.layout.volume(volume) + at;
        self.region.store_u64(at, value);
        self.region.flush(at, 8);
    }

    /// Says whose a volume is, all but that it is in use.
    pub(super) fn describe(&self, volume: u32, entry: &VolumeEntry) -> io::Result<()> {
        let path = entry.path.as_os_str().as_bytes();
        if path.is_empty() || path.len() > PATH_BYTES_MAX {
            let why = format!(
                "{}: a path of {} bytes; a volume has room for {PATH_BYTES_MAX}",
                entry.path.display(),
                path.len()
            );
            return Err(io::Error::new(io::ErrorKind::InvalidFilename, why));
        }
        let at = self.layout.volume(volume);
        let path_word = u64::from(crc32c(path)) | (path.len() as u64) << 32;
        self.region.store(at + PATH_AT, path);
        self.region.flush(at + PATH_AT, path.len());
        let words = [
            (SIZE_AT, entry.size_bytes),
            (NUMBER_AT, entry.number),
            (PATH_WORD_AT, path_word),
        ];
        for (word_at, value) in words {
            self.region.store_u64(at + word_at, value);
        }
        self.region.flush(at, LINE_BYTES);
        Ok(())
    }

    /// Whose a volume in use is; none if it is in use by nobody.
    ///
    /// # Errors
    /// It is in use, and its path is not whole.
    pub(super) fn described(&self, volume: u32) -> io::Result<Option<VolumeEntry>> {
        let flags = self.flags(volume);
        if flags & IN_USE == 0 {
            return Ok(None);
        }
        let at = self.layout.volume(volume);
        let word = |word_at| self.region.load_u64(at + word_at);
        let path_word = word(PATH_WORD_AT);
        let mut path = vec![0; ((path_word >> 32) as usize).min(PATH_BYTES_MAX)];
        self.region.read(at + PATH_AT, &mut path);
        if path.is_empty() || path_word != u64::from(crc32c(&path)) | (path.len() as u64) << 32 {
            let found = format!("damaged: volume {volume} has a path that is not whole");
            return Err(refused(&self.region, &found));
        }
        Ok(Some(VolumeEntry {
            path: std::ffi::OsString::from_vec(path).into(),
            number: word(NUMBER_AT),
            size_bytes: word(SIZE_AT),
            flags,
        }))
    }

    // Inodes.

    pub(super) fn inode(&self, inode: u32) -> Inode {
        let at = self.layout.inode(inode);
        let word = |word_at| self.region.load_u64(at + word_at);
        let block = word(BLOCK_AT);
        Inode {
            volume: word(OWNER_AT).checked_sub(1).map(|volume| volume as u32),
            lbn: word(LBN_AT),
            block: block as u32,
            valid: (block >> 32) as u32,
            state: match word(STATE_AT) {
                0 => Some(State::Free),
                1 => Some(State::Dirty),
                2 => Some(State::Clean),
                _ => None,
            },
        }
    }

    pub(super) fn state(&self, inode: u32) -> Option<State> {
        self.inode(inode).state
    }

    /// Gives a free inode to a block of a volume, dirty: the state last, so that no prefix counts.
    pub(super) fn assign(&self, inode: u32, (volume, lbn): (u32, u64), block_word: u64) {
        let at = self.layout.inode(inode);
        self.region.store_u64(at + OWNER_AT, u64::from(volume) + 1);
        self.region.store_u64(at + LBN_AT, lbn);
        self.region.store_u64(at + BLOCK_AT, block_word);
        self.region.store_u64(at + STATE_AT, State::Dirty as u64);
        self.region.flush(at, INODE_BYTES);
    }

    /// Points a cached block's inode to other content: the state first, so that content that was written is never
    /// called clean before its file has it.
    pub(super) fn switch(&self, inode: u32, block_word: u64) {
        let at = self.layout.inode(inode);
        self.region.store_u64(at + STATE_AT, State::Dirty as u64);
        self.region.store_u64(at + BLOCK_AT, block_word);
        self.region.flush(at, INODE_BYTES);
    }

    /// Points a free inode to another block; not flushed, since whatever makes the inode count flushes its line.
    pub(super) fn point(&self, inode: u32, block: u32) {
        let at = self.layout.inode(inode);
        self.region.store_u64(at + BLOCK_AT, u64::from(block));
    }

    pub(super) fn set_state(&self, inode: u32, state: State) {
        let at = self.layout.inode(inode);
        self.region.store_u64(at + STATE_AT, state as u64);
        self.region.flush(at + STATE_AT, 8);
    }

    /// Takes an inode from its volume; not flushed, as [`Media::point`].
    pub(super) fn reset(&self, inode: u32) {
        let at = self.layout.inode(inode);
        self.region.store_u64(at + STATE_AT, State::Free as u64);
        self.region.store_u64(at + OWNER_AT, 0);
        self.region.store_u64(at + LBN_AT, 0);
    }

    /// Takes a clean inode from a volume that is to be another file's.
    pub(super) fn disown(&self, inode: u32) {
        let at = self.layout.inode(inode);
        self.region.store_u64(at + OWNER_AT, 0);
        self.region.flush(at + OWNER_AT, 8);
    }

    /// Free, with this block; flushed.
    pub(super) fn format_inode(&self, inode: u32, block: u32) {
        self.reset(inode);
        self.point(inode, block);
        self.flush_inode(inode);
    }

    pub(super) fn flush_inode(&self, inode: u32) {
        self.region.flush(self.layout.inode(inode), INODE_BYTES);
    }

    /// Flushes what recovery is about to believe, and did not store itself.
    pub(super) fn flush_found(&self) {
        for volume in 0..self.layout.volumes as u32 {
            let at = self.layout.volume(volume);
            self.region.flush_found(at, LINE_BYTES + PATH_BYTES_MAX);
        }
        let (first, end) = (
            self.layout.inode(0),
            self.layout.inode(self.layout.blocks as u32),
        );
        self.region.flush_found(first, (end - first) as usize);
    }

    // Content.

    /// Puts bytes into a block, from `within` on.
    pub(super) fn put(&self, block: u32, within: u64, data: &[u8]) {
        debug_assert!(within + data.len() as u64 <= self.layout.block_bytes);
        let at = self.layout.block(block) + within;
        if self.flush_content {
            return self.put_flushed(at, data);
        }
        let head = ((at.next_multiple_of(LINE) - at) as usize).min(data.len());
        let (head, rest) = data.split_at(head);
        let (lines, tail) = rest.split_at(rest.len() / LINE_BYTES * LINE_BYTES);
        self.put_flushed(at, head);
        let mut at = at + head.len() as u64;
        if !lines.is_empty() {
            self.region.stream(at, lines);
            at += lines.len() as u64;
        }
        self.put_flushed(at, tail);
    }

    fn put_flushed(&self, at: u64, data: &[u8]) {
        if !data.is_empty() {
            self.region.store(at, data);
            self.region.flush(at, data.len());
        }
    }

    /// Copies bytes out of a block.
    pub(super) fn get(&self, block: u32, within: u64, out: &mut [u8]) {
        debug_assert!(within + out.len() as u64 <= self.layout.block_bytes);
        self.region.read(self.layout.block(block) + within, out);
    }
}

/// Bytes of an inode's words, whatever room it has.
const INODE_BYTES: usize = super::layout::INODE_BYTES_MIN as usize;

/// A block and the bytes of it that count, in the word that switches both at once.
pub(super) fn block_word(block: u32, valid: u32) -> u64 {
    u64::from(block) | u64::from(valid) << 32
}

/// What is wrong with a region, in words.
pub(super) fn refused(region: &Region, found: &str) -> io::Error {
    let message = format!("{}: {found}", Path::display(region.path()));
    io::Error::new(io::ErrorKind::InvalidData, message)
}
