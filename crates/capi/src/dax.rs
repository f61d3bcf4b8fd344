//! Mapped regions for programs in C.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::slice;
use std::time::Duration;

use forebay::{Pool, RegionOptions};
use forebay_dax::{DaxPool, DaxRegion, ErrorKind, OpenOptions, RegionState, TrackerKind};

use crate::path_at;

/// What `forebay_dax` is behind its pointer.
pub struct Dax(DaxRegion);

/// The most members that a pool has.
const MEMBERS_MAX: usize = 8;

thread_local! {
    /// What this thread's last call that failed had to say.
    static SAID: RefCell<CString> = RefCell::default();
}

/// A failure of a call: its errno number, and the text that is kept for the caller.
struct Refusal(c_int, String);

impl Refusal {
    fn plain(number: c_int, text: &str) -> Refusal {
        Refusal(number, text.to_owned())
    }
}

impl From<std::io::Error> for Refusal {
    fn from(error: std::io::Error) -> Refusal {
        Refusal(error.raw_os_error().unwrap_or(libc::EIO), error.to_string())
    }
}

impl From<forebay::Error> for Refusal {
    fn from(error: forebay::Error) -> Refusal {
        let number = match error.kind() {
            forebay::ErrorKind::Options(_) => libc::EINVAL,
            _ => libc::EIO,
        };
        Refusal(number, error.to_string())
    }
}

impl From<forebay_dax::Error> for Refusal {
    fn from(error: forebay_dax::Error) -> Refusal {
        let number = match error.kind() {
            ErrorKind::InUse { .. } | ErrorKind::Mapped { .. } => libc::EBUSY,
            ErrorKind::NotFound { .. } => libc::ENOENT,
            ErrorKind::Invalid { .. } | ErrorKind::Tracker { .. } => libc::EINVAL,
            ErrorKind::NeverRested { .. } => libc::EAGAIN,
            ErrorKind::Io { source, .. } => source.raw_os_error().unwrap_or(libc::EIO),
            _ => libc::EIO,
        };
        Refusal(number, error.to_string())
    }
}

/// 0, or the negative errno number of a failure, whose text is kept.
fn code_of(result: Result<(), Refusal>) -> c_int {
    let Err(Refusal(number, text)) = result else {
        return 0;
    };
    let text = CString::new(text.replace('\0', "?")).unwrap_or_default();
    SAID.with_borrow_mut(|said| *said = text);
    -number
}

/// `struct forebay_dax_options`.
#[repr(C)]
pub struct Options {
    period_ms: u64,
    tracker: c_int,
    without_missing: c_int,
    accept_loss: c_int,
}

/// `struct forebay_dax_verified`.
#[repr(C)]
pub struct Verified {
    looked_at: u64,
    skipped_as_written: u64,
    repaired: u64,
    damaged: u64,
    first_damaged: u64,
    unverified: u64,
    first_unverified: u64,
    lost: u64,
    first_lost: u64,
}

/// `struct forebay_dax_status`.
#[repr(C)]
pub struct Status {
    state: c_int,
    tracker: c_int,
    generation: u64,
    unverified_pages: u64,
    lost_pages: u64,
    damaged_pages: u64,
    repaired_pages: u64,
    passes: u64,
    failed_passes: u64,
    waiting_pages: u64,
    window_oldest_ns: u64,
    window_p50_ns: u64,
    window_p99_ns: u64,
    window_max_ns: u64,
}

/// `enum forebay_dax_tracker`, by its number; 0 leaves the choice open.
const TRACKERS: [(c_int, TrackerKind); 4] = [
    (1, TrackerKind::AsyncWriteProtect),
    (2, TrackerKind::SoftDirty),
    (3, TrackerKind::Fault),
    (4, TrackerKind::Compare),
];

fn options_of(options: Option<&Options>) -> Result<OpenOptions, Refusal> {
    let Some(options) = options else {
        return Ok(OpenOptions::default());
    };
    let tracker = match options.tracker {
        0 => None,
        number => {
            let known = TRACKERS.iter().find(|(known, _)| *known == number);
            let unknown = || Refusal::plain(libc::EINVAL, "there is no tracker of this number");
            Some(known.ok_or_else(unknown)?.1)
        }
    };
    let opening = OpenOptions::default()
        .tracker(tracker)
        .without_missing(options.without_missing != 0)
        .accept_loss(options.accept_loss != 0);
    Ok(match options.period_ms {
        0 => opening,
        period_ms => opening.period(Duration::from_millis(period_ms)),
    })
}

