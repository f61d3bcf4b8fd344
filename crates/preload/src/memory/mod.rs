//! Memory of our own: the program's allocator may be what a signal handler has interrupted when the
//! handler ends the process, and other allocators call what we interpose.
//!
//! Invariants:
//! - Threads mostly have arenas of their own, so two of them wait for each other only by chance, or where
//!   one frees what the other allocated: a block goes back to its arena, which the word before it names.
//! - A thread never waits for an arena that it holds itself: a signal handler that has interrupted it there
//!   allocates from another one, and what it frees of the first is lost.
//! - A child of `fork` has every arena whole, and none locked.

#![allow(
    unsafe_code,
    reason = "a global allocator is one, and the handlers of fork are registered with libc"
)]

#[cfg(test)]
mod tests;

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering, compiler_fence};
use std::sync::{Mutex, MutexGuard, PoisonError};

use dlmalloc::Dlmalloc;

/// Threads beyond so many share.
const ARENAS: usize = 16;

/// All that the library allocates.
#[cfg_attr(not(test), global_allocator)]
pub static MEMORY: Memory = Memory::new();

pub struct Memory {
    arenas: [Arena; ARENAS],
}

/// Aligned so that no two are in cache lines that the processor fetches together.
#[repr(align(128))]
struct Arena(Mutex<Dlmalloc>);

/// What a thread has; without a destructor, so that its first use allocates nothing, and its last one may
/// be the thread's very end.
struct Here {
    /// One more than the number of its arena; 0 before the first allocation.
    own: Cell<u32>,
    /// A bit for each arena that it has locked, or is about to: several if signal handlers nest.
    held: Cell<u32>,
}

type Guards = [Option<MutexGuard<'static, Dlmalloc>>; ARENAS];

thread_local! {
    static HERE: Here = const { Here { own: Cell::new(0), held: Cell::new(0) } };
    /// The arenas of `MEMORY`, while this thread forks.
    static AT_FORK: Cell<Option<ManuallyDrop<Guards>>> = const { Cell::new(None) };
}

/// Threads that have an arena so far.
static THREADS: AtomicU32 = AtomicU32::new(0);

impl Here {
    /// The number of the thread's own arena, or of the next one that it does not hold.
    fn arena(&self) -> Option<usize> {
        if self.own.get() == 0 {
            let threads = THREADS.fetch_add(1, Ordering::Relaxed);
            self.own.set(threads % ARENAS as u32 + 1);
        }
        let own = self.own.get() as usize - 1;
        let held = self.held.get();
        let mut numbers = (own..ARENAS).chain(0..own);
        numbers.find(|number| held & (1 << number) == 0)
    }

    fn holds(&self, number: usize) -> bool {
        self.held.get() & (1 << number) != 0
    }

    /// Runs `work` with this bit among those held.
    fn holding<R>(&self, number: usize, work: impl FnOnce() -> R) -> R {
        self.held.set(self.held.get() | 1 << number);
        // A signal handler of this thread sees the bit for as long as the lock may be taken.
        compiler_fence(Ordering::SeqCst);
        let result = work();
        compiler_fence(Ordering::SeqCst);
        self.held.set(self.held.get() & !(1 << number));
        result
    }
}

impl Arena {
    fn lock(&self) -> MutexGuard<'_, Dlmalloc> {
        if let Ok(arena) = self.0.try_lock() {
            return arena;
        }
        // SAFETY: the thread's own variable.
        let errno = unsafe { libc::__errno_location() };
        // SAFETY: as before. Waiting sets it, and freeing memory must not: a call of the program may have
        // failed just before.
        let before = unsafe { *errno };
        let arena = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: as before.
        unsafe { *errno = before };
        arena
    }
}

/// What is before a block for the word that names its arena, so that both are aligned.
fn bytes_before(layout: Layout) -> usize {
    layout.align().max(size_of::<usize>())
}

impl Memory {
    pub const fn new() -> Memory {
        Memory {
            arenas: [const { Arena(Mutex::new(Dlmalloc::new())) }; ARENAS],
        }
    }

