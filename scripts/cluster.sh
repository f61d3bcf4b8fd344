#!/usr/bin/env bash
# Engines that keep copies on several machines, with Forebay under each member: their speed, nodes killed in mid-load, pools
# lost. Writes target/cluster/report.json and target/cluster/report.html. Needs root.
#
#   scripts/cluster.sh [--quick] [--only ENGINE,…] [--parts speed,kills,lost-pool] [--kinds KIND,…] [--rounds N]
#                      [--kill-rounds N] [--seconds N] [--disk DIR | --disk-delay-us N]
#
# PROFILE=checked builds without the link-time pass.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly PROFILE=${PROFILE:-release}
readonly PROGRAMS=${CARGO_TARGET_DIR:-target}/$PROFILE

cargo build --quiet --profile "$PROFILE" -j"${JOBS:-2}" -p forebay-cli -p forebay-lab-cli -p forebay-verify
# Replaces the shell, so that Ctrl-C and the exit code are the program's own.
exec "$PROGRAMS/forebay-verify" cluster --forebay "$PROGRAMS/forebay" \
    --laboratory "$PROGRAMS/forebay-lab" "$@"
