//! A region in ordinary memory that keeps what was stored apart from what is durable,
//! so that every image a power cut could leave can be enumerated or sampled.
//!
//! Loads see the *view*: every store at once. The *durable image* holds what a fence has
//! made durable. Between them lie the pending stores, each of which a crash may keep or lose
//! by the rules of the model:
//!
//! * [`ShadowModel::Lines`] (processor caches over persistent memory). Lines of 64 bytes are
//!   independent. Cached stores leave a prefix in program order; the store at its end may
//!   tear at 8 bytes, any subset of its words surviving. Streamed (non-temporal) stores leave
//!   any subset of their 8-byte words. A flush captures the cached stores of a line so far for
//!   the thread that flushes; a fence makes durable what its own thread streamed and captured.
//! * [`ShadowModel::Pages`] (a plain file behind the page cache). Sectors of 512 bytes are
//!   independent, so any subset of the dirty pages may be there. Each sector holds its durable
//!   bytes or those after some prefix of the words stored into it since; a fence (fdatasync)
//!   makes everything before it durable, whichever thread stored it. One that fails leaves what Linux leaves:
//!   every dirty page is clean from then on, and the disk has of it what it happens to have. Loads go
//!   on seeing it, no later fence writes it, until a store to any byte of the page: then the next
//!   good fence writes the whole of it.
//!
//! A page may go bad ([`Shadow::lose_page`]). The next access to it by a region does what the handler of
//! SIGBUS does for a real one, in the same steps, between which other threads may look.
//!
//! The medium may do wrong below good fences as well ([`Shadow::inject`]), and that stays hidden until what
//! caches hold is evicted ([`Shadow::evict`]).

mod crash_state;
mod fault;
mod injection;
mod lost;
mod lost_pages;
mod medium;
mod model;
mod pending;
#[cfg(test)]
mod tests;
mod unit;

pub use crash_state::{CrashState, Distribution};
pub use fault::{Fault, InjectedFault};

use crate::arch;
use lost_pages::LostPages;
use model::{PAGE_BYTES, PAGE_WORDS};
pub use model::{ShadowModel, WORD_BYTES};
use pending::Pending;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a thread is about to do to a shadow region, or has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShadowEventKind {
    /// Before cached stores.
    Store,
    /// Before non-temporal stores.
    Stream,
    /// Before the flush of a range.
    Flush,
    /// Before a fence.
    Fence,
    /// After a fence that succeeded; nothing else happened in between.
    Fenced,
}

/// One call of the hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShadowEvent<'a> {
    /// What is about to happen.
    pub kind: ShadowEventKind,
    /// The thread that does it, as [`thread_id`] numbers them.
    pub thread: u32,
    /// First byte, zero for fences.
    pub offset: u64,
    /// Bytes, zero for fences.
    pub len: u64,
    /// What is stored or streamed; nothing for flushes and fences.
    pub bytes: &'a [u8],
}

/// What is called around every store, stream, flush and fence.
pub type ShadowHook = Arc<dyn Fn(ShadowEvent<'_>) + Send + Sync>;

/// Which fences fail from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum FenceFailure {
    /// None does.
    #[default]
    Never,
    /// So many succeed, then one fails, then they succeed again.
    After(u32),
    /// So many succeed, then all fail.
    From(u32),
}

/// A page of the view. Words are atomic because loads race with stores.
#[repr(C, align(4096))]
struct Page([AtomicU64; PAGE_WORDS]);

struct State {
    pending: Pending,
    fence_failure: FenceFailure,
}

/// See the [module](self).
pub struct Shadow {
    model: ShadowModel,
    len: usize,
    view: Box<[Page]>,
    state: Mutex<State>,
    hook: Mutex<Option<ShadowHook>>,
    is_hooked: AtomicBool,
    lost: LostPages,
}

impl Shadow {
    /// A durable region of `len` zero bytes.
    pub fn new(len: u64, model: ShadowModel) -> Shadow {
        Shadow::from_image(&vec![0; to_index(len)], model)
    }

