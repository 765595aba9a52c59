# Each goal sets itself up: the first one that runs makes .venv.
VENV := .venv
PYTHON := $(VENV)/bin/python
READY := $(VENV)/.ready
SUDO := $(shell test "$$(id -u)" = 0 || echo sudo --preserve-env=DEBIAN_FRONTEND)
# Without byte code every process compiles all modules again, half of its start.
unexport PYTHONDONTWRITEBYTECODE
SIMULATE_ARGS ?= --sessions 50
SEARCH_ARGS ?= --workload udf --overwrite

.PHONY: help search quick chromium postgresql test check lint bench simulate claims pictures clean
.DEFAULT_GOAL := help

help:  ## This list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 12

$(READY): pyproject.toml constraints.txt
	python3 -m venv $(VENV)
	$(PYTHON) -m pip install --quiet --constraint constraints.txt --editable '.[dev,cartpole,notebooks,postgresql]'
	touch $@

search: $(READY)  ## Find the best num_worker_threads for the recipe's UDF, on this machine
	$(PYTHON) -m tuner.search $(SEARCH_ARGS)

chromium:  ## Install the browser that the tests open pages in, if there is none
	@test -n "$$CHROMIUM" || command -v chromium >/dev/null || command -v chromium-browser >/dev/null \
	|| command -v google-chrome >/dev/null \
	|| if command -v apt-get >/dev/null; then \
		$(SUDO) apt-get update && DEBIAN_FRONTEND=noninteractive \
		$(SUDO) apt-get install -y --no-install-recommends chromium; \
	else \
		echo "The tests open pages in Chromium: install it, or set CHROMIUM to its path." >&2; exit 1; \
	fi

postgresql:  ## Install the database server that the tests start for themselves, if there is none
	@command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 \
	|| if command -v apt-get >/dev/null; then \
		$(SUDO) apt-get update && DEBIAN_FRONTEND=noninteractive \
		$(SUDO) apt-get install -y --no-install-recommends postgresql; \
	else \
		echo "The tests start a PostgreSQL server: install it, initdb on the PATH." >&2; exit 1; \
	fi

# Worlds and browsers mostly wait, so three files run at a time, each process in its own network.
test: $(READY) chromium postgresql  ## Every test
	$(PYTHON) -m pytest -n auto -m "not world and not browser"
	$(PYTHON) -m pytest -n 3 --dist loadfile -m "world or browser"

quick: lint  ## For everyday work: lint, types, imports, and every test that starts no world and is not slow
	$(PYTHON) -m pytest -q -n auto --hypothesis-profile=quick -m "not world and not browser and not slow"

lint: $(READY)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

check: lint test  ## The whole gate: lint, format, types, imports, every test

bench: $(READY)  ## Speed and memory, as ratios of things measured in the same run; PARTS=world_cost runs that alone
	$(PYTHON) -m tests.benchmarks $(PARTS)

simulate: $(READY)  ## How often the search and six other methods are right, on a simulated noisy machine
	$(PYTHON) -m tests.simulation $(SIMULATE_ARGS)

claims: $(READY)  ## How often searches of real worlds are right, where the truth is known (CLAIM=same, sleep, one_lock, agreement)
	$(PYTHON) -m tests.claims $(CLAIM) $(CLAIMS_ARGS)

pictures: $(READY) chromium  ## The README's output and pictures, measured anew
	$(PYTHON) -m tests.pictures

clean:  ## Remove what the other goals made
	rm -rf $(VENV) .bench-venv build *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
