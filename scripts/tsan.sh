#!/usr/bin/env bash
# Runs the stress tests under ThreadSanitizer. Needs a nightly Rust.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! rustup toolchain list 2>/dev/null | grep -q nightly; then
    echo "tsan: needs a nightly Rust; install one with: rustup toolchain install nightly" >&2
    exit 1
fi
export RUSTFLAGS="${RUSTFLAGS:-} -Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer"
export TSAN_OPTIONS="halt_on_error=1 suppressions=$PWD/crates/concurrency/tsan-suppressions.txt ${TSAN_OPTIONS:-}"
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/tsan
stress() {
    cargo +nightly test --release -j"${JOBS:-2}" --target x86_64-unknown-linux-gnu \
        -p forebay-concurrency --test stress
}
stress
# The check of the check: a race on purpose must be reported.
if FOREBAY_PLANT_RACE=1 stress >/dev/null 2>&1; then
    echo "tsan: the planted race was not reported" >&2
    exit 1
fi
echo "tsan: no race, and the planted one is reported"
