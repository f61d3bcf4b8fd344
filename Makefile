# The commands for people and for CI: every recipe says what it needs and installs it first.
.DEFAULT_GOAL := help
.PHONY: help run test bench bench-apps bench-tpcc cluster lab crash faults soak torture rig rig-grid lint fuzz loom tsan build man clean

JOBS ?= 2
CARGO ?= cargo

help: ## This list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

run: ## The main job on real data: ext4 on a cached disk, the daemon killed, everything verified
	@scripts/setup.sh build run
	$(CARGO) build --release -j$(JOBS) -p forebay-cli
	@scripts/run.sh

test: ## Every test; ends in a line "N passed, N failed"
	@scripts/setup.sh build test
	@scripts/test.sh

bench: ## Measure against raw memory and libpmem; writes target/bench/report.json
	@scripts/setup.sh build bench
	$(CARGO) build --release -j$(JOBS) -p forebay-cli
	$(CARGO) run --release -j$(JOBS) -p forebay-bench -- --report target/bench/report.json

bench-apps: ## Redis, RocksDB, SQLite and others on a disk, in memory and on Forebay; writes target/apps/report.json
	@scripts/setup.sh build apps
	@scripts/bench-apps.sh

bench-tpcc: ## TPC-C on MariaDB on ext4, on disks behind Forebay, Classic and Tinca, as fast as they are and slow, in some three hours; writes target/tpcc/report.json and target/tpcc-media/report.json
	@scripts/setup.sh build tpcc
	@scripts/bench-tpcc.sh
	@scripts/bench-tpcc.sh --figure 12

cluster: ## etcd, GlusterFS, NATS and HDFS on nodes of this machine, with Forebay under each: speed, kills, lost pools, in an hour; writes target/cluster/report.json
	@scripts/setup.sh build cluster
	@scripts/cluster.sh

lab: ## The papers' caches and figures beside ours, in half an hour; writes target/lab/lab.html, dax.html of mapped regions, files.html of file buffers, and tvarak.html
	@scripts/setup.sh build
	$(CARGO) build --release -j$(JOBS) -p forebay-lab-cli
	target/release/forebay-lab dax --quick --out target/lab
	target/release/forebay-lab files --quick --out target/lab
	target/release/forebay-lab tvarak run all --quick --out target/lab
	target/release/forebay-lab tvarak bugs --quick --out target/lab
	target/release/forebay-lab run all --quick --out target/lab

crash: ## Two million crash images and every mutant; writes target/crash/report.json
	@scripts/setup.sh build
	@scripts/crash.sh

faults: ## Ten thousand faults of each kind below mirrored pools and mapped regions, fewer below those with rows and below one copy; writes target/faults/report.json
	@scripts/setup.sh build
	$(CARGO) run --release -j$(JOBS) --quiet -p forebay-verify -- faults
	$(CARGO) run --release -j$(JOBS) --quiet -p forebay-verify -- faults --pools parity --trials 60000
	$(CARGO) run --release -j$(JOBS) --quiet -p forebay-verify -- faults --pools checksum --trials 60000
	$(CARGO) run --release -j$(JOBS) --quiet -p forebay-verify -- faults --pools regions

soak: ## Ten minutes of load on daemons that are killed and misled; writes target/soak/report.json
	@scripts/setup.sh build
	@scripts/soak.sh

torture: ## Files behind Forebay at random, through kills and bad days; writes target/torture/report.json
	@scripts/setup.sh build apps
	@scripts/torture.sh

rig: ## Power cuts and measurements under real kernels, no KVM needed; writes target/rig/report.json
	@scripts/setup.sh build rig
	@scripts/rig.sh

rig-grid: ## The block cache study's grid, ours beside the kernel's caches; writes target/rig/grid.html
	@scripts/setup.sh build rig
	@scripts/rig-grid.sh

lint: ## Formatting, clippy, licences and sources of dependencies, house rules
	@scripts/setup.sh build lint
	@scripts/lint.sh

fuzz: ## Feed mutated images, requests and files to each target for FUZZ_SECONDS (default 60)
	@scripts/fuzz.sh

loom: ## Model-check the queues, the index and the commit/read/reuse race
	@scripts/setup.sh build
	@scripts/loom.sh

tsan: ## The stress tests under ThreadSanitizer; needs a nightly Rust
	@scripts/tsan.sh

build: ## The optimised command, target/release/forebay, and the library that `forebay run` preloads
	@scripts/setup.sh build
	$(CARGO) build --release -j$(JOBS) -p forebay-cli -p forebay-preload

man: build ## The man pages, target/man
	$(CARGO) build --release -j$(JOBS) -p forebay-lab-cli
	target/release/forebay man target/man
	target/release/forebay-lab man target/man

clean: ## Remove everything that was built
	$(CARGO) clean
