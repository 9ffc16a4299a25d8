# Bare `make` prints this help.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PEERS := $(VENV)/.peers
# More than the two cores that it should do on: tests wait for clocks and processes longer than they compute.
WORKERS ?= 5
# The same order and the same chance each time, so that a landing depends on the change alone.
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --randomly-seed=1 --randomly-dont-reorganize
# Each worker imports every file that it is given: those without a proof need not be.
PROOFS = $(shell grep -rl --include='test_*.py' 'mark\.prove' tests | LC_ALL=C sort)
MINUTES ?= 10
# Without bytecode on the disk, each worker compiles every test again and each start of a command all of Runward.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup dist deb demo demo-fleet screenshots test prove rest proofs goldens agents recorded sweep again explore soak bench check format clean

help: ## print this help
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## make .venv with Runward and its development tools

$(STAMP): pyproject.toml daemon/__init__.py
	@PYTHON="$(PYTHON)" VENV="$(VENV)" sh tests/project/setup.sh
	@touch $(STAMP)

demo: setup ## run real commands, judge them, show the verdicts (DEMO=all: each command with its output)
	@$(BIN)/python -m tests.demo.demo

demo-fleet: setup ## have three hosts share a list and their steps, pull a cable, and plug it in again (needs PostgreSQL's server)
	@$(BIN)/python -m tests.demo.fleet

screenshots: setup ## take a picture of every page of the Studio, in build/screenshots
	@$(BIN)/python -m tests.demo.screenshots

test: setup ## run the tests a person runs (seven minutes on two cores when last measured; the goal is four)
	@$(PYTEST) -m "not prove"

prove: check ## every test but the sweeps, with more of Hypothesis's examples, and the checkers
	@$(PYTEST) --hypothesis-profile=long -m "not sweep"

rest: check proofs ## the checkers, and the proofs that CI runs beyond `make test` (about a quarter of an hour)

proofs: setup
	@$(PYTEST) -m "prove and not sweep and not agents" $(PROOFS)

goldens: setup ## draw every golden screen again, in tests/golden/screens: read what has changed before you commit it
	@RUNWARD_GOLDENS=rewrite $(BIN)/python -m pytest -q -n 0 tests/daemon/cli/test_screens.py tests/daemon/cli/test_init.py -k 'file_has_it'

agents: setup ## the real agents against a scripted model
	@$(PYTEST) -m "agents and not sweep" tests/agents

recorded: setup ## the agents without the agents: their recordings (RUNWARD_TEST_MATERIAL) read, cut anywhere, and replayed to a daemon
	@$(PYTEST) tests/handlers/layouts/test_conversations.py tests/handlers/layouts/test_cline.py \
		tests/daemon/rundir/test_database_sessions.py tests/daemon/rundir/test_cut_recordings.py tests/daemon/watch/test_replays.py

sweep: setup ## every single point and seed, and thousands of cases, of what CI samples
	@$(PYTEST) -m sweep

again: setup ## run alone what failed last, if that was a test or a few
	@$(BIN)/python tests/project/again.py

explore: setup ## look for faults under new seeds and in sweeps for MINUTES=10; print what plays them again
	@$(BIN)/python -m tests.project.explore $(MINUTES)

soak: setup ## twenty minutes at 20 runs a second, then LAUNCHED runs: what the daemon holds must stay the same
	@RUNWARD_SOAK_MINUTES=20 RUNWARD_SOAK_LAUNCHED=$(or $(LAUNCHED),100000) $(BIN)/python -m pytest -n 0 -s -q tests/proof/test_soak.py

bench: $(PEERS) ## measure all, or ONLY=a,b; a loaded machine is "not measured" (python -m tests.bench.run --list)
	@$(BIN)/python -m tests.bench.run $(if $(ONLY),--only $(ONLY)) $(if $(JSON),--json $(JSON))

# Without them the figures that need them are not measured, and say so.
$(PEERS): $(STAMP)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]' && touch $(PEERS) || true

check: setup ## ruff and mypy
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: setup ## let ruff format and fix what it can
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

dist: setup ## the wheel and the sdist in dist/, the same bytes for the same commit
	@rm -rf dist
	@$(BIN)/python -m hatchling build -d dist

deb: dist ## the Debian package in dist/, for the Python in /usr/bin (DEB_PYTHON=...)
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python deb/build.py dist

clean: ## remove what was built
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
