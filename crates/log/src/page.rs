//! Pages of memory that a device takes as they are: whole, initialised, aligned to their size.
//!
//! What 1, 16 or 64 pages were in is kept for the next, up to 9 MiB in all: commits want the first two sizes, reads of many blocks all of
//! them, and an allocator gives blocks of an alignment slowly, and back to the system soon.

#![allow(unsafe_code, reason = "the allocator is asked for an alignment")]

use crossbeam_queue::ArrayQueue;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::LazyLock;

/// Bytes of a page, of a block, and the unit of every transfer.
pub const PAGE_BYTES: usize = 4096;

/// Whole pages, aligned to [`PAGE_BYTES`] as `O_DIRECT` asks.
pub struct Pages {
    start: NonNull<u8>,
    count: usize,
    capacity: usize,
}

// SAFETY: it owns its memory as a vector of bytes does; only its methods reach it, by the rules of borrowing.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

fn layout(pages: usize) -> Layout {
    let bytes = pages.checked_mul(PAGE_BYTES);
    let layout = bytes.map(|bytes| Layout::from_size_align(bytes, PAGE_BYTES));
    layout
        .and_then(Result::ok)
        .expect("pages that fit the address space")
}

fn allocate(pages: usize) -> NonNull<u8> {
    if pages == 0 {
        return NonNull::dangling();
    }
    let layout = layout(pages);
    // SAFETY: the layout is not empty.
    let start = unsafe { alloc_zeroed(layout) };
    NonNull::new(start).unwrap_or_else(|| handle_alloc_error(layout))
}

/// Pages of a transaction of several blocks, at first.
const SEVERAL: usize = 16;

const MORE_THAN_SEVERAL: usize = SEVERAL + 1;

/// Pages of a read of many blocks.
const MANY: usize = 64;

/// Memory that was let go of, of this many pages each.
struct Spare {
    pages: usize,
    starts: ArrayQueue<Start>,
}

/// Where memory begins that nobody owns.
struct Start(NonNull<u8>);

// SAFETY: only one thread has it at a time, as the queue sees to; nothing else refers to the memory.
unsafe impl Send for Start {}

static SPARE: LazyLock<[Spare; 3]> = LazyLock::new(|| {
    [(1, 256), (SEVERAL, 64), (MANY, 16)].map(|(pages, most)| Spare {
        pages,
        starts: ArrayQueue::new(most),
    })
});

/// The spare memory of so many pages, if that is a size that is kept.
fn spare(capacity: usize) -> Option<&'static Spare> {
    SPARE.iter().find(|spare| spare.pages == capacity)
}

impl Pages {
    /// Room for so many pages or a few more, none of them used yet: initialised, with bytes that mean nothing.
    fn with_room(pages: usize) -> Pages {
        let capacity = match pages {
            2..=SEVERAL => SEVERAL,
            MORE_THAN_SEVERAL..=MANY => MANY,
            _ => pages,
        };
        let kept = spare(capacity).and_then(|spare| spare.starts.pop());
        Pages {
            start: kept.map_or_else(|| allocate(capacity), |start| start.0),
            count: 0,
            capacity,
        }
    }

    /// So many zeroed pages.
    #[must_use]
    pub fn zeroed(count: usize) -> Pages {
        if !(1..=SEVERAL).contains(&count) {
            // The system's are zeroed as they are touched.
            return Pages {
                start: allocate(count),
                count,
                capacity: count,
            };
        }
        let mut pages = Pages::with_room(count);
        pages.count = count;
        pages.fill(0);
        pages
    }

    /// So many pages, with whatever bytes.
    pub(crate) fn of_any_bytes(count: usize) -> Pages {
        let mut pages = Pages::with_room(count);
        pages.count = count;
        pages
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// As many as their memory has room for.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// One of them.
    #[must_use]
    pub fn page(&self, number: usize) -> &[u8] {
        &self[number * PAGE_BYTES..][..PAGE_BYTES]
    }

    /// One of them, to be changed.
    pub fn page_mut(&mut self, number: usize) -> &mut [u8] {
        &mut self[number * PAGE_BYTES..][..PAGE_BYTES]
    }

    /// One page more with whatever bytes; its number.
    fn grow(&mut self) -> usize {
        if self.count == self.capacity {
            let mut grown = Pages::with_room((self.capacity * 2).max(1));
            grown.count = self.count;
            grown.copy_from_slice(self);
            *self = grown;
        }
        self.count += 1;
        self.count - 1
    }

    /// One zeroed page more; its number.
    pub fn push(&mut self) -> usize {
        let number = self.grow();
        self.page_mut(number).fill(0);
        number
    }

    /// One page more, with these bytes.
    ///
    /// # Panics
    /// They are not those of a page.
    pub fn push_page(&mut self, bytes: &[u8]) {
        let number = self.grow();
        self.page_mut(number).copy_from_slice(bytes);
    }
}

impl Default for Pages {
    fn default() -> Pages {
        Pages::zeroed(0)
    }
}

impl Clone for Pages {
    fn clone(&self) -> Pages {
        let mut clone = Pages::with_room(self.count);
        clone.count = self.count;
        clone.copy_from_slice(self);
        clone
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        if self.capacity == 0 {
            return;
        }
        let start = Start(self.start);
        let left = match spare(self.capacity) {
            Some(spare) => spare.starts.push(start),
            None => Err(start),
        };
        if let Err(start) = left {
            // SAFETY: allocated with this layout, and not freed since.
            unsafe { dealloc(start.0.as_ptr(), layout(self.capacity)) };
        }
    }
}

impl Deref for Pages {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: so many bytes are allocated and initialised; a dangling start goes with none of them.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.count * PAGE_BYTES) }
    }
}

impl DerefMut for Pages {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and borrowed by nobody else.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.count * PAGE_BYTES) }
    }
}

impl std::fmt::Debug for Pages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pages({})", self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_aligned_and_keep_their_bytes_when_more_come() {
        let mut pages = Pages::zeroed(0);
        assert_eq!(pages.len(), 0);
        for number in 0..9 {
            assert_eq!(pages.push(), number);
            assert!(pages.page(number).iter().all(|byte| *byte == 0));
            pages.page_mut(number).fill(number as u8 + 1);
        }
        assert!(pages.as_ptr().addr().is_multiple_of(PAGE_BYTES));
        for number in 0..9 {
            let expected = number as u8 + 1;
            assert!(pages.page(number).iter().all(|byte| *byte == expected));
        }
    }
}
