#!/usr/bin/env bash
# Forebay under the kernels of guests: power cuts, then measurements; the report is
# target/rig/report.json.
#
#   scripts/rig.sh [--quick] [--cuts-only] [--seed N] [--round N] [--json]
#
# --quick makes a few cuts of every kind and measures only what is a count. PROFILE=checked builds without the
# link-time pass.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly PROFILE=${PROFILE:-release}
readonly PROGRAMS=${CARGO_TARGET_DIR:-target}/$PROFILE

cuts=()
is_measuring=true
is_full=true
for argument in "$@"; do
    case "$argument" in
    --cuts-only) is_measuring=false ;;
    --quick | --round | --round=*)
        is_measuring=false
        is_full=false
        cuts+=("$argument")
        ;;
    *) cuts+=("$argument") ;;
    esac
done

# BUILT=1 is told by `make test`, which builds everything at once.
if [ -z "${BUILT:-}" ]; then
    cargo build --quiet --profile "$PROFILE" -j"${JOBS:-2}" -p forebay-cli -p forebay-lab-cli -p forebay-rig -p forebay-verify
fi
status=0
"$PROGRAMS/forebay-verify" power cuts --forebay "$PROGRAMS/forebay" "${cuts[@]}" || status=$?
if [ "$status" -eq 0 ]; then
    # Pages of databases: in short those that need no guest and no database.
    torn=(--only loop --quick)
    ! $is_full || torn=()
    "$PROGRAMS/forebay-verify" power torn "${torn[@]}" || status=$?
fi
if [ "$status" -eq 0 ]; then
    failing=()
    $is_full || failing=(--report target/rig/quick.json)
    "$PROGRAMS/forebay-verify" power failing-disk "${failing[@]}" || status=$?
fi
if $is_full && [ "$status" -eq 0 ]; then
    "$PROGRAMS/forebay-verify" power etcd --forebay "$PROGRAMS/forebay" || status=$?
fi
if ! $is_full && [ "$status" -eq 0 ]; then
    # Counts, so they hold on any machine: what ext4 with its data in the journal costs the pool, and
    # what it costs the published designs.
    "$PROGRAMS/forebay-verify" power writes --quick --check \
        --only journal_on --only journal_classic --only journal_tinca \
        --forebay "$PROGRAMS/forebay" --report target/rig/quick.json || status=$?
fi
if $is_measuring && [ "$status" -eq 0 ]; then
    "$PROGRAMS/forebay-verify" power ratios --forebay "$PROGRAMS/forebay" || status=$?
    "$PROGRAMS/forebay-verify" power rivals --forebay "$PROGRAMS/forebay" || status=$?
    "$PROGRAMS/forebay-verify" power writes --check --forebay "$PROGRAMS/forebay" || status=$?
fi
if $is_full && [ "$status" -eq 0 ]; then
    # A program of its own, with a fault in it.
    cargo build --quiet --profile "$PROFILE" -j"${JOBS:-2}" -p forebay-rig --features mutants
    "$PROGRAMS/forebay-rig-mutants" cuts --forebay "$PROGRAMS/forebay" || status=$?
fi
exit "$status"
