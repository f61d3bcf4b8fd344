#!/usr/bin/env bash
# Everything `make lint` looks at; stops at the first complaint.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/target/tools/bin:$PATH"

run() {
    echo "==> $*"
    "$@"
}

run cargo fmt --all --check
run cargo clippy -j"${JOBS:-2}" --workspace --all-targets --all-features -- -D warnings
run cargo deny --log-level error check bans licenses sources
run cargo test --quiet -j"${JOBS:-2}" -p forebay-tidy
echo "lint: clean"
