# Entry points for users and developers. Each target installs what it needs; a second call skips the installation.
#   PYTHON=python3.12 make test     use another interpreter (3.11 or newer)
#   make test ARGS="-k masks"       pass arguments on

PYTHON ?= python3
VENV ?= .venv
ARGS ?=

export PYTHON VENV

# The stamp's name contains the Python version, so that another interpreter triggers a new installation.
PYTHON_VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
STAMP := $(VENV)/.stamp-$(PYTHON_VERSION)

.PHONY: help setup demo test check docs bench clean
.DEFAULT_GOAL := help

help:
	@echo "make demo    install, train a translator on the built-in dataset, translate, show its attention"
	@echo "make test    install, run all tests"
	@echo "make check   run ruff (lint and format) and mypy"
	@echo "make docs    build the documentation with the API reference into site/"
	@echo "make bench   measure regard against other tools, as ratios"
	@echo "make setup   create $(VENV) and install regard with everything for development"
	@echo "make clean   remove caches and build files; keep $(VENV) and runs/"

$(STAMP)-core: pyproject.toml constraints.txt scripts/setup.sh
	@sh scripts/setup.sh core
	@touch $@

$(STAMP)-dev: pyproject.toml constraints.txt scripts/setup.sh
	@sh scripts/setup.sh dev
	@touch $@ $(STAMP)-core

$(STAMP)-docs: $(STAMP)-core
	@sh scripts/setup.sh docs
	@touch $@

$(STAMP)-bench: $(STAMP)-core
	@sh scripts/setup.sh bench
	@touch $@

setup: $(STAMP)-dev

demo: $(STAMP)-core
	$(VENV)/bin/regard demo $(ARGS)

# Two workers with one thread each use two cores; all tests of a file run in one worker.
test: $(STAMP)-dev
	OMP_NUM_THREADS=1 $(VENV)/bin/python -m pytest -n 2 --dist loadfile $(ARGS)

check: $(STAMP)-dev
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

# docs/cli.md is generated and committed; a test fails when it is stale.
docs: $(STAMP)-docs
	$(VENV)/bin/python scripts/cli_docs.py
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict --quiet
	@echo "open site/index.html"

bench: $(STAMP)-bench
	@set -e; for file in benchmarks/bench_*.py; do echo "== $$file"; $(VENV)/bin/python "$$file"; done

clean:
	rm -rf build dist site src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
