//! `FOREBAY_KERNEL`: what it names is used, or no region opens.
//!
//! The choice is made once a process, so each is tried in a process of its own: this program again,
//! with the one test [`a_child_uses_its_kernel`].

use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Output};

use forebay_pmem::{KERNEL_VARIABLE, Kernel, PmemErrorKind, Region, RegionOptions};

const CHILD_VARIABLE: &str = "FOREBAY_TEST_KERNEL_CHILD";

fn child(named: &[u8]) -> Output {
    Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "a_child_uses_its_kernel", "--nocapture"])
        .env(CHILD_VARIABLE, "1")
        .env(KERNEL_VARIABLE, std::ffi::OsStr::from_bytes(named))
        .output()
        .expect("this program runs")
}

/// Says what came of a region and of a sum; does nothing unless it is a child.
#[test]
fn a_child_uses_its_kernel() {
    if std::env::var_os(CHILD_VARIABLE).is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("region");
    match Region::create(&path, 1 << 20, &RegionOptions::default()) {
        Ok(region) => {
            let block = [0x3C; 4096];
            let crc = region.stream_crc32c(4096, &block);
            region.fence().expect("no medium failed");
            assert_eq!(region.crc32c(4096, 4096), crc);
            assert_eq!(forebay_pmem::crc32c(&block), crc);
            println!("uses {}", Kernel::current());
        }
        Err(error) => {
            assert_eq!(error.kind(), PmemErrorKind::Kernel);
            assert!(!path.exists(), "nothing is left behind");
            let opened = Region::open(&path, &RegionOptions::default());
            let refused = opened.expect_err("the same").kind();
            assert_eq!(refused, PmemErrorKind::Kernel);
            println!("refused: {error}");
        }
    }
}

fn said(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}");
    text
}

#[test]
fn each_kernel_that_the_processor_has_can_be_forced_and_the_others_are_refused() {
    for kernel in Kernel::ORDER {
        let said = said(&child(kernel.name().as_bytes()));
        if kernel.is_supported() {
            assert!(said.contains(&format!("uses {kernel}\n")), "{said}");
        } else {
            let refusal = format!("this processor cannot run kernel {kernel}");
            assert!(
                said.contains("refused: ") && said.contains(&refusal),
                "{said}"
            );
        }
    }
}

#[test]
fn a_kernel_that_does_not_exist_is_refused_not_replaced() {
    for named in [&b"avx1024"[..], b"AVX512", b" sse", b"\xff"] {
        let said = said(&child(named));
        assert!(
            said.contains("refused: ")
                && said.contains("unset it")
                && said.contains("there is no kernel")
                && said.contains("portable"),
            "{said}"
        );
    }
}

#[test]
fn without_a_name_the_best_kernel_is_used() {
    let said = said(&child(b""));
    assert!(
        said.contains(&format!("uses {}\n", Kernel::best())),
        "{said}"
    );
}
