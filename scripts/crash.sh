#!/usr/bin/env bash
# A million distinct crash images of the release code, and every mutant; the report of both is
# target/crash/report.json.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly JOBS=${JOBS:-2}
readonly REPORT=target/crash/report.json
mkdir -p target/crash
rm -f "$REPORT"

cargo run --release -j"$JOBS" --quiet -p forebay-check -- \
    run --images "${IMAGES:-1000000}" --seconds "${SECONDS_MAX:-3600}" --json "$REPORT"
cargo run --release -j"$JOBS" --quiet -p forebay-check --features mutants -- mutants --json "$REPORT"
