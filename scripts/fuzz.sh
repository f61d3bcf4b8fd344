#!/usr/bin/env bash
# Runs every fuzz target, or one; a crash leaves its input in fuzz/artifacts.
#
#   scripts/fuzz.sh [--quick] [TARGET [INPUT]]
#
# FUZZ_SECONDS is how long each runs (default 60), FUZZ_SANITIZER the sanitizer (default address, or none).
# --quick builds without one, optimises only what is ours and hot, and runs each for four seconds.
# Needs no cargo-fuzz, which takes as long to install as the targets to build; that works here, too.
set -euo pipefail
cd "$(dirname "$0")/.."
CARGO_TARGET_DIR=$(realpath -m "${CARGO_TARGET_DIR:-target}")/fuzz
export CARGO_TARGET_DIR
cd fuzz

options=(--quiet --release --locked -j"${JOBS:-2}")
sanitizer=${FUZZ_SANITIZER:-address}
seconds=${FUZZ_SECONDS:-60}
if [ "${1:-}" = --quick ]; then
    shift
    sanitizer=none
    seconds=${FUZZ_SECONDS:-4}
    options+=(--config profile.release.opt-level=1 --config profile.release.debug=0
        --config 'profile.release.package."*".opt-level=0')
    for package in forebay forebay-pmem forebay-serve; do
        options+=(--config "profile.release.package.$package.opt-level=1")
    done
fi

# libFuzzer's instrumentation is behind nightly's flags; this lets a stable compiler take them.
export RUSTC_BOOTSTRAP=1
flags="--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4"
flags+=" -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table"
flags+=" -Cllvm-args=-sanitizer-coverage-trace-compares"
[ "$sanitizer" = none ] || flags+=" -Zsanitizer=$sanitizer"
export RUSTFLAGS="${RUSTFLAGS:-} $flags"
# Named, so that the flags are not those of build scripts and macros.
host=$(rustc -vV | sed -n 's/^host: //p')
cargo build "${options[@]}" --target "$host"

readonly PROGRAMS=$CARGO_TARGET_DIR/$host/release
if [ $# -ge 2 ]; then
    cd ..
    exec "$PROGRAMS/$1" "$2"
fi
for target in ${1:-$(sed -n 's/^path = "fuzz_targets\/\(.*\)\.rs"/\1/p' Cargo.toml)}; do
    echo "==> $target, $seconds s"
    mkdir -p "corpus/$target" "artifacts/$target"
    # Of libFuzzer's many lines the last tell how much was tried; a failure shows them all.
    log=$CARGO_TARGET_DIR/$target.log
    if ! "$PROGRAMS/$target" -max_total_time="$seconds" -rss_limit_mb=4096 -print_final_stats=1 \
        -artifact_prefix="artifacts/$target/" "corpus/$target" >"$log" 2>&1; then
        cat "$log"
        exit 1
    fi
    echo "    ok: $target, $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs"
done
