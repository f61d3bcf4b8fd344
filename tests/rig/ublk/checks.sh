#!/usr/bin/env bash
# Inside a guest whose kernel has ublk: the whole life of a disk that is served with --ublk.
#
#   checks.sh PATH-TO-forebay
#
# Prints a line a check, and "all checks passed" at the end.
set -euo pipefail
forebay=$1
work=/mnt/work
mkdir -p "$work" /mnt/fs
cd "$work"

daemon=
device=

check() {
    local what=$1
    shift
    if "$@" >"$work/output" 2>&1; then
        echo "ok: $what"
    else
        echo "FAILED: $what"
        cat "$work/output" "$work/daemon.log"
        exit 1
    fi
}

# Starts the daemon, with device number $1 or any; $device is its block device when it is ready.
start() {
    "$forebay" serve --pool /dev/shm/pool --backing "$work/disk.img" --ublk "${1:-auto}" \
        --shutdown-deadline 2 >"$work/daemon.out" 2>>"$work/daemon.log" &
    daemon=$!
    for _ in $(seq 300); do
        grep -q '^ready' "$work/daemon.out" && break
        kill -0 "$daemon" 2>/dev/null || break
        sleep 0.1
    done
    device=$(sed -n 's/^serving \(\/dev\/ublkb[0-9]*\) .*/\1/p' "$work/daemon.out")
    [ -b "$device" ]
}

# Ends the daemon with signal $1; its exit code is $code then.
end() {
    code=0
    kill "-$1" "$daemon"
    wait "$daemon" || code=$?
}

queue_says() {
    [ "$(cat "/sys/block/${device#/dev/}/queue/$1")" = "$2" ]
}

same_as_backing() {
    "$forebay" flush /dev/shm/pool
    cmp "$work/disk.img" "$device"
}

truncate -s 256M disk.img
"$forebay" create /dev/shm/pool --size 64M --test >/dev/null

start || { echo "FAILED: start"; cat daemon.log daemon.out; exit 1; }
echo "ok: the disk is $device"
check "no volatile cache" queue_says write_cache "write through"
check "no FUA" queue_says fua 0
check "logical blocks of 512" queue_says logical_block_size 512
check "physical blocks of 4096" queue_says physical_block_size 4096
check "requests of 512 KiB" queue_says max_hw_sectors_kb 512
check "discards of 64 MiB" queue_says discard_max_hw_bytes 67108864
check "zeroings of 64 MiB" queue_says write_zeroes_max_bytes 67108864
for name in max_sectors_kb max_segments max_segment_size discard_granularity atomic_write_unit_max_bytes; do
    echo "queue: $name $(cat "/sys/block/${device#/dev/}/queue/$name" 2>/dev/null || echo absent)"
done

verify() {
    fio --name=verify --filename="$device" --size=64M --io_size="$2" --rw=randrw --rwmixread=30 \
        --bsrange="$1" --direct=1 --ioengine=libaio --iodepth=16 --verify=crc32c --verify_fatal=1 \
        --randseed=7 --minimal
}
check "random requests of 512 B to 1 MiB read back as written" verify 512-1m 48M
check "the backing has the same bytes" same_as_backing
check "a discard" blkdiscard -o 0 -l 32M "$device"
check "discarded bytes are zeroes" cmp -n 33554432 /dev/zero "$device"
check "zeroing" blkdiscard -z -o 33554432 -l 16M "$device"
check "zeroed bytes are zeroes" cmp -n 16777216 -i 0:33554432 /dev/zero "$device"
check "the backing has the same bytes" same_as_backing

fails() { ! dd if="$device" of=/dev/null bs=4096 count=1 skip=50000 iflag=direct; }
"$forebay" fault /dev/shm/pool fail-backing disk.img --reads 1 >/dev/null
check "an error of the backing is an error of the request" fails

check "mkfs" mkfs.ext4 -q -F "$device"
check "mount" mount "$device" /mnt/fs

# Appends lines, each synchronised before the next; dies at the first error.
write_lines() {
    for line in $(seq "$1"); do
        echo "$line" >>/mnt/fs/lines
        sync /mnt/fs/lines
        echo "$line" >"$work/acknowledged"
    done
}
write_lines 3000 2>"$work/writer.log" &
writer=$!
sleep 2
end KILL
before=$(cat acknowledged)
sleep 1
check "the writer waits without a daemon" kill -0 "$writer"
first=$device
start
check "the next daemon takes the device over" [ "$device" = "$first" ]
sleep 2
check "the writer goes on" [ "$(cat acknowledged)" -gt "$before" ]
end TERM
check "a daemon that is told to end while its disk is in use says so (6)" [ "$code" = 6 ]
check "and leaves the device" [ -b "$device" ]
start
check "the next daemon takes it over again" [ "$device" = "$first" ]
kill "$writer" 2>/dev/null || true
wait "$writer" || true
check "the writer saw no error" [ ! -s "$work/writer.log" ]
last=$(cat acknowledged)
check "every acknowledged line is there ($last)" [ "$(head -n "$last" /mnt/fs/lines | tail -n 1)" = "$last" ]
check "detach of a disk in use is refused" bash -c "! '$forebay' detach /dev/shm/pool disk.img"
umount /mnt/fs
check "the file system is clean" e2fsck -fn "$device"
end TERM
check "a daemon whose disk is out of use ends well" [ "$code" = 0 ]
check "and removes the device" [ ! -e "$device" ]

start 5
check "a number of one's own" [ "$device" = /dev/ublkb5 ]
truncate -s 64M other.img
"$forebay" create /dev/shm/other --size 32M >/dev/null
taken() {
    local message
    message=$("$forebay" serve --pool /dev/shm/other --backing other.img --ublk 5 2>&1) && return 1
    grep "ublkb5 is another device" <<<"$message"
}
check "a number that is taken is refused" taken
check "detach" "$forebay" detach /dev/shm/pool disk.img
check "removes the device" [ ! -e /dev/ublkb5 ]
end TERM
check "ends well" [ "$code" = 0 ]
check "the pool is sound" "$forebay" check /dev/shm/pool
echo "all checks passed"
