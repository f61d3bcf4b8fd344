//! Objects in a region, changed by transactions that happen whole or not at all.
//!
//! A transaction goes as one of libpmemobj does: it adds what it is about to change to an undo log, which is fenced, stores in
//! place, and at its end flushes what it stored. Designs that keep checksums and parity in transactions make them there,
//! under the same fence; then the log ends, under another one. One thread uses a heap at a time.

use std::ops::{Deref, Range};

use super::changes::Changes;
use super::error::{Error, Result};
use super::layout::{
    CLASSES, Header, LINE, MAGIC, Object, PAGE, ROOT_END, ROOT_FREE, ROOT_MAGIC, ROOT_PROGRAM,
    ROOT_WORDS, WORD, block_bytes, words_of_block,
};
use super::log::{Kind, Log};
use super::media::Media;
use super::protect::{self, BytesRead};
use super::recover::{self, Recovered};
use super::verify::{self, Verified};

/// A heap that is open.
pub struct Heap {
    media: Media,
    log: Log,
    changes: Changes,
    read: BytesRead,
    transactions: u64,
}

impl Heap {
    /// Makes a heap in a region of zeroes; durable when this returns.
    ///
    /// # Errors
    /// The medium's.
    pub fn create(media: Media) -> Result<Heap> {
        let root = Object::at(media.heap_start());
        let end = root.header() + block_bytes(ROOT_WORDS);
        let words = words_of_block(end - root.header());
        let header = Header { words, check: 0 };
        media.store(root.header(), header.encode());
        media.store(root.word(ROOT_MAGIC), MAGIC);
        media.store(root.word(ROOT_END), end);
        protect::cover_new(&media, (root, root.header()..end));
        // Everything is there before the log is, by which a heap is known.
        media.fence()?;
        let log = Log::create(&media);
        media.fence()?;
        Ok(Heap::of(media, log))
    }

    /// Opens a heap, and undoes the transaction that did not end.
    ///
    /// # Errors
    /// There is no heap; the medium's.
    pub fn open(media: Media) -> Result<(Heap, Recovered)> {
        let mut log = Log::open(&media)?;
        let recovered = recover::undo(&media, &mut log)?;
        Ok((Heap::of(media, log), recovered))
    }

    fn of(media: Media, log: Log) -> Heap {
        Heap {
            media,
            log,
            changes: Changes::default(),
            read: BytesRead::default(),
            transactions: 0,
        }
    }

    /// The region.
    #[must_use]
    pub fn media(&self) -> &Media {
        &self.media
    }

    /// Transactions so far that changed something.
    #[must_use]
    pub fn transactions(&self) -> u64 {
        self.transactions
    }

    /// What was read so far for checksums and parity, in transactions.
    #[must_use]
    pub fn read_for_redundancy(&self) -> BytesRead {
        self.read
    }

    /// One of an object's words.
    #[inline]
    #[must_use]
    pub fn get(&self, object: Object, word: u64) -> u64 {
        self.media.load(object.word(word))
    }

    /// The object that the program finds its own by; none at first.
    #[must_use]
    pub fn program(&self) -> Object {
        Object::from_word(self.get(self.root(), ROOT_PROGRAM))
    }

    fn root(&self) -> Object {
        Object::at(self.media.heap_start())
    }

    /// Runs a transaction: all of what it changed is durable, and covered where the design covers it, when this
    /// returns; or it failed, and nothing was changed.
    ///
    /// # Errors
    /// Those of `work`; the medium's.
    pub fn run<T>(&mut self, work: impl FnOnce(&mut Transaction<'_>) -> Result<T>) -> Result<T> {
        let mut transaction = Transaction { heap: self };
        let worked = work(&mut transaction);
        let ended = match worked {
            Ok(_) => self.commit(),
            Err(_) => self.abort(),
        };
        self.changes.clear();
        // What failed first is what the caller is told.
        let value = worked?;
        ended.map(|()| value)
    }

    fn commit(&mut self) -> Result<()> {
        if self.changes.is_empty() {
            return Ok(());
        }
        let read = protect::cover(&self.media, &mut self.changes);
        self.read = self.read + read;
        // What was changed, its checksums and its parity are durable before the log ends, which would undo it.
        self.media.fence()?;
        self.log.end(&self.media)?;
        self.transactions += 1;
        Ok(())
    }

    fn abort(&mut self) -> Result<()> {
        // As after a crash: nothing tells what had come of it by then.
        recover::undo(&self.media, &mut self.log).map(|_| ())
    }

    /// Compares every checksum and the parity, and repairs what can be: a pass over everything, between transactions.
    ///
    /// # Errors
    /// The medium's. Damage is no error but part of the answer.
    ///
    /// # Panics
    /// The design keeps neither.
    pub fn verify(&mut self) -> Result<Verified> {
        assert!(self.media.design().is_inline());
        verify::verify(&self.media)
    }
}

/// A transaction that is under way. It reads through [`Heap::get`], and sees what it has stored.
pub struct Transaction<'h> {
    heap: &'h mut Heap,
}

impl Deref for Transaction<'_> {
    type Target = Heap;

    fn deref(&self) -> &Heap {
        self.heap
    }
}