/// The paths at pointers.
///
/// # Safety
/// `members` is null or has `count` pointers, each null or to a string.
unsafe fn paths_at(members: *const *const c_char, count: usize) -> Result<Vec<PathBuf>, Refusal> {
    if count == 0 || count > MEMBERS_MAX {
        return Err(Refusal::plain(libc::EINVAL, "a pool has 1 to 8 members"));
    }
    if members.is_null() {
        return Err(Refusal::plain(
            libc::EFAULT,
            "the members are a null pointer",
        ));
    }
    // SAFETY: not null, so by our contract `count` pointers.
    let members = unsafe { slice::from_raw_parts(members, count) };
    let paths = members.iter().map(|member| {
        // SAFETY: by our contract null or a C string.
        Ok(unsafe { path_at(*member) }.map(Path::to_path_buf)?)
    });
    paths.collect()
}

/// Opens a region beside these members.
///
/// # Safety
/// `members` has `count` strings, `name` is one, `options` is null or one, `out` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_dax_open(
    members: *const *const c_char,
    count: usize,
    name: *const c_char,
    options: *const Options,
    out: *mut *mut Dax,
) -> c_int {
    let open = || {
        if name.is_null() || out.is_null() {
            return Err(Refusal::plain(
                libc::EFAULT,
                "the name or out is a null pointer",
            ));
        }
        // SAFETY: by our contract pointers to strings, a string that is not null, and null or options.
        let (paths, name, options) = unsafe {
            (
                paths_at(members, count)?,
                CStr::from_ptr(name),
                options.as_ref(),
            )
        };
        let no_text = |_| Refusal::plain(libc::EINVAL, "the name is not UTF-8");
        let name = name.to_str().map_err(no_text)?;
        let (uuid, paths) = Pool::identity(&paths, &RegionOptions::default())?;
        let paths = paths.iter().map(|path| DaxPool::member_path(path));
        let paths: Vec<PathBuf> = paths.collect::<std::io::Result<_>>()?;
        let pool = DaxPool::new(&paths, uuid);
        let region = DaxRegion::open(&pool, name, &options_of(options)?)?;
        // SAFETY: not null, so by our contract writable.
        unsafe { out.write(Box::into_raw(Box::new(Dax(region)))) };
        Ok(())
    };
    code_of(open())
}

/// Its first byte.
///
/// # Safety
/// `dax` is null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_dax_pointer(dax: *const Dax) -> *mut c_void {
    // SAFETY: by our contract null or open.
    let dax = unsafe { dax.as_ref() };
    dax.map_or(std::ptr::null_mut(), |dax| dax.0.as_ptr().cast())
}

/// How many bytes it has.
///
/// # Safety
/// `dax` is null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_dax_length(dax: *const Dax) -> u64 {
    // SAFETY: by our contract null or open.
    unsafe { dax.as_ref() }.map_or(0, |dax| dax.0.len())
}

/// A region and bytes of it.
///
/// # Safety
/// `dax` is null or open.
unsafe fn part<'a>(
    dax: *const Dax,
    offset: u64,
    len: u64,
) -> Result<(&'a DaxRegion, Range<u64>), Refusal> {
    // SAFETY: by our contract null or open.
    let dax = unsafe { dax.as_ref() };
    let dax = dax.ok_or_else(|| Refusal::plain(libc::EFAULT, "the region is a null pointer"))?;
    let end = offset.checked_add(len);
    let end = end.ok_or_else(|| Refusal::plain(libc::EINVAL, "the end is beyond 64 bits"))?;
    Ok((&dax.0, offset..end))
}

/// Makes what was stored durable and protected.
///
/// # Safety
/// `dax` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_dax_sync(dax: *const Dax, offset: u64, len: u64) -> c_int {
    // SAFETY: by our contract null or open.
    let part = unsafe { part(dax, offset, len) };
    code_of(part.and_then(|(region, range)| Ok(region.sync(range)?)))
}