    /// A region that holds `image`, all of it durable: the medium after a reboot.
    pub fn from_image(image: &[u8], model: ShadowModel) -> Shadow {
        let pages = image.chunks(PAGE_BYTES).map(page_of).collect();
        Shadow {
            model,
            len: image.len(),
            view: pages,
            state: Mutex::new(State {
                pending: Pending::new(image.to_vec(), model),
                fence_failure: FenceFailure::Never,
            }),
            hook: Mutex::new(None),
            is_hooked: AtomicBool::new(false),
            lost: LostPages::default(),
        }
    }

    /// The model that decides what a crash may leave.
    pub fn model(&self) -> ShadowModel {
        self.model
    }

    /// Bytes of the region.
    #[expect(
        clippy::len_without_is_empty,
        reason = "a region of no bytes is of no use"
    )]
    pub fn len(&self) -> u64 {
        self.len as u64
    }

    /// First byte of the memory that loads read, 4096-byte aligned. It may be written only
    /// through this shadow, and read racing with that.
    pub fn view_ptr(&self) -> *mut u8 {
        self.view.as_ptr().cast::<u8>().cast_mut()
    }

    /// Cached stores of `bytes`, in address order.
    pub fn store(&self, offset: u64, bytes: &[u8]) {
        self.put(ShadowEventKind::Store, offset, bytes);
    }

    /// Non-temporal stores of `bytes`.
    pub fn stream(&self, offset: u64, bytes: &[u8]) {
        self.put(ShadowEventKind::Stream, offset, bytes);
    }

    /// Captures, for this thread, what lines of the range hold.
    pub fn flush(&self, offset: u64, len: usize) {
        self.call_hook(ShadowEventKind::Flush, offset, len as u64, &[]);
        self.lock()
            .pending
            .flush(thread_id(), self.range(offset, len));
    }

    /// Makes durable what the model says this thread's fence does.
    ///
    /// # Errors
    /// The injected one: nothing became durable for certain, and of pages nothing will be by the next fence
    /// alone.
    #[expect(
        clippy::result_unit_err,
        reason = "the region knows what a failed fence means"
    )]
    pub fn fence(&self) -> Result<(), ()> {
        self.call_hook(ShadowEventKind::Fence, 0, 0, &[]);
        {
            let mut state = self.lock();
            if state.fence_failure.strikes() {
                state.pending.fail_fence();
                return Err(());
            }
            state.pending.fence(thread_id());
        }
        self.call_hook(ShadowEventKind::Fenced, 0, 0, &[]);
        Ok(())
    }

    /// Says that all threads so far have ended, as when their process is killed. What they streamed has
    /// left their processors' buffers, so that from now on a flush by any thread captures it.
    pub fn end_threads(&self) {
        self.lock().pending.end_threads();
    }

    /// What a crash at this moment could leave.
    pub fn crash_state(&self) -> CrashState {
        self.lock().pending.crash_state()
    }

    /// What a crash at this moment could leave, and what `other` tells of the same moment: nothing is
    /// stored here while it looks. It must not call into this region.
    pub fn crash_state_with<T>(&self, other: impl FnOnce() -> T) -> (CrashState, T) {
        let state = self.lock();
        let other = other();
        (state.pending.crash_state(), other)
    }

    /// Refills `state` with what a crash at this moment could leave, reusing its memory.
    pub fn crash_state_into(&self, state: &mut CrashState) {
        self.lock().pending.crash_state_into(state);
    }

    /// Sets or clears what is called, on the acting thread and with no lock held, before each
    /// store, stream, flush and fence takes effect and after each fence.
    pub fn set_hook(&self, hook: Option<ShadowHook>) {
        let is_hooked = hook.is_some();
        *lock(&self.hook) = hook;
        self.is_hooked.store(is_hooked, Ordering::Release);
    }

    /// Makes fences fail.
    pub fn set_fence_failure(&self, failure: FenceFailure) {
        self.lock().fence_failure = failure;
    }

    fn put(&self, kind: ShadowEventKind, offset: u64, bytes: &[u8]) {
        let range = self.range(offset, bytes.len());
        self.call_hook(kind, offset, bytes.len() as u64, bytes);
        let mut state = self.lock();
        match <[u8; 16]>::try_from(bytes) {
            Ok(pair) if offset.is_multiple_of(16) => self.write_view_pair(range.start, pair),
            _ => self.write_view(range.start, bytes),
        }
        let streamed = kind == ShadowEventKind::Stream;
        state
            .pending
            .store(thread_id(), streamed, range, |word| self.load_word(word));
    }

    fn write_view(&self, start: usize, bytes: &[u8]) {
        let mut at = start;
        let mut rest = bytes;
        while !rest.is_empty() {
            let within = at % WORD_BYTES;
            let (now, later) = rest.split_at(rest.len().min(WORD_BYTES - within));
            let mut word = self.load_word(at / WORD_BYTES).to_ne_bytes();
            word[within..within + now.len()].copy_from_slice(now);
            // Release: a thread that loads a word acquires all that was stored before it.
            self.word(at / WORD_BYTES)
                .store(u64::from_ne_bytes(word), Ordering::Release);
            at += now.len();
            rest = later;
        }
    }

    /// A 16-byte store is one store for every thread that loads it, as it is on the media.
    #[allow(
        unsafe_code,
        reason = "there is no stable safe 16-byte atomic, and two 8-byte ones could be seen apart"
    )]
    fn write_view_pair(&self, start: usize, pair: [u8; 16]) {
        let word = start / WORD_BYTES;
        let words = &self.view[word / PAGE_WORDS].0[word % PAGE_WORDS..][..2];
        let target = words.as_ptr().cast::<u8>().cast_mut();
        // SAFETY: two adjacent atomics, aligned to 16 bytes since `start` is, alive for this call
        // and never accessed but atomically.
        unsafe {
            arch::store_u128(arch::has_wide_atomics(), target, u128::from_ne_bytes(pair));
        }
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        &self.view[index / PAGE_WORDS].0[index % PAGE_WORDS]
    }

    fn load_word(&self, index: usize) -> u64 {
        self.word(index).load(Ordering::Relaxed)
    }

    fn range(&self, offset: u64, len: usize) -> std::ops::Range<usize> {
        let start = to_index(offset);
        let end = start
            .checked_add(len)
            .expect("the end of a range fits usize");
        assert!(
            end <= self.len,
            "{start}..{end} lies outside a shadow region of {} bytes",
            self.len
        );
        start..end
    }

    fn call_hook(&self, kind: ShadowEventKind, offset: u64, len: u64, bytes: &[u8]) {
        if !self.is_hooked.load(Ordering::Acquire) {
            return;
        }
        let hook = lock(&self.hook).clone();
        if let Some(hook) = hook {
            hook(ShadowEvent {
                kind,
                thread: thread_id(),
                offset,
                len,
                bytes,
            });
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl FenceFailure {
    fn strikes(&mut self) -> bool {
        match self {
            FenceFailure::Never => false,
            FenceFailure::After(0) => {
                *self = FenceFailure::Never;
                true
            }
            FenceFailure::From(0) => true,
            FenceFailure::After(left) | FenceFailure::From(left) => {
                *left -= 1;
                false
            }
        }
    }
}

/// This thread's number in [`ShadowEvent`]; never reused.
pub fn thread_id() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    thread_local! {
        static ID: u32 = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    ID.with(|id| *id)
}

fn page_of(bytes: &[u8]) -> Page {
    let mut padded = [0; PAGE_BYTES];
    padded[..bytes.len()].copy_from_slice(bytes);
    let (words, _) = padded.as_chunks();
    Page(std::array::from_fn(|at| {
        AtomicU64::new(u64::from_ne_bytes(words[at]))
    }))
}

fn to_index(offset: u64) -> usize {
    usize::try_from(offset).expect("a shadow region fits the address space")
}

/// A hook that panics (a checker that gives up) leaves nothing half done behind the locks.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
