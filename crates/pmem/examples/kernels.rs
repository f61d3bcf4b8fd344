//! How much the checksum costs, with every kernel that the processor has: copies with and without
//! CRC-32C, alternating in one run.
//!
//! `cargo run --release --example kernels [-- MIB [SECONDS]]`: 4 KiB at random places of a region
//! of so many MiB (1024) in /dev/shm, for about so many seconds (8) in all. Each line gives the
//! lower quartile and the median of the rounds, and the median ratio. What is compared with runs
//! with the best kernel.
//!
//! Independent copies overlap: the processor loads the next block while it waits for this one, and
//! the checksum's instructions take room in its window. In the dependent cases the next offset
//! waits for the last block, as it does where a caller looks at what it has read.

use forebay_pmem::{Kernel, Region, RegionOptions, crc32c_combine_delta};
use std::hint::black_box;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const BLOCK_BYTES: usize = 4096;
const DELTA_BYTES: usize = 256;
/// Short beside a time slice, so that the median is of rounds that were not interrupted.
const BLOCKS_PER_ROUND: u64 = 256;

/// The file goes away with the process, however `main` ends.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

struct Case<'a> {
    name: String,
    kernel: Kernel,
    /// The case to compare with.
    reference: usize,
    run: Box<dyn FnMut(u64) + 'a>,
    ns_per_block: Vec<f64>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mib: u64 = arguments.next().map_or(Ok(1024), |text| text.parse())?;
    let seconds: u64 = arguments.next().map_or(Ok(8), |text| text.parse())?;
    let name = format!("forebay-kernels-{}", std::process::id());
    let scratch = Scratch(PathBuf::from("/dev/shm").join(name));
    let region = Region::create(&scratch.0, mib << 20, &RegionOptions::default())?;
    println!("{}: {mib} MiB in /dev/shm", Kernel::best());

    let mut cases = cases(&region);
    let blocks = region.len() / BLOCK_BYTES as u64;
    let mut random = 0x2545_F491_4F6C_DD1D_u64;
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(seconds) {
        for case in &mut cases {
            case.kernel.switch_to()?;
            let round = Instant::now();
            for _ in 0..BLOCKS_PER_ROUND {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                (case.run)(random % blocks * BLOCK_BYTES as u64);
            }
            let ns = round.elapsed().as_nanos() as f64;
            case.ns_per_block.push(ns / BLOCKS_PER_ROUND as f64);
        }
    }
    report(&cases);
    Ok(())
}

fn report(cases: &[Case]) {
    for case in cases {
        let reference = &cases[case.reference];
        let ratios = reference.ns_per_block.iter().zip(&case.ns_per_block);
        println!(
            "{:<36} {:>7.1} ns {:>7.1} ns {:>6.3} x {}",
            case.name,
            at_share(case.ns_per_block.iter().copied(), 0.25),
            at_share(case.ns_per_block.iter().copied(), 0.5),
            at_share(ratios.map(|(reference, own)| reference / own), 0.5),
            reference.name,
        );
    }
}

fn at_share(values: impl Iterator<Item = f64>, share: f64) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[(values.len() as f64 * share) as usize]
}

fn case<'a>(name: impl Into<String>, reference: usize, run: impl FnMut(u64) + 'a) -> Case<'a> {
    Case {
        name: name.into(),
        kernel: Kernel::best(),
        reference,
        run: Box::new(run),
        ns_per_block: Vec::new(),
    }
}

