# Sets the stage of the grid: each contender gets a fast and a slow device of its own.
#
# Ram disks: 0 the fast device alone, 1 to 3 the fast ones of the caches, 4 dm-cache's metadata, from 5 on
# the slow ones, $SLOW_DISKS each. All have the same size, so a slow device is several, one after another,
# behind dm-delay. The variables are the host's: WANTED, SLOW_DISKS, DELAY_MS, DIRTY_LOW, DIRTY_HIGH.
set -euo pipefail
sectors=$(blockdev --getsz /dev/ram0)
size=$((sectors * SLOW_DISKS))

# What is read is there: the same random bytes, MiB by MiB, on every slow device.
head -c 1M /dev/urandom >/run/noise
for ((i = 0; i < sectors / 2048; i++)); do cat /run/noise; done >/dev/ram5
for ((disk = 6; disk < 5 + 4 * SLOW_DISKS; disk++)); do cat /dev/ram5 >/dev/ram$disk; done

slow() { # name, number
    local table="" i
    for ((i = 0; i < SLOW_DISKS; i++)); do
        table+="$((i * sectors)) $sectors delay /dev/ram$((5 + $2 * SLOW_DISKS + i)) 0 $DELAY_MS"$'\n'
    done
    printf '%s' "$table" | dmsetup create "$1"
}

is_wanted() { [[ " $WANTED " == *" $1 "* ]]; }

slow slow 0
if is_wanted dm-writecache; then
    slow slow-writecache 1
    # It begins to write back where Forebay does, see DIRTY_LOW and DIRTY_HIGH.
    dmsetup create writecache --table "0 $size writecache s /dev/mapper/slow-writecache /dev/ram1 4096 \
        4 high_watermark $DIRTY_HIGH low_watermark $DIRTY_LOW"
fi
if is_wanted dm-cache; then
    slow slow-cache 2
    # Blocks of 32 KiB, the smallest there are; it may move as much as it likes at a time.
    dmsetup create cache --table "0 $size cache /dev/ram4 /dev/ram2 /dev/mapper/slow-cache 64 1 writeback smq 0"
    dmsetup message cache 0 migration_threshold 2048000
fi
if is_wanted bcache; then
    slow slow-bcache 3
    make-bcache --wipe-bcache --block 4k --bucket 64k --writeback -C /dev/ram3 -B /dev/mapper/slow-bcache >/dev/null
    echo /dev/ram3 >/sys/fs/bcache/register
    echo /dev/mapper/slow-bcache >/sys/fs/bcache/register
    for ((i = 0; i < 100; i++)); do [ -b /dev/bcache0 ] && break || sleep 0.05; done
    # Everything is cached, sequential or not, and never passed by.
    echo 0 >/sys/block/bcache0/bcache/sequential_cutoff
    echo 0 >/sys/block/bcache0/bcache/cache/congested_read_threshold_us
    echo 0 >/sys/block/bcache0/bcache/cache/congested_write_threshold_us
fi
