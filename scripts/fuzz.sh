#!/usr/bin/env bash
# Runs every fuzz target for FUZZ_SECONDS (default 60). A crash leaves its input in fuzz/artifacts.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! cargo fuzz --version >/dev/null 2>&1; then
    echo "fuzz: about to install cargo-fuzz with cargo"
    cargo install --quiet --locked cargo-fuzz
fi
# libFuzzer's instrumentation is behind nightly's flags; this lets a stable compiler take them.
export RUSTC_BOOTSTRAP=1
for target in $(cargo fuzz list); do
    echo "==> $target"
    cargo fuzz run "$target" -- -max_total_time="${FUZZ_SECONDS:-60}" -rss_limit_mb=4096
done
