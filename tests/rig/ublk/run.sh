#!/usr/bin/env bash
# Boots a Debian kernel that has ublk in QEMU, without KVM, on this machine's own root, and runs
# checks.sh in it: about two minutes.
#
#   run.sh KERNEL.deb FOREBAY
#
# KERNEL.deb is a linux-image package with ublk_drv (Debian's 6.12 has it, 6.1 has not; see
# docs/using/ublk.md), FOREBAY a command that was built with the feature ublk. Needs qemu-system-x86,
# busybox-static, cpio, xz-utils, fio, e2fsprogs. The guest writes to its own /mnt, /run and /dev.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
kernel_package=$(readlink -f "$1")
forebay=$(readlink -f "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

dpkg-deb -x "$kernel_package" "$work/package"
modules=$(echo "$work"/package/lib/modules/*)
[ -d "$modules" ] || modules=$(echo "$work"/package/usr/lib/modules/*)
mkdir -p "$work"/initial/{bin,modules,root,proc}
cp "$(command -v busybox)" "$work/initial/bin/busybox"

# In the order in which they need each other; what a kernel has built in is not there.
names=(netfs 9pnet 9pnet_virtio 9p crc16 crc32c_generic mbcache jbd2 ext4 ublk_drv)
for name in "${names[@]}"; do
    found=$(find "$modules" -name "$name.ko*" | head -n 1)
    case "$found" in
    *.xz) xz -dc "$found" >"$work/initial/modules/$name.ko" ;;
    *.ko) cp "$found" "$work/initial/modules/" ;;
    esac
done
cat >"$work/initial/init" <<INIT
#!/bin/busybox sh
/bin/busybox mount -t proc proc /proc
for name in ${names[*]}; do
    [ ! -e /modules/\$name.ko ] || /bin/busybox insmod /modules/\$name.ko
done
/bin/busybox mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,cache=loose host /root
/bin/busybox mount -t proc proc /root/proc
/bin/busybox mount -t sysfs sysfs /root/sys
/bin/busybox mount -t devtmpfs dev /root/dev
/bin/busybox mkdir -p /root/dev/shm
for place in dev/shm run mnt; do /bin/busybox mount -t tmpfs tmpfs /root/\$place; done
PATH=/usr/sbin:/usr/bin:/sbin:/bin /bin/busybox chroot /root $here/checks.sh $forebay
echo o >/root/proc/sysrq-trigger
/bin/busybox sleep 60
INIT
chmod +x "$work/initial/init"
(cd "$work/initial" && find . | cpio --quiet -o -H newc | gzip -1) >"$work/initial.gz"

timeout 600 qemu-system-x86_64 -machine pc -cpu max -smp 2 -m 1G -nographic -no-reboot \
    -kernel "$(echo "$work"/package/boot/vmlinuz-*)" -initrd "$work/initial.gz" \
    -append "console=ttyS0 quiet panic=-1" \
    -fsdev local,id=host,path=/,security_model=none,multidevs=remap \
    -device virtio-9p-pci,fsdev=host,mount_tag=host </dev/null | tee "$work/console"
grep -q '^all checks passed' "$work/console"