/// Takes the caller's word for pages that an end without order left in doubt.
///
/// # Safety
/// `dax` is open; `pages` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_dax_accept(
    dax: *const Dax,
    offset: u64,
    len: u64,
    pages: *mut u64,
) -> c_int {
    // SAFETY: by our contract null or open.
    let part = unsafe { part(dax, offset, len) };
    code_of(part.and_then(|(region, range)| {
        let accepted = region.accept(range)?;
        if !pages.is_null() {
            // SAFETY: not null, so by our contract writable.
            unsafe { pages.write(accepted) };
        }
        Ok(())
    }))
}

/// Compares with sums and parity, and repairs.
///
/// # Safety
/// `dax` is open, `out` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_dax_verify(
    dax: *const Dax,
    offset: u64,
    len: u64,
    out: *mut Verified,
) -> c_int {
    // SAFETY: by our contract null or open.
    let part = unsafe { part(dax, offset, len) };
    let verified = part.and_then(|(region, range)| Ok(region.verify(range)?));
    code_of(verified.and_then(|found| {
        let verified = Verified {
            looked_at: found.looked_at,
            skipped_as_written: found.skipped_as_written,
            repaired: found.repaired,
            damaged: found.damaged.len() as u64,
            first_damaged: found.damaged.first().copied().unwrap_or(u64::MAX),
            unverified: found.unverified_pages(),
            first_unverified: first_of(&found.unverified),
            lost: found.lost_pages(),
            first_lost: first_of(&found.lost),
        };
        if !out.is_null() {
            // SAFETY: not null, so by our contract writable.
            unsafe { out.write(verified) };
        }
        match found.damaged.first() {
            None => Ok(()),
            Some(first) => Err(Refusal(
                libc::EIO,
                format!(
                    "{} pages are damaged and their rows do not give them, the first at byte {first}; store them anew",
                    found.damaged.len()
                ),
            )),
        }
    }))
}

/// How it stands.
///
/// # Safety
/// `dax` is open, `out` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_dax_status(dax: *const Dax, out: *mut Status) -> c_int {
    // SAFETY: by our contract null or open.
    let part = unsafe { part(dax, 0, 0) };
    code_of(part.and_then(|(region, _)| {
        if out.is_null() {
            return Err(Refusal::plain(libc::EFAULT, "out is a null pointer"));
        }
        // SAFETY: not null, so by our contract writable.
        unsafe { out.write(status_of(&region.status())) };
        Ok(())
    }))
}

fn first_of(bytes: &[Range<u64>]) -> u64 {
    bytes.first().map_or(u64::MAX, |range| range.start)
}

fn status_of(status: &forebay_dax::Status) -> Status {
    let tracker = TRACKERS.iter().find(|(_, kind)| *kind == status.tracker);
    let (window, counts) = (&status.window, &status.counts);
    Status {
        state: match status.state {
            RegionState::Sealed => 1,
            _ => 0,
        },
        tracker: tracker.map_or(0, |(number, _)| *number),
        generation: status.generation,
        unverified_pages: status.unverified_pages,
        lost_pages: status.lost_pages,
        damaged_pages: status.damaged.len() as u64,
        repaired_pages: counts.repaired_pages,
        passes: counts.passes,
        failed_passes: counts.failed_passes,
        waiting_pages: window.waiting_pages,
        window_oldest_ns: window.oldest_ns,
        window_p50_ns: window.p50_ns,
        window_p99_ns: window.p99_ns,
        window_max_ns: window.max_ns,
    }
}

/// Makes a last pass, and seals.
///
/// # Safety
/// `dax` is null or from `forebay_dax_open`, and not used any more, nor are its bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_dax_close(dax: *mut Dax) -> c_int {
    if dax.is_null() {
        return 0;
    }
    // SAFETY: from a box that we handed out, and by our contract no longer used.
    let dax = unsafe { Box::from_raw(dax) };
    code_of(dax.0.close().map(drop).map_err(Refusal::from))
}

/// What this thread's last call of these that failed had to say; until the next one that fails.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_dax_error() -> *const c_char {
    SAID.with_borrow(|said| said.as_ptr())
}
