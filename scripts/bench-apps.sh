#!/usr/bin/env bash
# Real programs on a disk, in memory and on files that Forebay buffers, in pools in memory and on an SSD; writes
# target/apps/report.json and target/apps/report.html.
#
#   scripts/bench-apps.sh [--quick] [--only PROGRAM,…] [--places PLACE,…] [--rounds N] [--threads N]
#                         [--disk DIR | --disk-delay-us N]
#
# PROFILE=checked builds without the link-time pass.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly PROFILE=${PROFILE:-release}
readonly PROGRAMS=${CARGO_TARGET_DIR:-target}/$PROFILE

cargo build --quiet --profile "$PROFILE" -j"${JOBS:-2}" -p forebay-cli -p forebay-preload \
    -p forebay-verify
# What the mount is compared with.
cargo build --quiet --profile "$PROFILE" -j"${JOBS:-2}" -p forebay-mount --example passthrough
# Replaces the shell, so that Ctrl-C and the exit code are the program's own.
exec "$PROGRAMS/forebay-verify" apps --forebay "$PROGRAMS/forebay" \
    --passthrough "$PROGRAMS/examples/passthrough" "$@"
