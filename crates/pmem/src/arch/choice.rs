//! Which variant of the loops runs: the first of a fixed order that the processor has, or the one
//! that `FOREBAY_KERNEL` names. What it names and the processor lacks is an error, never another
//! variant.

use std::ffi::OsStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::kernel::{Kernel, KernelError, list};
use super::{Kernels, native, portable};

/// The environment variable that names a kernel; empty is as if it were not there.
pub const KERNEL_VARIABLE: &str = "FOREBAY_KERNEL";

impl Kernel {
    /// Whether this processor has what it needs.
    pub fn is_supported(self) -> bool {
        kernels_of(self).is_some()
    }

    /// The first of the order that this processor has, whatever the environment says.
    pub fn best() -> Kernel {
        first_of_the_order(Kernel::is_supported)
    }

    /// What this process starts with: the kernel that [`KERNEL_VARIABLE`] names, or the best.
    ///
    /// # Errors
    /// It names none, or one that the processor lacks. Every region is refused then.
    pub fn chosen() -> Result<Kernel, KernelError> {
        static CHOSEN: OnceLock<Result<Kernel, KernelError>> = OnceLock::new();
        CHOSEN
            .get_or_init(|| {
                let named = std::env::var_os(KERNEL_VARIABLE);
                choose(named.as_deref(), Kernel::is_supported)
            })
            .clone()
    }

    /// What this process uses now.
    pub fn current() -> Kernel {
        kernels().kernel
    }

    /// Has the whole process use it from now on, whatever the environment says: for measurements
    /// that compare kernels on the same memory. A copy that is under way ends as it began.
    ///
    /// # Errors
    /// The processor lacks it; nothing has changed.
    pub fn switch_to(self) -> Result<(), KernelError> {
        let kernels = kernels_of(self).ok_or_else(|| lacking(self, Kernel::is_supported))?;
        // What is there already is not stored again: other threads would lose the line.
        if CURRENT.load(Ordering::Relaxed).cast_const() != std::ptr::from_ref(kernels) {
            CURRENT.store(std::ptr::from_ref(kernels).cast_mut(), Ordering::Relaxed);
        }
        Ok(())
    }
}

/// The loops of a kernel, if the processor has what they need.
pub(super) fn kernels_of(kernel: Kernel) -> Option<&'static Kernels> {
    match kernel {
        Kernel::Portable => Some(&portable::KERNELS),
        kernel => native::kernels_of(kernel),
    }
}

/// The loops in use; null before the first use. Every kernel yields the same bytes and sums, so no
/// thread need see a change at any certain time.
static CURRENT: AtomicPtr<Kernels> = AtomicPtr::new(std::ptr::null_mut());

/// The loops in use.
#[inline]
pub(crate) fn kernels() -> &'static Kernels {
    let current = CURRENT.load(Ordering::Relaxed);
    if current.is_null() {
        return start();
    }
    // SAFETY: only ever set to immutable statics.
    unsafe { &*current }
}

/// Without a valid choice no region opens; what then sums bytes of its own gets the same sums from
/// the best kernel.
#[cold]
fn start() -> &'static Kernels {
    let kernel = Kernel::chosen().unwrap_or_else(|_| Kernel::best());
    let kernels = kernels_of(kernel).expect("chosen among those the processor has");
    // A switch that comes first stays.
    let _ = CURRENT.compare_exchange(
        std::ptr::null_mut(),
        std::ptr::from_ref(kernels).cast_mut(),
        Ordering::Relaxed,
        Ordering::Relaxed,
    );
    kernels
}

fn choose(named: Option<&OsStr>, has: impl Fn(Kernel) -> bool) -> Result<Kernel, KernelError> {
    let Some(named) = named.filter(|named| !named.is_empty()) else {
        return Ok(first_of_the_order(has));
    };
    let in_the_environment = |error: KernelError| {
        KernelError(format!(
            "{KERNEL_VARIABLE}: {error}; name another or unset it"
        ))
    };
    let kernel: Kernel = named
        .to_string_lossy()
        .parse()
        .map_err(in_the_environment)?;
    if has(kernel) {
        return Ok(kernel);
    }
    Err(in_the_environment(lacking(kernel, has)))
}

fn first_of_the_order(has: impl Fn(Kernel) -> bool) -> Kernel {
    let found = Kernel::ORDER.into_iter().find(|kernel| has(*kernel));
    found.expect("the portable kernel needs nothing")
}

fn lacking(kernel: Kernel, has: impl Fn(Kernel) -> bool) -> KernelError {
    KernelError(format!(
        "this processor cannot run kernel {kernel}, which needs {}; it has {}",
        kernel.needs(),
        list(has)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A processor with AVX2 and nothing newer.
    fn has(kernel: Kernel) -> bool {
        !matches!(kernel, Kernel::Avx512 | Kernel::Avx2Vpclmul)
    }

    fn choose(named: &str) -> Result<Kernel, String> {
        super::choose(Some(OsStr::new(named)), has).map_err(|error| error.to_string())
    }

    #[test]
    fn the_best_kernel_that_the_processor_has_is_chosen() {
        assert_eq!(super::choose(None, has), Ok(Kernel::Avx2Crc32));
        assert_eq!(choose(""), Ok(Kernel::Avx2Crc32));
        assert_eq!(super::choose(None, |_| true), Ok(Kernel::ORDER[0]));
    }

    #[test]
    fn every_name_chooses_its_kernel() {
        for kernel in Kernel::ORDER {
            assert_eq!(kernel.name().parse(), Ok(kernel));
        }
        assert_eq!(choose("sse"), Ok(Kernel::Sse));
    }

    #[test]
    fn a_name_that_no_kernel_has_is_refused_with_those_there_are() {
        let said = choose("AVX2").expect_err("names are exact");
        assert_eq!(
            said,
            "FOREBAY_KERNEL: there is no kernel \"AVX2\"; one of avx512, avx2_vpclmul, avx2_crc32, \
             sse, portable; name another or unset it"
        );
    }

    #[test]
    fn a_kernel_that_the_processor_lacks_is_refused_and_no_other_is_taken() {
        let said = choose("avx2_vpclmul").expect_err("it is not there");
        assert_eq!(
            said,
            "FOREBAY_KERNEL: this processor cannot run kernel avx2_vpclmul, which needs AVX2, \
             VPCLMULQDQ, PCLMULQDQ and SSE4.2; it has avx2_crc32, sse, portable; name \
             another or unset it"
        );
    }
}