fn cases(region: &Region) -> Vec<Case<'_>> {
    const STREAM: usize = 0;
    const MEMCPY: usize = 2;
    const DEPENDENT_MEMCPY: usize = 4;
    let (mut out, mut out_2) = (new_page(), new_page());
    let fence = || region.fence().expect("no medium failed");
    let mut cases = vec![
        case("stream + fence", STREAM, move |offset| {
            region.stream(offset, &SOURCE.0);
            fence();
        }),
        case("store + flush + fence", STREAM, move |offset| {
            region.store(offset, &SOURCE.0);
            region.flush(offset, BLOCK_BYTES);
            fence();
        }),
        case("memcpy", MEMCPY, memcpy_from(region)),
        case("read", MEMCPY, move |offset| {
            region.read(offset, &mut out.0);
            black_box(&mut out);
        }),
        case(
            "memcpy, dependent",
            DEPENDENT_MEMCPY,
            dependent_memcpy_from(region),
        ),
        case("read, then crc32c", MEMCPY, move |offset| {
            region.read(offset, &mut out_2.0);
            black_box(forebay_pmem::crc32c(&out_2.0));
        }),
        case("crc32c_combine_delta 256 B", STREAM, combine()),
    ];
    let supported = Kernel::ORDER.into_iter().filter(|one| one.is_supported());
    cases.extend(supported.flat_map(|kernel| {
        let (mut out, mut out_2) = (new_page(), new_page());
        let (mut last_crc, zero) = (0, black_box(0));
        let named = |what: &str| format!("{what}, {kernel}");
        let of_kernel = [
            case(named("stream"), STREAM, move |offset| {
                region.stream(offset, &SOURCE.0);
                fence();
            }),
            case(named("stream_crc32c"), STREAM, move |offset| {
                black_box(region.stream_crc32c(offset, &SOURCE.0));
                fence();
            }),
            case(named("two streams, one sum"), STREAM, move |offset| {
                black_box(region.stream_crc32c(offset, &SOURCE.0));
                region.stream(twin_of(region, offset), &SOURCE.0);
                fence();
            }),
            case(named("stream_crc32c_pair"), STREAM, move |offset| {
                let twin = twin_of(region, offset);
                black_box(region.stream_crc32c_pair(offset, region, twin, &SOURCE.0));
                fence();
            }),
            case(named("read_crc32c"), MEMCPY, move |offset| {
                black_box(region.read_crc32c(offset, &mut out.0));
            }),
            case(
                named("read_crc32c, dependent"),
                DEPENDENT_MEMCPY,
                move |offset| {
                    let offset = offset + u64::from(last_crc & zero);
                    last_crc = region.read_crc32c(offset, &mut out_2.0);
                },
            ),
            case(named("crc32c"), MEMCPY, move |offset| {
                black_box(region.crc32c(offset, BLOCK_BYTES));
            }),
        ];
        of_kernel.map(|case| Case { kernel, ..case })
    }));
    cases
}

/// The block half a region away.
fn twin_of(region: &Region, offset: u64) -> u64 {
    let half = region.len() / 2 / BLOCK_BYTES as u64 * BLOCK_BYTES as u64;
    (offset + half) % region.len()
}

fn combine() -> impl FnMut(u64) {
    let delta = [0xC3_u8; DELTA_BYTES];
    move |offset| {
        let tail_len = offset as usize % (BLOCK_BYTES - DELTA_BYTES);
        let new = &SOURCE.0[..DELTA_BYTES];
        let crc = crc32c_combine_delta(offset as u32, black_box(&delta), new, tail_len);
        black_box(crc);
    }
}

/// Aligned as buffers for direct I/O are, which is also what the C library's copy likes best.
#[repr(align(4096))]
struct Page([u8; BLOCK_BYTES]);

static SOURCE: Page = Page([0x5A; BLOCK_BYTES]);

fn new_page() -> Box<Page> {
    Box::new(Page([0; BLOCK_BYTES]))
}

fn memcpy_from(region: &Region) -> impl FnMut(u64) + '_ {
    let mut out = new_page();
    move |offset| {
        memcpy(region, offset, &mut out);
        black_box(&mut out);
    }
}

fn dependent_memcpy_from(region: &Region) -> impl FnMut(u64) + '_ {
    let mut out = new_page();
    let zero = black_box(0);
    move |offset| {
        let last = out.0[BLOCK_BYTES - 1];
        memcpy(region, offset + u64::from(last & zero), &mut out);
    }
}

/// The C library's copy, the reference for loads, from the very same mapping.
#[allow(unsafe_code, reason = "the reference knows no regions, only memory")]
fn memcpy(region: &Region, offset: u64, out: &mut Page) {
    assert!(offset + BLOCK_BYTES as u64 <= region.len());
    // SAFETY: inside the region, and this only thread stores nothing meanwhile.
    unsafe {
        let block = region.as_ptr().add(offset as usize);
        libc::memcpy(out.0.as_mut_ptr().cast(), block.cast(), BLOCK_BYTES);
    }
}
