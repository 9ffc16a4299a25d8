# Bare `make` prints this help.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
WORKERS ?= 2

.DEFAULT_GOAL := help
.PHONY: help setup demo test prove bench check format clean

help: ## print this help
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## make .venv with Runward and its development tools

$(STAMP): pyproject.toml daemon/__init__.py
	@PYTHON="$(PYTHON)" VENV="$(VENV)" sh tests/project/setup.sh
	@touch $(STAMP)

demo: setup ## run real commands, judge them, show the verdicts
	@$(BIN)/python tests/demo/demo.py

test: setup ## run the tests a person runs (under five minutes)
	@$(BIN)/python -m pytest -n $(WORKERS) -m "not prove"

prove: setup ## run every test (under thirty minutes), and the checkers
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/python -m pytest -n $(WORKERS)

bench: setup ## measure against the baseline; prints a table and JSON
	@$(BIN)/python tests/bench/run.py

check: setup ## ruff and mypy
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: setup ## let ruff format and mend what it can
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

clean: ## remove what was built
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
