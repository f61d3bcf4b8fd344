//! The memory against a list of what it gave: by many threads, inside signal handlers, around forks.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use super::*;

/// A few numbers that look random, the same in every run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % below
    }

    fn layout(&mut self) -> Layout {
        // Mostly small ones, as programs ask for; some that the arena maps by themselves.
        let bits = self.next(20);
        let align = 1 << self.next(if bits < 14 { 8 } else { 17 });
        Layout::from_size_align(1 + self.next(1 << bits), align).expect("a layout")
    }
}

/// A block that is full of one byte.
struct Block {
    start: *mut u8,
    layout: Layout,
    byte: u8,
}

// SAFETY: its memory is its own.
unsafe impl Send for Block {}

impl Block {
    fn allocate(memory: &Memory, layout: Layout, byte: u8) -> Block {
        // SAFETY: the layout is not empty, and all that is given may be written and read.
        unsafe {
            let start = match byte.is_multiple_of(2) {
                true => memory.alloc(layout),
                false => {
                    let start = memory.alloc_zeroed(layout);
                    assert!(!start.is_null());
                    let bytes = std::slice::from_raw_parts(start, layout.size());
                    assert!(bytes.iter().all(|byte| *byte == 0));
                    start
                }
            };
            assert!(!start.is_null());
            let mut block = Block {
                start,
                layout,
                byte,
            };
            block.fill(byte);
            block
        }
    }

    fn fill(&mut self, byte: u8) {
        assert_eq!(self.start as usize % self.layout.align(), 0);
        self.byte = byte;
        // SAFETY: so many bytes are its own.
        unsafe { self.start.write_bytes(byte, self.layout.size()) };
    }

    fn check(&self, bytes: usize) {
        // SAFETY: so many bytes are its own, and filled.
        let found = unsafe { std::slice::from_raw_parts(self.start, bytes) };
        assert!(found.iter().all(|byte| *byte == self.byte));
    }

    fn resize(&mut self, memory: &Memory, size: usize) {
        // SAFETY: the block is of that memory and of that layout.
        self.start = unsafe { memory.realloc(self.start, self.layout, size) };
        assert!(!self.start.is_null());
        self.check(size.min(self.layout.size()));
        self.layout = Layout::from_size_align(size, self.layout.align()).expect("a layout");
        self.fill(self.byte);
    }

    fn free(self, memory: &Memory) {
        self.check(self.layout.size());
        // SAFETY: as in `resize`; it is not used any more.
        unsafe { memory.dealloc(self.start, self.layout) };
    }

    fn owner(&self) -> usize {
        // SAFETY: the word before every block.
        unsafe { self.start.cast::<usize>().sub(1).read() }
    }
}

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 8).expect("a layout")
}

fn held() -> u32 {
    HERE.with(|here| here.held.get())
}

/// Allocates, resizes and frees at random; each now and then gives a block to the next thread.
fn churn(memory: &Memory, seed: u64, steps: usize, to: &Sender<Block>, from: &Receiver<Block>) {
    let mut numbers = Numbers(seed);
    let mut blocks = Vec::new();
    for step in 0..steps {
        if blocks.len() < 20 || (blocks.len() < 200 && numbers.next(2) == 0) {
            blocks.push(Block::allocate(memory, numbers.layout(), step as u8));
            continue;
        }
        let mut block: Block = blocks.swap_remove(numbers.next(blocks.len()));
        match numbers.next(4) {
            0 => {
                block.resize(memory, numbers.layout().size());
                blocks.push(block);
            }
            // A thread that is done takes no more of them.
            1 => to.send(block).unwrap_or_else(|left| left.0.free(memory)),
            _ => block.free(memory),
        }
        from.try_iter().for_each(|block| block.free(memory));
    }
    blocks.into_iter().for_each(|block| block.free(memory));
}

#[test]
fn blocks_overlap_or_lose_their_bytes() {
    static OF_ALL: Memory = Memory::new();
    // More threads than arenas: some share.
    let (mut ends, mut threads): (Vec<_>, Vec<_>) =
        ((0..ARENAS + 4).map(|_| channel()).collect(), Vec::new());
    let first = ends[0].0.clone();
    while let Some((_, from)) = ends.pop() {
        let to = threads.len();
        let next = match ends.last() {
            Some((next, _)) => next.clone(),
            None => first.clone(),
        };
        threads.push(thread::spawn(move || {
            churn(&OF_ALL, to as u64, 3000, &next, &from);
            drop(next);
            from.try_iter().for_each(|block| block.free(&OF_ALL));
        }));
    }
    drop(first);
    for thread in threads {
        thread.join().expect("no block was wrong");
    }
    assert_eq!(held(), 0);
}

