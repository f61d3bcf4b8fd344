#!/usr/bin/env bash
# Runs every step of `make test` and adds up what they say: the last line is
# "N passed, N failed", with ", N skipped" where something could not run here.
#
#   scripts/test.sh
#
# Everything is built once, by one command: built package by package, most crates would be compiled again
# with fewer features. Then the steps run in three rows beside each other, because some of them mostly
# wait. What a step prints is in target/test/STEP.log, and on the screen too if it fails.
set -uo pipefail
cd "$(dirname "$0")/.." || exit

readonly JOBS=${JOBS:-2}
# Optimised like the release, without the link-time pass that each of the many test programs
# would pay for again.
readonly PROFILE=checked
readonly PROGRAMS=${CARGO_TARGET_DIR:-target}/$PROFILE
# A script whose programs are built.
readonly BUILT=(env PROFILE="$PROFILE" BUILT=1)
readonly LOGS=$PWD/target/test
# A line for each step: its name, and how many passed, failed and were skipped.
readonly RESULTS=$LOGS/results
mkdir -p "$LOGS"
rm -f "$LOGS"/*.log
: >"$RESULTS"

# How a test says that it did not run.
readonly SKIPPED='(^|\.\.\. )skipped '

# How many lines of the log $1 match the extended expression $2.
count_lines() { grep -cE "$2" "$1" || true; }

# The sum of the numbers that precede the word $2 in cargo's result lines of the log $1.
sum_results() {
    sed -n "s/^test result:.*[ .] *\([0-9][0-9]*\) $2;.*/\1/p" "$1" | awk '{sum += $1} END {print sum + 0}'
}

# Notes what a step's log counts: cargo's tests, mutants caught or not, checks that said ok. A step
# that counts nothing itself is one check.
note() {
    local name=$1 status=$2 seconds=$3 budget=$4 log=$LOGS/$1.log tests others bad skips said
    skips=$(count_lines "$log" "$SKIPPED")
    tests=$(sum_results "$log" passed)
    others=$(($(count_lines "$log" '(^|\.\.\. )(model )?mutant .*: caught') + $(count_lines "$log" '^ +ok: ')))
    bad=$(($(sum_results "$log" failed) + $(count_lines "$log" '^(model )?mutant .*: SURVIVED')))
    # A step may fail without a test failing: it did not compile, say.
    if [ "$status" -ne 0 ] && [ "$bad" -eq 0 ]; then
        bad=1
    fi
    if [ "$((tests + others + bad + skips))" -eq 0 ]; then
        others=1
    fi
    # A test that skipped itself returned, so cargo counted it among the passed.
    if [ "$tests" -ge "$skips" ]; then
        tests=$((tests - skips))
    fi
    echo "$name $((tests + others)) $bad $skips" >>"$RESULTS"
    if [ "$bad" -eq 0 ]; then
        said=$(grep -E "$SKIPPED" "$log")
    else
        said=$(cat "$log")
    fi
    # In one piece: other steps print too.
    printf '%s--- %s: %s passed, %s failed, %s skipped in %s s of %s\n' \
        "${said:+$said$'\n'}" "$name" "$((tests + others))" "$bad" "$skips" "$seconds" "$budget"
}

# Runs a step and notes what came of it. First its name and its budget in seconds, on two idle cores with the
# other rows beside it: a step that needs more is made shorter, but no step fails by the clock.
step() {
    local name=$1 budget=$2 start=$SECONDS status=0
    shift 2
    echo "==> $name"
    "$@" </dev/null >"$LOGS/$name.log" 2>&1 || status=$?
    note "$name" "$status" "$((SECONDS - start))" "$budget"
}

check() { "$PROGRAMS/forebay-verify" crash "$@"; }

# The checker with faults in it is a program of its own, and what is built last has none.
build_all() {
    cargo build --profile "$PROFILE" -j"$JOBS" --workspace --bin forebay-check-mutants \
        --features forebay-check/mutants &&
        cargo build --profile "$PROFILE" -j"$JOBS" --workspace --all-targets
}

