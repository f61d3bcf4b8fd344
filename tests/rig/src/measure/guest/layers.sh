# Sets the stage of the layers: devices of three kinds, caches over pairs of them, ext4 over each.
#
# NVM: ram disks. SSD: the kernel's scsi_debug, whose delay is a high-resolution timer's, cut into parts. HDD: an
# nbd whose server waits before each request and takes one at a time, cut into parts. Every device is reached
# through a part, and every contender through its top: dm's linear targets, which count requests and their time.
# The variables are the host's: WANTED, FAST_MIB, SLOW_MIB, META_MIB, HDD_MS.
set -euo pipefail

is_wanted() { [[ " $WANTED " == *" $1 "* ]]; }

# A part of a device, or all that is left of it, whose requests are counted.
part() { # name, device, first MiB, MiB
    dmsetup create "$1" --table "0 $(($4 * 2048)) linear $2 $(($3 * 2048))"
    dmsetup message "$1" 0 @stats_create - /1 1 precise_timestamps >/dev/null
}

awaited() { # device
    for ((i = 0; i < 200; i++)); do
        [ -b "$1" ] && return
        sleep 0.05
    done
    echo "$1 does not appear" >&2
    return 1
}

# How far each device is used up.
ssd=/dev/sda ssd_used=0 hdd=/dev/nbd0 hdd_used=0 ram_used=0

on_nvm() { # name, MiB: a ram disk of its own
    part "$1" "/dev/ram$ram_used" 0 "$2"
    ram_used=$((ram_used + 1))
}

on_ssd() {
    part "$1" $ssd $ssd_used "$2"
    ssd_used=$((ssd_used + $2))
}

on_hdd() {
    part "$1" $hdd $hdd_used "$2"
    hdd_used=$((hdd_used + $2))
}

# ext4 as it comes, in ordered mode, that writes nothing by and by.
file_system() { # name
    mkdir "/mnt/$1"
    mkfs.ext4 -q -b 4096 -E lazy_itable_init=0,lazy_journal_init=0 "/dev/mapper/$1-top"
    mount "/dev/mapper/$1-top" "/mnt/$1"
}

alone() { # name, kind
    is_wanted "$1" || return 0
    "on_$2" "$1-fast" "$FAST_MIB"
    part "$1-top" "/dev/mapper/$1-fast" 0 "$FAST_MIB"
    file_system "$1"
}

# Blocks of 32 KiB, the smallest there are; it may move as much as it likes at a time.
dm_cache() { # name, kind of the fast device, of the slow one
    is_wanted "$1" || return 0
    "on_$2" "$1-meta" "$META_MIB"
    "on_$2" "$1-fast" "$FAST_MIB"
    "on_$3" "$1-slow" "$SLOW_MIB"
    # The first sectors say whether there is a cache already.
    dd if=/dev/zero of="/dev/mapper/$1-meta" bs=64k count=1 oflag=direct status=none
    dmsetup create "$1" --table "0 $((SLOW_MIB * 2048)) cache /dev/mapper/$1-meta /dev/mapper/$1-fast \
        /dev/mapper/$1-slow 64 1 writeback smq 0"
    dmsetup message "$1" 0 migration_threshold 2048000
    part "$1-top" "/dev/mapper/$1" 0 "$SLOW_MIB"
    file_system "$1"
}

bcaches=0
# Everything is cached, sequential or not, and never passed by.
bcache() { # name, kind of the fast device, of the slow one
    local number=$bcaches settings
    is_wanted "$1" || return 0
    bcaches=$((bcaches + 1))
    "on_$2" "$1-fast" "$FAST_MIB"
    "on_$3" "$1-slow" "$SLOW_MIB"
    make-bcache --wipe-bcache --block 4k --bucket 64k --writeback -C "/dev/mapper/$1-fast" \
        -B "/dev/mapper/$1-slow" >/dev/null
    echo "/dev/mapper/$1-fast" >/sys/fs/bcache/register
    echo "/dev/mapper/$1-slow" >/sys/fs/bcache/register
    awaited "/dev/bcache$number"
    settings=/sys/block/bcache$number/bcache
    echo 0 >"$settings/sequential_cutoff"
    echo 0 >"$settings/cache/congested_read_threshold_us"
    echo 0 >"$settings/cache/congested_write_threshold_us"
    # Its superblock takes some sectors of the slow device.
    part "$1-top" "/dev/bcache$number" 0 $((SLOW_MIB - 1))
    file_system "$1"
}

ours() { # name
    is_wanted "$1" || return 0
    part "$1-fast" /dev/vda 0 "$SLOW_MIB"
    part "$1-top" "/dev/mapper/$1-fast" 0 "$SLOW_MIB"
    file_system "$1"
}

awaited $ssd
if [[ "$WANTED" == *hdd* ]]; then
    # The outer filter keeps requests in line, the inner one has each take its time.
    nbdkit --unix /run/hdd.socket --filter=noparallel --filter=delay memory 256M \
        "delay-read=${HDD_MS}ms" "delay-write=${HDD_MS}ms"
    nbd-client -unix /run/hdd.socket $hdd >/dev/null
fi

alone nvm nvm
alone ssd ssd
alone hdd hdd
bcache bcache-nvm-ssd nvm ssd
bcache bcache-ssd-hdd ssd hdd
dm_cache dm-cache-nvm-ssd nvm ssd
dm_cache dm-cache-ssd-hdd ssd hdd
ours ours
