# SPDX-License-Identifier: Apache-2.0
# The front door. `make help` lists the words.

BUILD    ?= build
JOBS     ?= $(shell nproc)
# Many tests wait: for a lock, for a settle time, for another process.
TEST_JOBS ?= $(shell expr 2 '*' $(JOBS))
PREFIX   ?= /usr/local
DESTDIR  ?=
SIZE     ?= 1G
FUZZ_SECONDS ?= 60
SOAK_SECONDS ?= 120
SEED     ?=
UNITY    ?=
SIZE_8G_IN_MIB = $(shell echo $$(( $$(numfmt --from=iec $(if $(filter file,$(origin SIZE)),8G,$(SIZE))) >> 20 )))

.PHONY: all deps demo test check lint manual benchmarks bench bench-size bench-finetune bench-transfer bench-cuda bench-push memory asan tsan engine-only check-torch fuzz soak coverage install deb tarball clean help

all: deps ## build the program: build/wdelta (UNITY=OFF, once: each source by itself)
	@tests/setup.sh configure $(BUILD) release -DCMAKE_INSTALL_PREFIX=$(PREFIX) $(if $(UNITY),-DCMAKE_UNITY_BUILD=$(UNITY))
	@cmake --build $(BUILD) -j $(JOBS)

deps: ## install what the system lacks (Debian, Ubuntu; root or sudo)
	@tests/setup.sh packages

demo: all ## the main job, on checkpoints made for it: push, log, pull, roll back, prove
	@tests/demo.sh $(BUILD)

test: all ## all tests
	@ctest --test-dir $(BUILD) --output-on-failure -j $(TEST_JOBS)

check: lint ## format, layers, kernels, manual, unit tests
	@ctest --test-dir $(BUILD) --output-on-failure -j $(JOBS) -L unit

lint: all ## the same without the tests
	@tests/setup.sh format
	@python3 tests/check_layers.py lib
	@tests/check_kernels.sh $(BUILD)
	@python3 tests/check_manual.py $(BUILD)/wdelta man

manual: all ## write what the program knows (options, commands, exit statuses) into its manual
	@python3 tests/check_manual.py --write $(BUILD)/wdelta man

benchmarks: all
	@cmake --build $(BUILD) -j $(JOBS) --target benchmarks

bench: benchmarks ## kernels, BLAKE3, codec, diff, apply and verify against their peers (SIZE=1G; CHECKPOINTS=files of a real run, KEEP=0.1: with a tenth of their changes)
	@tests/setup.sh packages xdelta3 b3sum $(if $(KEEP),python3-numpy)
	@$(if $(KEEP),$$(tests/setup.sh python numpy) -B tests/bench/bench.py --keep $(KEEP),python3 -B tests/bench/bench.py) $(BUILD) $(SIZE) $(CHECKPOINTS)

bench-size: benchmarks ## bits per change of CHECKPOINTS='OLD NEW ...' (consecutive files of a run), beside other formats (KEEP=0.1: with a tenth of the changes)
	@tests/setup.sh packages python3-numpy zstd
	@$$(tests/setup.sh python numpy) -B tests/bench/size_bench.py $(if $(KEEP),--keep $(KEEP)) $(BUILD) $(CHECKPOINTS)

bench-finetune: benchmarks ## the same of a real model, fine-tuned here with several optimizers; it and torch are fetched once below the build folder: gigabytes (RUNS='adamw:2e-6 ...')
	@tests/setup.sh packages python3-venv zstd
	@python3 -B tests/bench/finetune.py $(BUILD) $(RUNS)

bench-transfer: all ## a push and a pull over loopback against curl (SIZE=2G)
	@tests/setup.sh packages curl
	@python3 -B tests/bench/transfer_bench.py $(BUILD) $(if $(filter file,$(origin SIZE)),2G,$(SIZE))

bench-cuda: all ## copy, diff, patch and BLAKE3 in a CUDA device's memory (SIZE=8G a side)
	@$(BUILD)/tests/bench-cuda $(SIZE_8G_IN_MIB)

bench-push: all ## pushes out of torch's memory, and fills of it, on a CUDA device where there is one (SIZE=8G)
	@$$(tests/setup.sh python torch) -B tests/bench/push_bench.py $(BUILD) $(SIZE_8G_IN_MIB)

memory: all ## peak memory of every command on a pair of 6 GiB (SIZE=6G)
	@tests/setup.sh packages time bc
	@tests/memory.sh $(BUILD) $(if $(filter file,$(origin SIZE)),6G,$(SIZE))

asan: deps ## all tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@tests/setup.sh configure build-asan asan
	@cmake --build build-asan -j $(JOBS)
	@ctest --test-dir build-asan --output-on-failure -j $(JOBS)

tsan: deps ## all tests under ThreadSanitizer
	@tests/setup.sh configure build-tsan tsan
	@cmake --build build-tsan -j $(JOBS)
	@ctest --test-dir build-tsan --output-on-failure -j $(JOBS)

engine-only: ## the engine and its tests alone, with nothing but a compiler and CMake
	@tests/setup.sh configure build-engine-only engine-only
	@cmake --build build-engine-only -j $(JOBS)
	@ctest --test-dir build-engine-only --output-on-failure -j $(JOBS)

check-torch: all ## tests of lib/python with torch, fetched once below the build folder: gigabytes
	@WDELTA_CHECK_TORCH=1 ctest --test-dir $(BUILD) --output-on-failure -R '^python-torch$$'

fuzz: deps ## every fuzz target for FUZZ_SECONDS (60)
	@tests/setup.sh packages clang libclang-rt-14-dev
	@tests/setup.sh configure build-fuzz fuzz
	@cmake --build build-fuzz -j $(JOBS) --target fuzz
	@tests/fuzz/run.sh build-fuzz $(FUZZ_SECONDS)

soak: all ## pushes and pulls killed at random for SOAK_SECONDS (120); SEED=N repeats one
	@SOAK_SECONDS=$(SOAK_SECONDS) SEED=$(SEED) python3 -B tests/soak.py $(BUILD)

coverage: deps ## line coverage of the tests, in build-coverage/coverage.txt
	@tests/setup.sh packages gcovr
	@tests/setup.sh configure build-coverage coverage
	@cmake --build build-coverage -j $(JOBS)
	@ctest --test-dir build-coverage --output-on-failure -j $(JOBS)
	@gcovr --filter lib/ --filter cmd/ build-coverage -o build-coverage/coverage.txt && tail -n 3 build-coverage/coverage.txt

install: all ## install the program, its manual and completions (PREFIX, DESTDIR)
	@DESTDIR="$(DESTDIR)" cmake --install $(BUILD) --prefix "$(PREFIX)"

deb: all ## a Debian package: build/package/wdelta_VERSION_amd64.deb
	@tests/setup.sh packages dpkg-dev file
	@tests/setup.sh pack DEB $(BUILD) $(BUILD)/package
	@tests/package_test.sh deb $(BUILD)/package

tarball: deps ## a program that runs on any Linux: build/package/wdelta-VERSION-linux-x86_64.tar.gz
	@tests/setup.sh configure build-static static
	@cmake --build build-static -j $(JOBS)
	@tests/setup.sh pack TGZ build-static $(BUILD)/package
	@tests/package_test.sh tarball $(BUILD)/package

clean: ## remove all build folders
	@rm -rf "$(BUILD)" build-asan build-tsan build-fuzz build-coverage build-static build-engine-only

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
