#!/usr/bin/env bash
# Daemons under load while things go wrong; the report is target/soak/report.json.
#
#   scripts/soak.sh [--quick] [--seconds N] [--seed N] [--json]
#
# PROFILE=checked builds without the link-time pass.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly PROFILE=${PROFILE:-release}
readonly PROGRAMS=${CARGO_TARGET_DIR:-target}/$PROFILE

# BUILT=1 is told by `make test`, which builds everything at once.
if [ -z "${BUILT:-}" ]; then
    cargo build --quiet --profile "$PROFILE" -j"${JOBS:-2}" -p forebay-cli -p forebay-verify
fi
# Replaces the shell, so that Ctrl-C and the exit code are the program's own.
exec "$PROGRAMS/forebay-verify" soak --forebay "$PROGRAMS/forebay" "$@"
