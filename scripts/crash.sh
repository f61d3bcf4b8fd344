#!/usr/bin/env bash
# Two million distinct crash images of the release code, a million of the engine of pools on an SSD, 100,000 with the entries in DRAM, of mirrored pools, of each
# engine of the lab with and without the cleaner, and of the file buffer over pools of either kind, the papers' protocols as printed, every mutant, and the digests of what 10,000 scenarios
# store; the report of all is target/crash/report.json.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly JOBS=${JOBS:-2}
readonly REPORT=target/crash/report.json
mkdir -p target/crash
rm -f "$REPORT"

check() {
    cargo run --release -j"$JOBS" --quiet -p forebay-verify -- crash "$@" --report "$REPORT"
}

check run --images "${IMAGES:-2000000}" --seconds "${SECONDS_MAX:-3600}"
for engine in forebay-in-dram forebay-checksum forebay-mirror forebay-parity classic ubj tinca spindle; do
    echo "$engine:"
    check run --engine "$engine" --images "${ENGINE_IMAGES:-100000}" --seconds "${SECONDS_MAX:-3600}"
done
for engine in classic ubj tinca spindle; do
    echo "$engine with the cleaner:"
    check run --engine "$engine" --cleaner --images "${ENGINE_IMAGES:-100000}" --seconds "${SECONDS_MAX:-3600}"
done
echo "ssd:"
check run --engine ssd --images "${SSD_IMAGES:-1000000}" --seconds "${SECONDS_MAX:-3600}"
echo "ssd on two members:"
check run --engine ssd-mirror --images "${FILES_IMAGES:-100000}" --seconds "${SECONDS_MAX:-3600}"
echo "stacked:"
check run --engine stacked --images "${ENGINE_IMAGES:-100000}" --seconds "${SECONDS_MAX:-3600}"
check files --images "${FILES_IMAGES:-100000}" --seconds "${SECONDS_MAX:-3600}"
echo "files over a pool on an SSD:"
check run --engine files-ssd --images "${FILES_IMAGES:-100000}" --seconds "${SECONDS_MAX:-3600}"
check printed
cargo run --release -j"$JOBS" --quiet -p forebay-verify -- crash trace
cargo run --release -j"$JOBS" --quiet -p forebay-check --features mutants -- mutants --report "$REPORT"
