# SPDX-License-Identifier: MIT
#
# The front door: each target installs what is missing (Debian packages, and Python tools in build/venv), then builds
# and does its work. The build itself is CMake's: CMakeLists.txt, CMakePresets.json.
#
#   JOBS=n              parallel jobs (default: the number of CPUs)
#   CMD="prog args"     what `make run` runs instead of the demonstration
#   PREFIX=, DESTDIR=   where `make install` puts things (default /usr/local)
#   WERROR=ON           warnings are errors
#   CTEST_ARGS="-R x"   more arguments for ctest
#   FUZZ_SECONDS=600    how long `make fuzz` takes
#   LAB_ARGS="--repeat 3"  more arguments for `bench/lab run`
#   RELEASE_ARGS=--rehearsal  arguments of packaging/release.py
#   TIDY_SINCE=main    `make tidy` for what is not in that commit only
#   DEBIAN=trixie      for which of Debian's releases `make packages-debian` builds (default: bookworm, trixie and sid)
#   FREEWAY_NO_INSTALL=1  install no Debian packages

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := all
MAKEFLAGS += --no-print-directory

JOBS ?= $(shell nproc)
WERROR ?= OFF
PREFIX ?= /usr/local
DESTDIR ?=
CMD ?=
CTEST_ARGS ?=
LAB_ARGS ?=
FUZZ_SECONDS ?= 600
DEBIAN ?=
RELEASE_ARGS ?=
TIDY_SINCE ?=
PYTHON ?= python3
VENV := build/venv
SITE_VENV := build/site/venv
export FREEWAY_PYTHON := $(CURDIR)/$(VENV)/bin/python

install_packages := scripts/install-packages
# $(call build,preset[,--target ...]): configures (cheap when nothing changed) and builds. Editors look for the commands
# of compilers in the root. `make` and `make run` do not install GoogleTest: without it, they configure no tests.
TESTS := ON
all run: TESTS = $(shell test -e /usr/include/gtest/gtest.h && echo ON || echo OFF)
build = cmake --preset $(1) -DFREEWAY_WERROR=$(WERROR) -DFREEWAY_BUILD_TESTS=$(TESTS) >build/$(1).configure.log 2>&1 \
	|| { cat build/$(1).configure.log; exit 1; }; \
	$(if $(filter release,$(1)),ln -sf build/release/compile_commands.json .;) \
	cmake --build --preset $(1) -j $(JOBS) $(2)
products := --target freeway_products
# With the papers' engines.
installed := --target freeway_installed
# $(call test,preset): as CMakePresets.json says; the last lines are ctest's own summary.
test = ctest --preset $(1) -j $(JOBS) $(CTEST_ARGS)

.PHONY: all run test test-all t papers test-papers test-programs proof prove matrix matrix-roots numa lint format tidy debug asan tsan fuzz aarch64 docs bench bench-quick pulse peers attacks attack-costs profilers shared-cache install dist release packages-debian clean help
# Installing packages is a queue anyway; the parallel work is in the commands.
.NOTPARALLEL:

all: packages-build | build ## build the libraries and the command (build/release)
	@$(call build,release,$(products))

run: packages-build packages-run | build ## run real programs under Freeway beside glibc; CMD="prog args" runs that instead
	@$(call build,release,--target freeway_shared freeway_command measured_run)
	@scripts/run-demo "$(CMD)"

test: packages-build packages-test $(VENV)/.stamp | build ## build and run the tests that find most in twelve minutes
	@$(call build,release,--target freeway_tests)
	@$(call test,release)

test-all: packages-build packages-test packages-programs packages-proof build/tools/pprof $(VENV)/.stamp | build ## the tests that `make test` leaves out, with the papers' and real programs; except the long ones
	@$(call build,release)
	@$(call test,rest)

papers: packages-build packages-test | build ## build the systems of the five papers
	@$(call build,release,--target freeway_papers)

t: packages-build packages-test $(VENV)/.stamp | build ## build and run one test: make t T=unit_magazines
	@[ -n "$(T)" ] || { echo "Which test? make t T=unit_magazines" >&2; exit 1; }
	@$(call build,release,--target $$(scripts/target-of-test '$(T)'))
	@ctest --test-dir build/release -R '^$(subst .,[.],$(T))([.]|$$)' --output-on-failure --no-tests=error $(CTEST_ARGS)

test-papers: packages-build packages-test packages-programs $(VENV)/.stamp | build ## build and run the tests of the five papers' systems, except the long ones
	@$(call build,release)
	@$(call test,papers)

test-programs: packages-build packages-test packages-programs packages-suites $(VENV)/.stamp | build ## real programs, and their own test suites, under Freeway, at full length; hours
	@$(call build,release)
	@ctest --test-dir build/release --output-on-failure --no-tests=error -j $(JOBS) -L '^long$$' -L '^programs$$' $(CTEST_ARGS)

