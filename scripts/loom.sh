#!/usr/bin/env bash
# Model-checks the lock-free parts with loom: crates/concurrency, compiled with --cfg loom.
set -euo pipefail
cd "$(dirname "$0")/.."
export RUSTFLAGS="${RUSTFLAGS:-} --cfg loom"
# A target folder of its own: the flag recompiles everything.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/loom
# By name: the included files bring unit tests of their own, which loom cannot run.
cargo test --profile checked -j"${JOBS:-2}" -p forebay-concurrency --lib -- --nocapture --test-threads=1 all_models_hold every_mutant_is_caught
