#!/usr/bin/env bash
# The main job on real data: a real ext4 on a disk that Forebay caches, its daemon killed in the
# middle of real programs, and everything that was acknowledged verified afterwards.
#
#   scripts/run.sh            the whole thing, with a table and target/run/report.json
#   scripts/run.sh --smoke    the short form that `make test` runs: no measurements
#
# Environment: FOREBAY  the command (default target/release/forebay)
#              POOL     file of the pool (default one in /dev/shm; a plain file works anywhere)
#
# Leaves no mount, loop device, socket or process behind, also when interrupted.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PATH:/usr/sbin:/sbin" LC_ALL=C

smoke=false
[ "${1:-}" != --smoke ] || smoke=true
forebay=${FOREBAY:-target/release/forebay}
pool=${POOL:-/dev/shm/forebay-run.$$}
# What POOL lies on: page (mapped) or ssd.
medium=${MEDIUM:-page}
work=$PWD/target/run
disk_bytes=$((1 << 30))
pool_bytes=$((512 << 20))
fio_seconds=4
fio_rounds=3
run_seconds=6
crates_max=200
if $smoke; then
    work=$PWD/target/run-smoke
    disk_bytes=$((256 << 20))
    pool_bytes=$((16 << 20)) # small, so that it evicts and throttles
    run_seconds=2
    crates_max=8
fi

daemon=""
writers=()
loops=()
checks=0

say() { printf '%s\n' "$*"; }
step() { printf '\n==> %s\n' "$*"; }
die() {
    say "run: $*" >&2
    exit 1
}
passed() {
    checks=$((checks + 1))
    say "    ok: $*"
}

# Waits up to $1 times 20 ms for the rest of the arguments to succeed.
wait_for() {
    local tries=$1
    shift
    while ! "$@" >/dev/null 2>&1; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || return 1
        sleep 0.02
    done
}

is_gone() { ! kill -0 "$1" 2>/dev/null; }

detach_all() {
    local loop
    for point in "$work/ext4" "$work/bare"; do
        if mountpoint -q "$point"; then
            umount "$point" 2>/dev/null || umount -l "$point"
        fi
    done
    # An interrupted losetup attached a device whose name was not noted: hence the list by file too.
    for loop in "${loops[@]}" $(losetup -ln -O NAME,BACK-FILE | awk -v work="$work/" 'index($2, work) == 1 {print $1}'); do
        losetup -d "$loop" 2>/dev/null || true
    done
    loops=()
}

clean_up() {
    local status=$?
    trap '' INT TERM HUP
    set +e
    if [ "${#writers[@]}" -gt 0 ]; then
        kill "${writers[@]}" 2>/dev/null
        wait "${writers[@]}" 2>/dev/null
    fi
    detach_all
    # The daemon is the one job that is left, also when it was interrupted before it was noted.
    for daemon in $(jobs -p); do
        kill "$daemon" 2>/dev/null
        wait_for 250 is_gone "$daemon" || kill -9 "$daemon" 2>/dev/null
        wait "$daemon" 2>/dev/null
    done
    mountpoint -q "$work/fuse" && umount -l "$work/fuse"
    # A dead mount is no mountpoint to mountpoint(1).
    grep -q " $work/fuse fuse " /proc/self/mounts && umount -l "$work/fuse"
    rm -f "$pool" "$pool.sock" "$work/disk.img" "$work/disk.img.forebay" "$work/bare.img"
    case "$status" in
    0) ;;
    130 | 143) say "run: interrupted; everything is put away" >&2 ;;
    *) say "run: failed; the daemon's messages are in $work/daemon.log" >&2 ;;
    esac
    exit "$status"
}

start_daemon() {
    # A session of its own, so that Ctrl-C reaches this script alone and it can end things in order.
    setsid "$forebay" serve --pool "$pool" --backing "$work/disk.img" --fuse "$work/fuse" \
        >>"$work/daemon.log" 2>&1 </dev/null &
    daemon=$!
    wait_for 1500 test -e "$work/fuse/disk" || die "the daemon did not come up"
}

stop_daemon() {
    kill "$daemon"
    wait "$daemon" || die "the daemon did not end cleanly"
    daemon=""
}

# Attaches a loop device to $1 and names it in $loop.
attach() {
    loop=$(losetup --find --show --direct-io=on "$1" 2>/dev/null || losetup --find --show "$1")
    loops+=("$loop")
}

mount_ext4() {
    attach "$work/fuse/disk"
    mount -t ext4 "$loop" "$work/ext4"
}

check_ext4() { # what it is, device
    e2fsck -fn "$2" >"$work/e2fsck.log" 2>&1 || die "e2fsck found damage on $1: see $work/e2fsck.log"
    passed "e2fsck -fn is clean on $1"
}