impl Transaction<'_> {
    /// Says that words of an object are about to change.
    ///
    /// # Errors
    /// The log is full; the medium's.
    pub fn add(&mut self, object: Object, words: Range<u64>) -> Result<()> {
        let bytes = object.word(words.start)..object.word(words.end);
        match self.note(Kind::Old, (object, bytes))? {
            true => self.fence_log(),
            false => Ok(()),
        }
    }

    /// Stores one of an object's words, which is added where it was not.
    ///
    /// # Errors
    /// As [`Transaction::add`].
    pub fn set(&mut self, object: Object, word: u64, value: u64) -> Result<()> {
        if !self.heap.changes.has(object.word(word)) {
            self.add(object, word..word + 1)?;
        }
        self.heap.media.store(object.word(word), value);
        Ok(())
    }

    /// Stores an object's words from the first one on.
    ///
    /// # Errors
    /// As [`Transaction::add`].
    pub fn fill(&mut self, object: Object, words: &[u64]) -> Result<()> {
        for (word, value) in (0..).zip(words) {
            self.set(object, word, *value)?;
        }
        Ok(())
    }

    /// Makes the object the one that the program finds its own by.
    ///
    /// # Errors
    /// As [`Transaction::add`].
    pub fn set_program(&mut self, object: Object) -> Result<()> {
        self.set(self.root(), ROOT_PROGRAM, object.to_word())
    }

    /// Makes an object of so many words, or some more, and says nothing of what is in them.
    ///
    /// # Errors
    /// There is no room; as [`Transaction::add`].
    pub fn alloc(&mut self, words: u64) -> Result<Object> {
        let bytes = block_bytes(words);
        let full = Error::Full { bytes };
        let (object, word, after) = match self.freed(bytes) {
            Some((object, word)) => {
                // The next one's place is in its first word, which the log has to have.
                let first = object.word(0)..object.word(1);
                self.note(Kind::Old, (object, first))?;
                (object, word, self.get(object, 0))
            }
            None => {
                let (object, after) = self.room(bytes).ok_or(full)?;
                (object, ROOT_END, after)
            }
        };
        let root = self.root();
        self.note(Kind::Old, (root, root.word(word)..root.word(word + 1)))?;
        self.note(
            Kind::Fresh,
            (object, object.header()..object.header() + bytes),
        )?;
        let gap = self.gap_before(object, word);
        if let Some((filler, _)) = gap {
            self.note(Kind::Fresh, (filler, filler.header()..filler.word(0)))?;
        }
        self.fence_log()?;
        let media = &self.heap.media;
        if let Some((filler, header)) = gap {
            media.store(filler.header(), header.encode());
        }
        let words = words_of_block(bytes);
        media.store(object.header(), Header { words, check: 0 }.encode());
        media.store(root.word(word), after);
        Ok(object)
    }

    /// An object of this size that was freed, and the word of the root that has it.
    fn freed(&self, bytes: u64) -> Option<(Object, u64)> {
        let word = class(bytes).map(|class| ROOT_FREE + class)?;
        let object = Object::from_word(self.get(self.root(), word));
        (!object.is_none()).then_some((object, word))
    }

    /// Where an object of this size fits that there has not been, and the end of it.
    fn room(&self, bytes: u64) -> Option<(Object, u64)> {
        let (unit, end) = (self.media.unit_bytes(), self.get(self.root(), ROOT_END));
        let left = end.next_multiple_of(unit) - end;
        let at = match left >= bytes {
            true => end,
            false => end + left,
        };
        let fits = bytes <= unit && at + bytes <= self.media.size_bytes();
        fits.then_some((Object::at(at), at + bytes))
    }

    /// What is left of a unit before an object that begins the next one becomes an object that nobody has, so that
    /// objects follow each other.
    fn gap_before(&self, object: Object, word: u64) -> Option<(Object, Header)> {
        let end = self.get(self.root(), ROOT_END);
        let is_gap = word == ROOT_END && end < object.header();
        is_gap.then(|| {
            let words = words_of_block(object.header() - end);
            (Object::at(end), Header { words, check: 0 })
        })
    }

    /// Gives an object up. Of one that is larger than the largest class nothing is used again.
    ///
    /// # Errors
    /// As [`Transaction::add`].
    pub fn free(&mut self, object: Object) -> Result<()> {
        let header = Header::decode(self.heap.media.load(object.header()));
        let Some(class) = class(header.block_bytes()) else {
            return Ok(());
        };
        let (root, word) = (self.root(), ROOT_FREE + class);
        let next = self.get(root, word);
        let is_noted = [
            self.note(Kind::Old, (root, root.word(word)..root.word(word + 1)))?,
            self.note(Kind::Old, (object, object.word(0)..object.word(1)))?,
        ];
        if is_noted.contains(&true) {
            self.fence_log()?;
        }
        self.set(object, 0, next)?;
        self.set(root, word, object.to_word())
    }

    /// Notes what no change has yet of a run; whether there was any. The log is to be fenced before a store to it.
    fn note(&mut self, kind: Kind, (object, bytes): (Object, Range<u64>)) -> Result<bool> {
        let Heap {
            media,
            log,
            changes,
            ..
        } = &mut *self.heap;
        let is_inline = media.design().is_inline();
        let mut is_noted = false;
        while let Some(missing) = changes.missing(bytes.clone()) {
            // What is made anew after a crash is what the log names. Without checksums nothing has to be.
            if kind == Kind::Old || is_inline {
                log.append(media, kind, (object, missing.clone()))?;
                is_noted = true;
            }
            let is_fresh = kind == Kind::Fresh;
            changes.push(media, (object, missing), [is_inline, is_fresh]);
        }
        Ok(is_noted)
    }

    /// What the log has of words is durable before they are stored to.
    fn fence_log(&mut self) -> Result<()> {
        self.heap.media.fence()
    }
}

/// The class of objects of so many bytes; none of the largest.
fn class(bytes: u64) -> Option<u64> {
    let class = bytes / LINE - 1;
    (class < CLASSES).then_some(class)
}

const _: () = assert!(CLASSES * LINE <= PAGE && WORD * 8 == LINE);
