# Sets the kernel's caches up over files: each has an SSD and a disk of its own, UML block devices from a to f in the
# order of WANTED, SSD first. The variables are the host's: WANTED.
set -euo pipefail

letters=(a b c d e f)
next=0
take() { # sets fast and slow
    fast=/dev/ubd${letters[next]} slow=/dev/ubd${letters[next + 1]}
    next=$((next + 2))
}

for name in $WANTED; do
    take
    sectors=$(blockdev --getsz "$slow")
    case "$name" in
    dm-writecache)
        dmsetup create writecache --table "0 $sectors writecache s $slow $fast 4096 0"
        ;;
    dm-cache)
        # Its metadata is on the SSD, too: the first 8 MiB.
        metadata=16384
        dmsetup create cache-metadata --table "0 $metadata linear $fast 0"
        dmsetup create cache-data --table "0 $(($(blockdev --getsz "$fast") - metadata)) linear $fast $metadata"
        dmsetup create cache --table "0 $sectors cache /dev/mapper/cache-metadata /dev/mapper/cache-data $slow \
            64 1 writeback smq 0"
        dmsetup message cache 0 migration_threshold 2048000
        ;;
    bcache)
        make-bcache --wipe-bcache --block 4k --bucket 64k --writeback -C "$fast" -B "$slow" >/dev/null
        echo "$fast" >/sys/fs/bcache/register
        echo "$slow" >/sys/fs/bcache/register
        for ((i = 0; i < 100; i++)); do [ -b /dev/bcache0 ] && break || sleep 0.05; done
        # Everything is cached, and nothing is written back meanwhile.
        echo 0 >/sys/block/bcache0/bcache/sequential_cutoff
        echo 0 >/sys/block/bcache0/bcache/cache/congested_read_threshold_us
        echo 0 >/sys/block/bcache0/bcache/cache/congested_write_threshold_us
        echo 0 >/sys/block/bcache0/bcache/writeback_running
        ;;
    esac
done
