#!/usr/bin/env bash
# Runs every fuzz target for FUZZ_SECONDS (default 60), with the sanitizer FUZZ_SANITIZER (default
# address; none is quicker to build). A crash leaves its input in fuzz/artifacts.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! cargo fuzz --version >/dev/null 2>&1; then
    echo "fuzz: about to install cargo-fuzz with cargo"
    cargo install --quiet --locked cargo-fuzz
fi
# libFuzzer's instrumentation is behind nightly's flags; this lets a stable compiler take them.
export RUSTC_BOOTSTRAP=1
readonly SANITIZER=${FUZZ_SANITIZER:-address}
readonly SECONDS_EACH=${FUZZ_SECONDS:-60}
cargo fuzz build --sanitizer "$SANITIZER"
for target in $(cargo fuzz list); do
    echo "==> $target, $SECONDS_EACH s"
    # Of libFuzzer's many lines the last tell how much was tried; a failure shows them all.
    log=$(mktemp)
    if ! cargo fuzz run --sanitizer "$SANITIZER" "$target" -- \
        -max_total_time="$SECONDS_EACH" -rss_limit_mb=4096 -print_final_stats=1 >"$log" 2>&1; then
        cat "$log"
        rm -f "$log"
        exit 1
    fi
    echo "    ok: $target, $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs"
    rm -f "$log"
done
