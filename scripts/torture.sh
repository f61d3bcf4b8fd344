#!/usr/bin/env bash
# Files behind Forebay: used at random, checked against POSIX, with programs and daemons killed, and on
# bad days of the disk. The report is target/torture/report.json; a line for each part goes to standard error.
#
#   scripts/torture.sh [--quick] [--seed N] [--disk DIR] [--json] [PART]...
#
# PROFILE=checked builds without the link-time pass.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly PROFILE=${PROFILE:-release}
readonly PROGRAMS=${CARGO_TARGET_DIR:-target}/$PROFILE

# BUILT=1 is told by `make test`, which builds everything at once.
if [ -z "${BUILT:-}" ]; then
    cargo build --quiet --profile "$PROFILE" -j"${JOBS:-2}" -p forebay-cli -p forebay-preload -p forebay-verify
fi
# Replaces the shell, so that Ctrl-C and the exit code are the program's own.
exec "$PROGRAMS/forebay-verify" torture --forebay "$PROGRAMS/forebay" "$@"
