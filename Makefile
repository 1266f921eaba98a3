# `make demo` and `make test` need nothing but Python 3.11 or newer and a package index; both install what they need into .venv.

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
DEMO := .venv/.installed-demo
DEV := .venv/.installed-dev
ARGS ?=

# Several processes share few cores: one thread each is faster than many that wait for each other.
export OMP_NUM_THREADS ?= 1

.DEFAULT_GOAL := help
.PHONY: help setup demo test slow lint check clean

help: ## Show this list.
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /make \1\t/' | expand -t 14

setup: $(DEV) ## Make .venv and install dpepo with everything its demo, tests and benchmarks need.

demo: $(DEMO) ## Run the demonstration (about ten minutes); options: make demo ARGS="--seed 1 --out runs/demo-1".
	$(BIN)/dpepo demo $(ARGS)

test: $(DEV) ## Run the tests; a part of them: make test ARGS=tests/runs.
	$(BIN)/python -m pytest -m "not slow" $(ARGS)

slow: $(DEV) ## Run the tests that take minutes: all thirty ScienceWorld tasks, ten thousand episodes on a page.
	$(BIN)/python -m pytest -m slow $(ARGS)

lint: $(DEV) ## Style, types and import rules.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint test ## Everything that has to be green before a change goes in.

clean: ## Remove .venv and caches; run folders stay.
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

# Everything for the tests includes ALFWorld, whose planner is built from source (g++); the demo does not need that.
$(DEMO): EXTRA := demo
$(DEV): EXTRA := dev
$(DEMO) $(DEV): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "dpepo needs Python 3.11 or newer. Install it, or name it: make $(MAKECMDGOALS) PYTHON=/path/to/python"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[$(EXTRA)]'
	@touch $@
