#!/usr/bin/env bash
# Model-checks the lock-free parts with loom: crates/concurrency, compiled with --cfg loom.
set -euo pipefail
cd "$(dirname "$0")/.."
export RUSTFLAGS="${RUSTFLAGS:-} --cfg loom"
# A target folder of its own: the flag recompiles everything.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/loom
cargo test --release -j"${JOBS:-2}" -p forebay-concurrency -- --nocapture
