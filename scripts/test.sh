#!/usr/bin/env bash
# Runs every step of `make test` and adds up what they say: the last line is
# "N passed, N failed", with ", N skipped" where something could not run here.
set -uo pipefail
cd "$(dirname "$0")/.." || exit

readonly JOBS=${JOBS:-2}
# Optimised like the release, without the link-time pass that each of the many test programs
# would pay for again.
readonly PROFILE=(--profile checked)
target=${CARGO_TARGET_DIR:-target}
logs=$PWD/target/test
mkdir -p "$logs"

passed=0
failed=0
skipped=0
failures=()

# How many lines of the log $1 match the extended expression $2.
count_lines() { grep -cE "$2" "$1" || true; }

# The sum of the numbers that precede the word $2 in cargo's result lines of the log $1.
sum_results() {
    sed -n "s/^test result:.*[ .] *\([0-9][0-9]*\) $2;.*/\1/p" "$1" | awk '{sum += $1} END {print sum + 0}'
}

# Runs a step and adds its counts: cargo's tests, mutants caught or not, checks that said ok. A step
# that counts nothing itself is one check.
step() {
    local name=$1 log=$logs/$1.log start=$SECONDS status=0 tests others bad skips
    shift
    printf '\n==> %s\n' "$name"
    "$@" </dev/null 2>&1 | tee "$log"
    status=${PIPESTATUS[0]}
    skips=$(count_lines "$log" '(^|\.\.\. )skipped ')
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
    [ "$bad" -eq 0 ] || failures+=("$name: see ${log#"$PWD"/}")
    passed=$((passed + tests + others))
    failed=$((failed + bad))
    skipped=$((skipped + skips))
    printf -- '--- %s: %s passed, %s failed, %s skipped in %s s\n' \
        "$name" "$((tests + others))" "$bad" "$skips" "$((SECONDS - start))"
}

step tests cargo test "${PROFILE[@]}" -j"$JOBS" --workspace --exclude forebay-model --no-fail-fast
step model cargo test "${PROFILE[@]}" -j"$JOBS" -p forebay-model -- --nocapture
step loom scripts/loom.sh
step mutants cargo run "${PROFILE[@]}" -j"$JOBS" --quiet -p forebay-check --features mutants -- mutants --seconds 240
step crash-images cargo run "${PROFILE[@]}" -j"$JOBS" --quiet -p forebay-check -- run --images 100000
for engine in classic ubj tinca spindle; do
    step "crash-images-$engine" cargo run "${PROFILE[@]}" -j"$JOBS" --quiet -p forebay-check -- \
        run --engine "$engine" --images 20000
done
step crash-images-files cargo run "${PROFILE[@]}" -j"$JOBS" --quiet -p forebay-check -- \
    files --images 4000 --seconds 60
step printed cargo run "${PROFILE[@]}" -j"$JOBS" --quiet -p forebay-check -- printed
step fuzz env FUZZ_SECONDS=10 FUZZ_SANITIZER=none scripts/fuzz.sh
step soak env PROFILE=checked scripts/soak.sh --quick
step torture env PROFILE=checked scripts/torture.sh --quick
step rig env PROFILE=checked scripts/rig.sh --quick
step ext4 env FOREBAY="$target/checked/forebay" scripts/run.sh --smoke

echo
for failure in "${failures[@]}"; do
    echo "failed: $failure"
done
summary="$passed passed, $failed failed"
[ "$skipped" -eq 0 ] || summary="$summary, $skipped skipped"
echo "$summary"
[ "$failed" -eq 0 ]
