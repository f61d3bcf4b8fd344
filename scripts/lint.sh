#!/usr/bin/env bash
# Everything `make lint` looks at; stops at the first complaint.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/target/lint-tools/bin:$PATH"

run() {
    echo "==> $*"
    "$@"
}

run cargo fmt --all --check
# The feature ublk reads the kernel's header with libclang, which not every machine has.
if ls /usr/lib/llvm-*/lib/libclang[.-][0-9s]* /usr/lib/*/libclang[.-][0-9s]* >/dev/null 2>&1; then
    features=(--all-features)
else
    echo "lint: skipped the feature ublk: no libclang here (scripts/setup.sh ublk installs it)"
    features=(--features forebay/mutants,forebay-check/mutants)
fi
run cargo clippy -j"${JOBS:-2}" --workspace --all-targets "${features[@]}" -- -D warnings
run env RUSTDOCFLAGS="-D warnings" cargo doc --quiet -j"${JOBS:-2}" --workspace --no-deps
run cargo deny --log-level error check bans licenses sources
run cargo test --quiet -j"${JOBS:-2}" -p forebay-tidy
echo "lint: clean"
