#!/usr/bin/env bash
# TPC-C on MariaDB on ext4, on a bare disk and on disks that Classic, Tinca and Forebay serve; writes
# target/tpcc/report.json and target/tpcc/report.html. With --figure 12 on slow memory and slow disks; writes
# target/tpcc-media/report.json and target/tpcc-media/report.html.
#
#   scripts/bench-tpcc.sh [--figure 8|12] [--quick] [--only NAME,…] [--rounds N] [--users N,…] [--transactions N] [--disk DIR]
#
# PROFILE=checked builds without the link-time pass.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly PROFILE=${PROFILE:-release}
readonly PROGRAMS=${CARGO_TARGET_DIR:-target}/$PROFILE

cargo build --quiet --profile "$PROFILE" -j"${JOBS:-2}" -p forebay-cli -p forebay-lab-cli -p forebay-verify
# Replaces the shell, so that Ctrl-C and the exit code are the program's own.
exec "$PROGRAMS/forebay-verify" tpcc --forebay "$PROGRAMS/forebay" \
    --laboratory "$PROGRAMS/forebay-lab" "$@"