prove: packages-build packages-test packages-programs packages-proof packages-sanitize packages-cross build/tools/pprof $(VENV)/.stamp | build ## all tests but the programs: also the long ones and the other builds; four hours on 2 CPUs
	@$(call build,release)
	@$(call build,debug)
	@$(call build,asan)
	@$(call build,tsan)
	@$(call build,aarch64)
	@$(FREEWAY_PYTHON) -m tools.proof run --jobs $(JOBS)

proof: packages-build packages-proof ## check the machine-checked proof of the protocol of small blocks (proof/README.md), minutes
	@$(MAKE) -C proof -j $(JOBS)

matrix: packages-build packages-test packages-cross packages-matrix $(VENV)/.stamp | build ## kernels from 5.10 to 7.x and C libraries, emulated; hours; writes docs/matrix.md
	@$(call build,release,$(products))
	@FREEWAY_BUILD_DIR=build/release nice $(FREEWAY_PYTHON) -B tests/whole/matrix/matrix.py

matrix-roots: packages-build packages-matrix $(VENV)/.stamp | build ## Debian 11, 12, 13 and sid: python3, perl, g++, git and php of each, on this kernel
	@$(call build,release,$(products))
	@FREEWAY_BUILD_DIR=build/release nice $(FREEWAY_PYTHON) -B tests/whole/matrix/debian_roots.py

numa: packages-build packages-test packages-cross $(VENV)/.stamp | build ## 32 CPUs in 4 NUMA nodes, emulated: which blocks lie on another node than who gets them; minutes
	@$(call build,release,$(products))
	@FREEWAY_BUILD_DIR=build/release nice $(FREEWAY_PYTHON) -B tests/whole/machines/numa.py

lint: packages-lint $(VENV)/.stamp ## check layers, memory-order labels, last touches, hygiene, references, formatting, the scripts
	@$(FREEWAY_PYTHON) -m tools.lint
	@$(FREEWAY_PYTHON) -m tools.proof check
	@$(FREEWAY_PYTHON) -m tools.house
	@$(FREEWAY_PYTHON) -B tests/mutants/matrix.py --check
	@$(FREEWAY_PYTHON) -m pytest -q tools/lint tools/house tools/proof tools/website tests/whole/matrix tests/whole/programs
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(FREEWAY_PYTHON) -m tools.lint --list-shell-scripts | xargs -r -d '\n' shellcheck

format: $(VENV)/.stamp ## format C, C++ and Python
	@$(FREEWAY_PYTHON) -m tools.lint.formatting
	@$(VENV)/bin/ruff format --quiet .

# All of it; or TIDY_SINCE=main: what is new, and what includes it.
tidy: packages-build packages-test $(VENV)/.stamp | build ## clang-tidy of the libraries and the command, minutes; TIDY_SINCE=main for what has changed
	@$(call build,release,--target freeway_command)
	@$(FREEWAY_PYTHON) -m tools.lint.tidy --jobs $(JOBS) $(if $(TIDY_SINCE),--since $(TIDY_SINCE))

docs: packages-docs $(SITE_VENV)/.stamp ## the documentation as a site, with its links checked: build/site/html/index.html
	@NO_MKDOCS_2_WARNING=1 $(SITE_VENV)/bin/python -B -m tools.website

debug: packages-build packages-test packages-programs build/tools/pprof $(VENV)/.stamp | build ## build and test with all assertions
	@$(call build,debug)
	@$(call test,debug)

asan tsan: packages-build packages-test packages-sanitize | build ## build and test with a sanitizer (tests of internals and of the freeway_ functions)
	@$(call build,$@)
	@$(call test,$@)

fuzz: packages-build packages-test packages-sanitize $(VENV)/.stamp | build ## run the fuzzers, ten minutes; FUZZ_SECONDS=60 for less
	@$(call build,fuzz)
	@$(FREEWAY_PYTHON) tests/whole/fuzz/run.py build/fuzz --seconds $(FUZZ_SECONDS)

aarch64: packages-build packages-test packages-cross | build ## cross-compile for 64-bit Arm and test under qemu-user
	@$(call build,aarch64)
	@$(call test,aarch64)

bench-quick: packages-build packages-test packages-bench packages-run build/peers/manifest.json $(VENV)/.stamp | build ## measure Freeway beside other allocators, ten minutes
	@$(call build,release,$(products) freeway_bench)
	@bench/lab run --suite quick $(LAB_ARGS)
	@bench/lab report build/lab/quick.jsonl

pulse: packages-build packages-test $(VENV)/.stamp | build ## a minute: instructions, ratios to glibc, hello's memory; one more line and point in docs/pulse.md
	@$(call build,release,--target freeway_shared measured_run workload_hello workload_lifo_pair workload_batch \
		workload_random_replace workload_spill workload_producer_consumer)
	@bench/lab pulse

