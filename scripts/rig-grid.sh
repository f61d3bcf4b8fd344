#!/usr/bin/env bash
# The block cache study in guests: its grid (target/rig/grid.html with its plots, grid.json, grid.csv), then where a
# request's time goes (layers.html, layers.json, layers.csv).
#
#   scripts/rig-grid.sh [--quick] [--figure 1|4|5|6|7a|7b|8a|8b|9|10|fsync|11]... [--contender NAME]... [--json]
#
# Figures 1, 4, 6 and 10 are of the layers, the others and contenders of the grid. Under an hour, some six
# minutes with --quick. PROFILE=checked builds without the link-time pass.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly PROFILE=${PROFILE:-release}
readonly PROGRAMS=${CARGO_TARGET_DIR:-target}/$PROFILE

both=() grid=() layers=()
while [ $# -gt 0 ]; do
    case "$1" in
    --figure=* | --contender=*) set -- "${1%%=*}" "${1#*=}" "${@:2}" ;;
    --figure | --contender)
        case "$1 ${2:?a name has to follow $1}" in
        "--figure 1" | "--figure 4" | "--figure 6" | "--figure 10") layers+=("$1" "$2") ;;
        *) grid+=("$1" "$2") ;;
        esac
        shift 2
        ;;
    *) both+=("$1") && shift ;;
    esac
done

cargo build --quiet --profile "$PROFILE" -j"${JOBS:-2}" -p forebay-cli -p forebay-rig -p forebay-verify
# What is not asked for by name is left out, unless nothing is.
if [ "${#grid[@]}" -gt 0 ] || [ "${#layers[@]}" -eq 0 ]; then
    "$PROGRAMS/forebay-verify" power grid --forebay "$PROGRAMS/forebay" "${both[@]}" "${grid[@]}"
fi
if [ "${#layers[@]}" -gt 0 ] || [ "${#grid[@]}" -eq 0 ]; then
    "$PROGRAMS/forebay-verify" power layers --forebay "$PROGRAMS/forebay" "${both[@]}" "${layers[@]}"
fi
