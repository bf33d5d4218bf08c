# The commands a person needs. `make` alone lists them.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
UV     := .venv-lock/bin/uv
STORE  := .venv-object-store

SEEDS      ?= 10000
CASES      ?= 10000
MINUTES    ?= 30
RUNS       ?= 2000
KILLS      ?= 120
FLIPS      ?= 10
ROUNDS     ?= 200
PYTEST_ARGS ?=
JOBS       ?= 3# test files at a time: they wait more than they reckon; each has servers and a Spark of its own

.DEFAULT_GOAL := help
JAVA_MIN := 17
JAVA     := $(if $(JAVA_HOME),$(JAVA_HOME)/bin/java,java)
APT      := DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0

.PHONY: help install java pgbouncer object-store demo test lint types sim soak soak-lake soak-moves matrix matrix-moves bench lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(STAMP) java ## make .venv with everything needed; quick when nothing changed

demo: install ## show what Lockgate does, on this machine
	@$(BIN)/lockgate demo

test: lint types pgbouncer object-store ## lint, types, all tests
	@$(BIN)/python -m pytest -n $(JOBS) --dist loadfile --max-worker-restart 0 --durations=20 $(PYTEST_ARGS)

lint: install ## style and common mistakes
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: install ## mypy --strict on the package
	@$(BIN)/mypy

sim: install ## 10,000 simulated worlds full of faults, against the five laws
	@$(BIN)/lockgate sim --seeds $(SEEDS)

soak: install ## hurt three nodes under writes for 30 minutes (MINUTES=…), compare every row; then fuzz the API
	@$(BIN)/python -m soak --minutes $(MINUTES)
	@$(BIN)/python -m soak fuzz --cases $(CASES)

soak-lake: install ## 2,000 interleavings of what several processes may do to a lake, 120 of them with a kill (RUNS=…, KILLS=…)
	@$(BIN)/python -m soak.lake --runs $(RUNS) --kills $(KILLS)

soak-moves: install ## ten switches and reverses under load, then 200 moves completed under heavy writes (FLIPS=…, ROUNDS=…)
	@$(BIN)/python -m soak.moves flips --flips $(FLIPS)
	@$(BIN)/python -m soak.moves renames --rounds $(ROUNDS)

matrix: install ## kill nodes at every state of every operator, break every way between them (half an hour)
	@$(BIN)/python -m soak.matrix --faults 20

matrix-moves: install ## kill nodes at every step of every command of a move (an hour)
	@$(BIN)/python -m soak.moves matrix

bench: install ## measure
	@$(BIN)/python -m bench

lock: $(UV) ## pin the dependencies anew; LOCK_ARGS=--upgrade takes the newest
	@$(UV) pip compile $(LOCK_FLAGS) $(LOCK_ARGS) pyproject.toml -o requirements.lock
	@$(UV) pip compile $(LOCK_FLAGS) $(LOCK_ARGS) pyproject.toml --all-extras --group dev \
		-c requirements.lock -o requirements-dev.lock
	@$(UV) pip compile $(LOCK_FLAGS) $(LOCK_ARGS) --group object-store -o requirements-object-store.lock

clean: ## remove the environment and all caches
	rm -rf $(VENV) .venv-lock $(STORE) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The locks hold versions and hashes and no address, so that they serve wherever packages come from.
LOCK_FLAGS := --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--custom-compile-command "make lock"

# The stamp is written last: an install that broke off is done again.
$(STAMP): requirements-dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "error: Lockgate needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1 || true)" >&2; \
		echo "hint: name a newer one, as in: make install PYTHON=python3.12" >&2; exit 1; }
	@echo "installing into $(VENV) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

# Spark runs on Java. Root on Debian gets it here; everybody else is told. Without it only what
# needs Spark fails, so an install does not.
java:
	@has() { [ "$$($(JAVA) -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1)" -ge $(JAVA_MIN) ] 2>/dev/null; }; \
	has && exit 0; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "installing Java $(JAVA_MIN) ..."; \
		$(APT) update >/dev/null; \
		$(APT) install -y --no-install-recommends openjdk-$(JAVA_MIN)-jre-headless >/dev/null 2>&1 || \
		$(APT) install -y --no-install-recommends default-jre-headless >/dev/null 2>&1; \
	fi; \
	has || { \
		echo "warning: Spark needs Java $(JAVA_MIN) or newer, and '$(JAVA)' is none" >&2; \
		echo "hint: install one (Debian: apt-get install openjdk-$(JAVA_MIN)-jre-headless), or set JAVA_HOME" >&2; }

# Hooks of moves are tested against a real PgBouncer. Root on Debian gets it here, without its service:
# while there is a policy that says no, a package starts none. Elsewhere those tests are skipped.
POLICY := /usr/sbin/policy-rc.d
pgbouncer:
	@PATH="$$PATH:/usr/sbin"; command -v pgbouncer >/dev/null && exit 0; \
	[ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null || exit 0; \
	echo "installing PgBouncer, for tests ..."; \
	[ -e $(POLICY) ] || { trap 'rm -f $(POLICY)' EXIT; \
		printf '#!/bin/sh\nexit 101\n' >$(POLICY); chmod 755 $(POLICY); }; \
	$(APT) update >/dev/null; \
	$(APT) install -y --no-install-recommends pgbouncer >/dev/null 2>&1 || \
		echo "warning: PgBouncer could not be installed; its tests are skipped" >&2

# An S3 store for tests, in an environment of its own: it wants other versions than we do.
object-store: $(STORE)/.installed

$(STORE)/.installed: requirements-object-store.lock
	@echo "installing an S3 store, for tests ..."
	@$(PYTHON) -m venv $(STORE)
	@$(STORE)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes \
		-r requirements-object-store.lock
	@touch $@

$(UV):
	@$(PYTHON) -m venv .venv-lock
	@.venv-lock/bin/python -m pip install --quiet --disable-pip-version-check "uv>=0.9"
