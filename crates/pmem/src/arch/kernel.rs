//! The variants of the loops: their names, their order, what each needs.

use std::fmt;
use std::str::FromStr;

/// A variant of the copy and checksum loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kernel {
    /// 64-byte registers, carry-less multiplies on four lanes at once.
    Avx512,
    /// 32-byte registers, carry-less multiplies on two lanes at once.
    Avx2Vpclmul,
    /// 32-byte registers, CRC instructions in four lanes.
    Avx2Crc32,
    /// 16-byte registers, carry-less multiplies on one lane.
    Sse,
    /// Any processor: words, and a library for the CRC.
    Portable,
}

impl Kernel {
    /// All of them, the best first. `make bench` measures that this is so
    /// (`kernel_order_stream`, `kernel_order_read`).
    pub const ORDER: [Kernel; 5] = [
        Kernel::Avx512,
        Kernel::Avx2Vpclmul,
        Kernel::Avx2Crc32,
        Kernel::Sse,
        Kernel::Portable,
    ];

    /// What it is called in reports and in the environment.
    pub const fn name(self) -> &'static str {
        match self {
            Kernel::Avx512 => "avx512",
            Kernel::Avx2Vpclmul => "avx2_vpclmul",
            Kernel::Avx2Crc32 => "avx2_crc32",
            Kernel::Sse => "sse",
            Kernel::Portable => "portable",
        }
    }

    pub(super) const fn needs(self) -> &'static str {
        match self {
            Kernel::Avx512 => "AVX-512 F and VL, VPCLMULQDQ, PCLMULQDQ and SSE4.2",
            Kernel::Avx2Vpclmul => "AVX2, VPCLMULQDQ, PCLMULQDQ and SSE4.2",
            Kernel::Avx2Crc32 => "AVX2, PCLMULQDQ and SSE4.2",
            Kernel::Sse => "PCLMULQDQ and SSE4.2",
            Kernel::Portable => "nothing",
        }
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for Kernel {
    type Err = KernelError;

    fn from_str(name: &str) -> Result<Kernel, KernelError> {
        let found = Kernel::ORDER
            .into_iter()
            .find(|kernel| kernel.name() == name);
        found.ok_or_else(|| {
            KernelError(format!(
                "there is no kernel {name:?}; one of {}",
                list(|_| true)
            ))
        })
    }
}

/// A kernel that does not exist, or not on this processor; says which ones there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelError(pub(super) String);

impl fmt::Display for KernelError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for KernelError {}

pub(super) fn list(has: impl Fn(Kernel) -> bool) -> String {
    let names: Vec<&str> = Kernel::ORDER
        .into_iter()
        .filter(|kernel| has(*kernel))
        .map(Kernel::name)
        .collect();
    names.join(", ")
}