bench: packages-build packages-test packages-bench packages-real build/peers/manifest.json $(VENV)/.stamp | build ## measure everything under all allocators, hours; LAB_ARGS=--resume goes on
	@$(call build,release,$(products) freeway_bench freeway_bench_engines freeway_counted)
	@rm -f build/lab/counts.jsonl
	@bench/lab count
	@bench/lab run --suite all $(LAB_ARGS)
	@bench/lab report build/lab/all.jsonl build/lab/counts.jsonl

# What docs/attacks.md compares.
attacked := glibc scudo scudo-quarantine mimalloc3 mimalloc3-secure snmalloc snmalloc-checks
build_attacks = $(call build,release,$(products) freeway_attacks measured_run workload_lifo_pair workload_random_replace)

# Those of the last `make peers`; it is run if there are none yet.
build/peers/manifest.json:
	@$(MAKE) peers

peers: packages-build packages-peers | build ## install or build the allocators to compare with (build/peers)
	@$(PYTHON) bench/peers/install.py --jobs $(JOBS)

attacks: packages-build packages-test packages-peers | build ## try heap errors and attacks under all allocators; writes docs/attacks.json and docs/attacks.md
	@$(PYTHON) bench/peers/install.py --jobs $(JOBS) $(attacked)
	@$(build_attacks)
	@$(PYTHON) -B tests/whole/attacks/run.py all

attack-costs: packages-build packages-test packages-peers | build ## measure only what they cost once more: for a quiet machine
	@$(PYTHON) bench/peers/install.py --jobs $(JOBS) $(attacked)
	@$(build_attacks)
	@$(PYTHON) -B tests/whole/attacks/run.py costs --cost-repeat 15

# What docs/profiles.md compares.
profilers: packages-build packages-test packages-peers packages-run | build ## hangs and costs of heap profilers, half an hour; writes docs/profiles.json and the tables of docs/profiles.md
	@$(PYTHON) bench/peers/install.py --jobs $(JOBS) glibc jemalloc-prof tcmalloc-2.10-prof
	@$(call build,release,$(products) workload_storm workload_larson workload_server workload_kv_cache measured_run)
	@$(PYTHON) -B bench/profilers/run.py hangs
	@$(PYTHON) -B bench/profilers/run.py costs --repeat 15

# The second one ends with status 2: it hangs.
shared-cache: packages-build packages-test packages-shared | build ## a cache whose processes are killed by the thousand, in Freeway's shared heap, then in Boost.Interprocess's
	@$(call build,release,--target example_shared_cache example_boost_cache)
	@build/release/tests/shared/example/example_shared_cache
	@build/release/tests/shared/example/example_boost_cache || [ $$? -eq 2 ]

# It goes on without.
build/tools/pprof: | build
	@scripts/install-pprof

install: packages-build packages-test | build ## install under PREFIX (default /usr/local), staged in DESTDIR
	@cmake --preset release -DCMAKE_INSTALL_PREFIX="$(abspath $(PREFIX))" >/dev/null
	@cmake --build --preset release -j $(JOBS) $(installed)
	@DESTDIR="$(DESTDIR)" cmake --install build/release

dist: | build ## the release archive of the last commit, build/dist/freeway-VERSION.tar.xz
	@$(PYTHON) -B packaging/dist.py

release: | build ## what a release consists of, built twice with the same bytes, build/release-VERSION; hours; RELEASE_ARGS=--rehearsal
	@nice $(PYTHON) -B packaging/release.py --jobs $(JOBS) $(RELEASE_ARGS)

packages-debian: packages-matrix dist ## Debian 12, 13 and sid: packages from the archive, built and tried in fresh systems; DEBIAN=trixie for one
	@JOBS=$(JOBS) nice $(PYTHON) -B packaging/debian/build.py $(DEBIAN)
	@nice packaging/debian/try $(DEBIAN)

clean: ## remove everything that was built
	rm -rf build

help: ## this list
	@awk -F ' ## ' '/^[a-z0-9 -]+:.* ## / { sub(/:.*/, "", $$1); printf "  make %-12s %s\n", $$1, $$2 }' Makefile

packages-%:
	@$(install_packages) $*

build:
	@mkdir -p build

$(VENV)/.stamp: scripts/requirements.txt | build
	@$(install_packages) lint
	@$(make_venv)

$(SITE_VENV)/.stamp: scripts/docs-requirements.txt | build
	@$(make_venv)

# A fresh virtual environment in the target's folder, with what the first prerequisite lists.
make_venv = rm -rf $(@D) && $(PYTHON) -m venv $(@D) && { \
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check -r $< \
		|| { echo "Could not install $< into $(@D): is the network up?" >&2; exit 1; }; } && touch $@