# Kills, power cuts and load: programs that mostly wait for each other.
waiting_steps() {
    step rig 240 "${BUILT[@]}" scripts/rig.sh --quick
    step torture 150 "${BUILT[@]}" scripts/torture.sh --quick
    step soak 90 "${BUILT[@]}" scripts/soak.sh --quick
    # A share of both over a pool on an SSD.
    step torture-ssd 90 "${BUILT[@]}" scripts/torture.sh --medium ssd --operations 2000 --rounds 8 --report target/torture/report-ssd.json fsx kill power bad-days
    # And one over a plain file that is mapped page by page.
    step torture-page-disk 20 "${BUILT[@]}" scripts/torture.sh --medium page-disk --operations 500 --rounds 2 --report target/torture/report-page-disk.json fsx kill
    step soak-ssd 40 "${BUILT[@]}" scripts/soak.sh --medium ssd --quick --seconds 20 --report target/soak-ssd/report.json
    # A pool in memory in front of one on an SSD.
    step soak-stacked 30 "${BUILT[@]}" scripts/soak.sh --stacked --quick --seconds 15 --report target/soak-stacked/report.json
    step ext4 60 env FOREBAY="$PROGRAMS/forebay" scripts/run.sh --smoke
}

tests_and_images() {
    # A shell has what it starts in the background ignore Ctrl-C, which some tests send.
    step tests 420 env --default-signal cargo test --profile "$PROFILE" -j"$JOBS" --workspace --exclude forebay-model --no-fail-fast
    step model 120 cargo test --profile "$PROFILE" -j"$JOBS" -p forebay-model -- --nocapture
    step crash-images 150 check run --images 100000
    for engine in forebay-checksum forebay-mirror forebay-parity; do
        step "crash-images-$engine" 60 check run --engine "$engine" --images 20000
    done
    # Those of the papers change seldom; `make crash` looks at more of them.
    for engine in classic ubj tinca spindle; do
        step "crash-images-$engine" 30 check run --engine "$engine" --images 10000
    done
    step crash-images-ssd 60 check run --engine ssd --images 100000
    step crash-images-ssd-mirror 30 check run --engine ssd-mirror --images 5000 --seconds 30
    step crash-images-stacked 15 check run --engine stacked --images 2500
    for engine in classic ubj tinca spindle; do
        step "crash-images-$engine-cleaner" 15 check run --engine "$engine" --cleaner --images 5000
    done
    step faults 20 "$PROGRAMS/forebay-verify" faults --quick
    step faults-parity 20 "$PROGRAMS/forebay-verify" faults --quick --pools parity
    step faults-checksum 20 "$PROGRAMS/forebay-verify" faults --quick --pools checksum
    step faults-regions 10 "$PROGRAMS/forebay-verify" faults --quick --pools regions
    step crash-images-files 40 check files --images 20000 --seconds 30
    step crash-images-files-ssd 15 check run --engine files-ssd --images 2000 --seconds 30
    step printed 20 check printed
    step traces 20 check trace --seeds 500
}

# The two that have to build more begin with it.
mutants_and_inputs() {
    step fuzz 270 scripts/fuzz.sh --quick
    step loom 180 scripts/loom.sh
    step mutants 420 "$PROGRAMS/forebay-check-mutants" mutants --seeds 1
}

# Ctrl-C reaches this shell only: each row is a process group of its own, which ends with all it runs.
end_rows() {
    trap - INT TERM
    for row in "${rows[@]}"; do
        kill -TERM -- "-$row" 2>/dev/null
    done
    wait
    echo "test: called off" >&2
    exit 130
}

# Runs the functions named, one beside the other.
beside() {
    local row
    rows=()
    for row in "$@"; do
        "$row" &
        rows+=($!)
    done
    for row in "${rows[@]}"; do
        # Steps that fail are noted; a row that fails ended before its last step.
        wait "$row" || echo "rows 0 1 0" >>"$RESULTS"
    done
}

failures() { awk '{failed += $3} END {print failed + 0}' "$RESULTS"; }

build_step() { step build 400 build_all; }

rows=()
set -m
trap end_rows INT TERM
beside build_step
# What does not build leaves nothing to test.
if [ "$(failures)" -eq 0 ]; then
    beside waiting_steps tests_and_images mutants_and_inputs
fi

echo
while read -r name _ bad _; do
    [ "$bad" -eq 0 ] || echo "failed: $name: see target/test/$name.log"
done <"$RESULTS"
awk '{passed += $2; failed += $3; skipped += $4}
    END {printf "%d passed, %d failed%s\n", passed, failed, skipped ? ", " skipped " skipped" : ""}' "$RESULTS"
[ "$(failures)" -eq 0 ]