unpack_sources() {
    local archive count=0
    mkdir "$work/ext4/sources"
    for archive in "${CARGO_HOME:-$HOME/.cargo}"/registry/cache/*/*.crate; do
        [ -e "$archive" ] || break
        tar -xzf "$archive" -C "$work/ext4/sources"
        count=$((count + 1))
        [ "$count" -lt "$crates_max" ] || break
    done
    if [ "$count" -eq 0 ]; then
        cp -r crates docs "$work/ext4/sources/"
    fi
    sync -f "$work/ext4"
    (cd "$work/ext4" && find sources -type f -print0 | xargs -0 sha256sum) >"$work/sources.sha256"
    say "    $(wc -l <"$work/sources.sha256") files of $count crates, $(du -sh "$work/ext4/sources" | cut -f1)"
}

# One SQLite transaction a row; a number is printed only after its commit was acknowledged. Only
# EXTRA syncs the directory too, without which SQLite promises no durability of the last commit.
write_rows() {
    local number=0
    (
        say "PRAGMA synchronous=EXTRA; CREATE TABLE rows(number INTEGER PRIMARY KEY, content TEXT);"
        while number=$((number + 1)); do
            say "INSERT INTO rows VALUES($number, hex(randomblob(64))); SELECT $number;"
        done
    ) 2>/dev/null | sqlite3 -bail "$work/ext4/rows.db" >"$work/rows.acknowledged" 2>"$work/rows.log"
}

# One file at a time: written, synced, and only then noted with its checksum.
write_files() {
    local number=0
    mkdir "$work/ext4/files"
    while number=$((number + 1)); do
        head -c $((RANDOM + 1)) /dev/urandom >"$work/content"
        dd if="$work/content" of="$work/ext4/files/$number" conv=fsync bs=64k status=none 2>/dev/null || return 0
        printf '%s  files/%s\n' "$(sha256sum <"$work/content" | cut -d' ' -f1)" "$number" >>"$work/files.sha256"
    done
}

verify_contents() { # directory, what it is
    local row_count
    (cd "$1" && sha256sum --quiet -c "$work/sources.sha256" "$work/files.sha256") ||
        die "an acknowledged file differs on $2"
    passed "all $(cat "$work/sources.sha256" "$work/files.sha256" | wc -l) acknowledged files verify on $2"
    cp "$1"/rows.db* "$work/"
    [ "$(sqlite3 "$work/rows.db" 'PRAGMA integrity_check')" = ok ] || die "SQLite finds damage on $2"
    row_count=$(sqlite3 "$work/rows.db" \
        "SELECT count(*) FROM rows WHERE number <= $(tail -n 1 "$work/rows.acknowledged")")
    [ "$row_count" -eq "$(wc -l <"$work/rows.acknowledged")" ] || die "acknowledged rows are missing on $2"
    passed "all $row_count acknowledged SQLite rows are there on $2"
    rm -f "$work"/rows.db*
}

# Fsync latency of 4 KiB random overwrites in a file on the file system $1; JSON to $2.
measure_fsync() {
    fio --name=fsync --filename="$1/fio.data" --size=64m --rw=randwrite --bs=4k --fsync=1 \
        --ioengine=sync --time_based --runtime="$fio_seconds" --randrepeat=0 \
        --output-format=json --output="$2" >/dev/null
}

percentile_us() { # percentile, files
    local percentile=$1
    shift
    # The median of the rounds: one slow moment of the disk is not the disk.
    jq -s --arg p "$percentile" \
        'map(.jobs[0].sync.lat_ns.percentile[$p] / 1000) | sort | .[length / 2 | floor]' "$@"
}

measure() {
    local round
    step "fsync latency, Forebay and the bare image in turn ($fio_rounds rounds of $fio_seconds s each)"
    truncate -s "$disk_bytes" "$work/bare.img"
    attach "$work/bare.img"
    mkfs.ext4 -q -F "$loop"
    mount -t ext4 "$loop" "$work/bare"
    for round in $(seq "$fio_rounds"); do
        measure_fsync "$work/ext4" "$work/fio-forebay-$round.json"
        measure_fsync "$work/bare" "$work/fio-bare-$round.json"
        say "    round $round of $fio_rounds done"
    done
    umount "$work/bare"
    losetup -d "$loop"
    rm "$work/bare.img" "$work/ext4/fio.data"
    "$forebay" flush "$pool" >/dev/null
    "$forebay" stat "$pool" --json >"$work/stat.json"
}

report() {
    local nvm disk p50 p99 bare50 bare99
    p50=$(percentile_us 50.000000 "$work"/fio-forebay-*.json)
    p99=$(percentile_us 99.000000 "$work"/fio-forebay-*.json)
    bare50=$(percentile_us 50.000000 "$work"/fio-bare-*.json)
    bare99=$(percentile_us 99.000000 "$work"/fio-bare-*.json)
    nvm=$(jq '.counters.bytes / .totals.payload_bytes' "$work/stat.json")
    disk=$(jq '([.volumes[].backing.blocks_written] | add) / (.totals.payload_bytes / 4096)' "$work/stat.json")
    step "result"
    printf '    %-42s %12s %12s\n' "" "Forebay" "bare image"
    printf '    %-42s %9.0f us %9.0f us\n' "fsync latency, median" "$p50" "$bare50"
    printf '    %-42s %9.0f us %9.0f us\n' "fsync latency, 99th percentile" "$p99" "$bare99"
    printf '    %-42s %12.3f %12s\n' "NVM bytes written per byte written" "$nvm" "-"
    printf '    %-42s %12.3f %12s\n' "disk blocks written per block written" "$disk" "1.000"
    printf '    %-42s %9.0f ms\n' "recovery and restart after SIGKILL" "$restart_ms"
    jq -n --argjson p50 "$p50" --argjson p99 "$p99" --argjson b50 "$bare50" --argjson b99 "$bare99" \
        --argjson nvm "$nvm" --argjson disk "$disk" --argjson restart "$restart_ms" \
        --argjson checks "$checks" --arg hash "$(git rev-parse HEAD 2>/dev/null || echo unknown)" '[
        {name: "fsync_p50_forebay", value: $p50, unit: "us"},
        {name: "fsync_p99_forebay", value: $p99, unit: "us"},
        {name: "fsync_p50_bare", value: $b50, unit: "us"},
        {name: "fsync_p99_bare", value: $b99, unit: "us"},
        {name: "nvm_bytes_per_payload_byte", value: $nvm, unit: "ratio"},
        {name: "disk_blocks_per_block_written", value: $disk, unit: "ratio"},
        {name: "restart_after_kill", value: $restart, unit: "ms"},
        {name: "checks_passed", value: $checks, unit: "count"},
        {name: "commit_hash", value: $hash}]' >"$work/report.json"
    say "    written to ${work#"$PWD"/}/report.json"
}

[ -x "$forebay" ] || die "$forebay is not built; run cargo build --release -p forebay-cli"
if [ "$(id -u)" -ne 0 ] || [ ! -e /dev/fuse ] || ! losetup -f >/dev/null 2>&1; then
    say "run: not root, or no FUSE or loop device here: showing the same over the library instead"
    mkdir -p "$work"
    trap 'rm -f "$pool" "$work"/demo.*' EXIT
    "$forebay" demo --pool "$pool" --directory "$work"
    exit
fi

trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
rm -rf "$work"
mkdir -p "$work/fuse" "$work/ext4" "$work/bare"
: >"$work/files.sha256"

step "a pool and a backing image"
"$forebay" create "$pool" --size "$pool_bytes" --medium "$medium"
truncate -s "$disk_bytes" "$work/disk.img"

step "the disk through FUSE, a real ext4 on it through loop"
start_daemon
attach "$work/fuse/disk"
mkfs.ext4 -q -F "$loop"
mount -t ext4 "$loop" "$work/ext4"

step "a real source tree"
unpack_sources
$smoke || measure

step "SQLite and a file writer, each sync awaited; the daemon is killed after $run_seconds s"
write_rows &
writers+=($!)
write_files &
writers+=($!)
sleep "$run_seconds"
{
    kill -9 "$daemon"
    wait "$daemon" || true
} 2>/dev/null
daemon=""
# They end by themselves: their next write fails.
wait "${writers[@]}" || true
writers=()
detach_all
for acknowledged in rows.acknowledged files.sha256; do
    [ -s "$work/$acknowledged" ] || die "nothing was acknowledged before the kill: $acknowledged is empty"
done
say "    acknowledged by then: $(wc -l <"$work/rows.acknowledged") SQLite rows, $(wc -l <"$work/files.sha256") files"

step "start again: recovery, then the file system's own journal"
started=$(date +%s%N)
start_daemon
restart_ms=$((($(date +%s%N) - started) / 1000000))
mount_ext4
umount "$work/ext4"
check_ext4 "the recovered disk" "$loop"
mount -t ext4 "$loop" "$work/ext4"
verify_contents "$work/ext4" "the recovered disk"

step "drain, stop, and look at the image without Forebay"
umount "$work/ext4"
losetup -d "$loop"
"$forebay" flush "$pool" >/dev/null
stop_daemon
attach "$work/disk.img"
check_ext4 "the bare image" "$loop"
mount -t ext4 -o ro "$loop" "$work/ext4"
verify_contents "$work/ext4" "the bare image"

$smoke || report
say
say "run: $checks checks passed"