    /// Allocates a block and what is before it, by `allocate` from its arena.
    ///
    /// # Safety
    /// `allocate` gives null, or that many bytes of that alignment.
    unsafe fn block(
        &self,
        layout: Layout,
        allocate: impl FnOnce(&mut Dlmalloc, usize, usize) -> *mut u8,
    ) -> *mut u8 {
        let before = bytes_before(layout);
        HERE.with(|here| {
            let Some(number) = here.arena() else {
                return ptr::null_mut();
            };
            // No overflow: the size of a layout is at most `isize::MAX`, and so is its alignment.
            let start = here.holding(number, || {
                let mut arena = self.arenas[number].lock();
                allocate(&mut arena, layout.size() + before, before)
            });
            if start.is_null() {
                return start;
            }
            // SAFETY: by our contract the allocation is aligned to a word at least, and that much longer
            // than the block.
            unsafe {
                let block = start.add(before);
                block.cast::<usize>().sub(1).write(number);
                block
            }
        })
    }

    /// Calls `work` with the arena of a block, locked, unless this thread holds it already.
    ///
    /// # Safety
    /// The block is of this memory.
    unsafe fn with_owner<R>(
        &self,
        block: *mut u8,
        work: impl FnOnce(&mut Dlmalloc) -> R,
    ) -> Option<R> {
        // SAFETY: the word before every block of ours.
        let number = unsafe { block.cast::<usize>().sub(1).read() } % ARENAS;
        HERE.with(|here| {
            let is_free = !here.holds(number);
            is_free.then(|| here.holding(number, || work(&mut self.arenas[number].lock())))
        })
    }

    /// Locks all arenas, but those that a signal handler of this thread has interrupted: what it
    /// interrupted goes on in both processes, and unlocks them.
    fn lock_all(&'static self) -> Guards {
        let mut guards = [const { None }; ARENAS];
        HERE.with(|here| {
            for (number, guard) in guards.iter_mut().enumerate() {
                if !here.holds(number) {
                    *guard = Some(self.arenas[number].lock());
                }
            }
        });
        guards
    }
}

// SAFETY: blocks are of the layout asked for and of one arena each, which is used under its lock alone; the
// word that names it is outside of them. Nothing unwinds but a fault of the allocator itself.
unsafe impl GlobalAlloc for Memory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: what `malloc` gives is of the size and alignment asked for.
        unsafe { self.block(layout, |arena, size, align| arena.malloc(size, align)) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: what `calloc` gives is of the size and alignment asked for.
        unsafe { self.block(layout, |arena, size, align| arena.calloc(size, align)) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let before = bytes_before(layout);
        // SAFETY: by our caller's contract the block is ours and of this layout, so what `block` allocated
        // begins that much before it, with that size and alignment. Nothing is freed if the owner is
        // not to be had.
        unsafe {
            self.with_owner(block, |arena| {
                arena.free(block.sub(before), layout.size() + before, before);
            });
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let before = bytes_before(layout);
        // SAFETY: as in `dealloc`; what is before the block moves with it.
        let start = unsafe {
            self.with_owner(block, |arena| {
                let size = layout.size() + before;
                arena.realloc(block.sub(before), size, before, new_size + before)
            })
        };
        match start {
            Some(start) if start.is_null() => start,
            // SAFETY: the allocation is longer than that.
            Some(start) => unsafe { start.add(before) },
            // SAFETY: our caller's contract is that of all of these.
            None => unsafe { self.moved(block, layout, new_size) },
        }
    }
}

impl Memory {
    /// Moves a block to another arena; the first one is lost.
    ///
    /// # Safety
    /// As of [`GlobalAlloc::realloc`].
    #[cold]
    unsafe fn moved(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: by our contract the new size, rounded up to the alignment, does not overflow.
        let new_layout = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
        // SAFETY: by our contract the size is not zero.
        let moved = unsafe { self.alloc(new_layout) };
        if !moved.is_null() {
            let bytes = layout.size().min(new_size);
            // SAFETY: both have so many bytes, and one of them is new.
            unsafe { ptr::copy_nonoverlapping(block, moved, bytes) };
        }
        moved
    }
}

/// Has libc lock the arenas before every fork, and unlock them in both processes.
pub fn register_forks() {
    // SAFETY: the handlers are functions of this library, which is never unloaded.
    unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(after_fork)) };
}

extern "C" fn before_fork() {
    AT_FORK.set(Some(ManuallyDrop::new(MEMORY.lock_all())));
}

extern "C" fn after_fork() {
    drop(AT_FORK.take().map(ManuallyDrop::into_inner));
}
