# The doors of the house. Each target sets up what it needs; a second call goes straight to work.
#   PYTHON=python3.12 make test     build on another interpreter (3.11 or newer)
#   make test ARGS="-k masks"       hand arguments on

PYTHON ?= python3
VENV ?= .venv
ARGS ?=

export PYTHON VENV

# The version is part of the stamp's name, so that asking for another interpreter is noticed.
PYTHON_VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
STAMP := $(VENV)/.stamp-$(PYTHON_VERSION)

.PHONY: help setup demo test check bench clean
.DEFAULT_GOAL := help

help:
	@echo "make demo    set up, train a translator on the built-in world, translate, draw what it attended to"
	@echo "make test    set up, run all tests"
	@echo "make check   ruff, formatting and types"
	@echo "make bench   regard beside its peers, as ratios"
	@echo "make setup   only make $(VENV) and install regard with everything for development"
	@echo "make clean   remove caches and build leftovers; $(VENV) and runs/ stay"

$(STAMP)-core: pyproject.toml constraints.txt scripts/setup.sh
	@sh scripts/setup.sh core
	@touch $@

$(STAMP)-dev: pyproject.toml constraints.txt scripts/setup.sh
	@sh scripts/setup.sh dev
	@touch $@ $(STAMP)-core

$(STAMP)-bench: $(STAMP)-core
	@sh scripts/setup.sh bench
	@touch $@

setup: $(STAMP)-dev

demo: $(STAMP)-core
	$(VENV)/bin/regard demo $(ARGS)

# Two workers with one thread each keep two cores busy without fighting; a file stays with one worker.
test: $(STAMP)-dev
	OMP_NUM_THREADS=1 $(VENV)/bin/python -m pytest -n 2 --dist loadfile $(ARGS)

check: $(STAMP)-dev
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

bench: $(STAMP)-bench
	@set -e; for file in benchmarks/bench_*.py; do echo "== $$file"; $(VENV)/bin/python "$$file"; done

clean:
	rm -rf build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
