#!/usr/bin/env bash
# The block cache study's grid in one guest: target/rig/grid.html with its plots, grid.json, grid.csv.
#
#   scripts/rig-grid.sh [--quick] [--figure 5|7a|7b|8a|8b|9|fsync|11]... [--contender NAME]... [--json]
#
# Half an hour, three minutes with --quick. PROFILE=checked builds without the link-time pass.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly PROFILE=${PROFILE:-release}
readonly PROGRAMS=${CARGO_TARGET_DIR:-target}/$PROFILE

cargo build --quiet --profile "$PROFILE" -j"${JOBS:-2}" -p forebay-cli -p forebay-rig -p forebay-verify
# Replaces the shell, so that Ctrl-C and the exit code are the program's own.
exec "$PROGRAMS/forebay-verify" power grid --forebay "$PROGRAMS/forebay" "$@"
