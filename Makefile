# Each goal sets itself up: the first one that runs makes .venv.
VENV := .venv
PYTHON := $(VENV)/bin/python
READY := $(VENV)/.ready
SEARCH_ARGS ?= --workload udf --overwrite

.PHONY: help search test check lint bench clean
.DEFAULT_GOAL := help

help:  ## This list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 10

$(READY): pyproject.toml constraints.txt
	python3 -m venv $(VENV)
	$(PYTHON) -m pip install --quiet --constraint constraints.txt --editable '.[dev,cartpole,notebooks]'
	touch $@

search: $(READY)  ## Find the best num_worker_threads for the recipe's UDF, on this machine
	$(PYTHON) -m tuner.search $(SEARCH_ARGS)

test: $(READY)  ## Every test
	$(PYTHON) -m pytest

lint: $(READY)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

check: lint test  ## The whole gate: lint, format, types, imports, every test

bench: $(READY)  ## Speed and memory, as ratios of things measured in the same run
	$(PYTHON) -m tests.benchmarks

clean:  ## Remove what the other goals made
	rm -rf $(VENV) .bench-venv build *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