#[test]
fn threads_share_an_arena_while_others_are_free() {
    static OF_TWO: Memory = Memory::new();
    let owner = || {
        let block = Block::allocate(&OF_TWO, layout(100), 0);
        let owner = block.owner();
        block.free(&OF_TWO);
        owner
    };
    // Other tests' threads take numbers too, but not that many at once.
    let mut owners: Vec<usize> = (0..4 * ARENAS)
        .map(|_| thread::spawn(owner).join().expect("it allocates"))
        .collect();
    owners.sort_unstable();
    owners.dedup();
    assert!(owners.len() > ARENAS / 2, "{owners:?}");
}

#[test]
fn a_block_that_cannot_be_is_not_refused() {
    let memory = Memory::new();
    let most = isize::MAX as usize;
    for (size, align) in [(most, 1), (most - 4096, 16), (most - 8192, 4096)] {
        let layout = Layout::from_size_align(size, align).expect("a layout");
        // SAFETY: the layout is not empty.
        unsafe {
            assert!(memory.alloc(layout).is_null());
            assert!(memory.alloc_zeroed(layout).is_null());
        }
    }
    let block = Block::allocate(&memory, layout(100), 3);
    // SAFETY: the block is of that memory and layout; it stays what it was.
    assert!(unsafe { memory.realloc(block.start, block.layout, most - 7) }.is_null());
    block.free(&memory);
}

/// What a signal handler does that has interrupted the allocator of its own thread.
#[test]
fn a_thread_waits_for_itself() {
    let memory = Memory::new();
    let before = Block::allocate(&memory, layout(100), 1);
    let mut moved = Block::allocate(&memory, layout(100), 2);
    let own = before.owner();
    HERE.with(|here| {
        here.holding(own, || {
            let _interrupted = memory.arenas[own].lock();
            let inside = Block::allocate(&memory, layout(100), 3);
            let other = inside.owner();
            assert_ne!(other, own);
            // The handler may be interrupted there too.
            here.holding(other, || {
                let _interrupted = memory.arenas[other].lock();
                let third = Block::allocate(&memory, layout(100), 4);
                assert!(third.owner() != own && third.owner() != other);
                third.free(&memory);
            });
            moved.resize(&memory, 50);
            moved.resize(&memory, 5000);
            assert_ne!(moved.owner(), own);
            // Lost, but nothing waits.
            before.free(&memory);
            inside.free(&memory);
        });
    });
    moved.free(&memory);
    let after = Block::allocate(&memory, layout(100), 5);
    assert_eq!(after.owner(), own);
    after.free(&memory);
    assert_eq!(held(), 0);
}

#[test]
fn all_are_held_and_a_thread_waits_for_itself() {
    let memory = Memory::new();
    let all = HERE.with(|here| here.held.replace(u32::MAX));
    // SAFETY: the layout is not empty.
    let start = unsafe { memory.alloc(layout(100)) };
    HERE.with(|here| here.held.set(all));
    assert!(start.is_null());
}

/// In a child of `fork`, which has no other thread: allocates from all arenas and frees.
fn use_all_arenas() {
    for number in 0..ARENAS {
        HERE.with(|here| here.own.set(number as u32 + 1));
        let small = Block::allocate(&MEMORY, layout(100), 2);
        assert_eq!(small.owner(), number);
        let large = Block::allocate(&MEMORY, layout(300_000), 3);
        small.free(&MEMORY);
        large.free(&MEMORY);
    }
}

/// What becomes of a child that allocates: a fault of it, or its waiting, ends it by a signal.
fn status_of_child() -> i32 {
    // SAFETY: the child uses that memory alone, and ends without returning.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::alarm(30);
            use_all_arenas();
            libc::_exit(0);
        }
        let mut status = -1;
        libc::waitpid(child, &mut status, 0);
        status
    }
}

#[test]
fn a_child_of_fork_finds_an_arena_locked_or_torn() {
    register_forks();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    thread::scope(|scope| {
        for seed in 0..4 {
            let is_over = &is_over;
            scope.spawn(move || {
                let (to, from) = channel();
                while !is_over.load(Ordering::Relaxed) {
                    churn(&MEMORY, seed, 300, &to, &from);
                }
                from.try_iter().for_each(|block| block.free(&MEMORY));
            });
        }
        // The others go on until they are told that it is over, whatever was found.
        let statuses: Vec<i32> = (0..40).map(|_| status_of_child()).collect();
        is_over.store(true, Ordering::Relaxed);
        assert!(statuses.iter().all(|status| *status == 0), "{statuses:?}");
    });
    assert_eq!(held(), 0);
    // The parent's are free as well.
    use_all_arenas();
}
