# Everything here builds through a CMake preset (CMakePresets.json) into build/PRESET.
# Useful variables: TORCH_DIR (a LibTorch to use), JOBS (parallel jobs), PREFIX (for install), TESTS (a regex for ctest).
SHELL := /bin/bash
JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
TESTS ?= .
export JOBS
ctest = ctest --output-on-failure --parallel $(JOBS) --tests-regex '$(TESTS)' --test-dir

.PHONY: help demo test bench fuzz accuracy zoo mutate asan test-torch format setup install clean
.DEFAULT_GOAL := help

help:  ## this list
	@echo "precast: torch.compile and torch.compiler.precompile for C++"
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo:  ## real models: record, verify, save, load in a fresh process, compare; a table at the end
	@tools/build.sh default precast_demo precast
	@tools/fetch_data.sh
	@build/default/bin/precast_demo

test:  ## all tests
	@tools/build.sh default
	@tools/fetch_data.sh
	@$(ctest) build/default

bench:  ## speed beside eager LibTorch, as ratios and roofline fractions
	@tools/build.sh default precast_bench
	@tools/fetch_data.sh
	@build/default/bin/precast_bench
	@bench/include_cost.sh "$$(tools/setup.sh | tail -n 1)"
	@bench/peers.sh "$$(tools/setup.sh | tail -n 1)"

fuzz:  ## parsers on damaged files (10 minutes each), then random programs against eager, until it fails or is stopped
	@tests/parsers/libfuzzer/run.sh 600
	@tools/build.sh default precast_fuzz
	@build/default/bin/precast_fuzz --forever

accuracy:  ## errors of the emitted f32 functions over all 2^32 inputs, into docs/accuracy.md; about an hour
	@tools/build.sh default precast_accuracy
	@build/default/bin/precast_accuracy --write docs/accuracy.md

zoo:  ## networks that nobody tuned for, at full size: a table; WHAT="llama u_net" for some of them
	@tools/build.sh default precast_zoo
	@build/default/bin/precast_zoo table $(WHAT)

mutate:  ## switches off each check of docs/programming-model.md, one at a time: some test must go red
	@tools/build.sh mutate precast_mutate
	@build/mutate/bin/precast_mutate

asan:  ## all tests with address and undefined-behaviour sanitizers
	@tools/build.sh asan
	@tools/fetch_data.sh
	@$(ctest) build/asan

test-torch:  ## all tests with another LibTorch: make test-torch TORCH=2.14.1
	@test -n "$(TORCH)" || { echo "Which release? For example: make test-torch TORCH=2.14.1"; exit 2; }
	@TORCH=$(TORCH) tools/build.sh default
	@tools/fetch_data.sh
	@$(ctest) build/default-torch-$(TORCH)

format:  ## clang-format over all sources
	@tools/format.sh

setup:  ## only what the others do first: Debian packages and LibTorch
	@tools/setup.sh

install:  ## library, headers, program and CMake package into PREFIX (/usr/local)
	@tools/build.sh install
	@cmake --install build/install --prefix "$(PREFIX)"

clean:  ## remove build/ and out/; .venv stays
	@rm -rf build out
