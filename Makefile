# The only commands that people and CI use. Every target does its own set-up.

CONFIG ?= serve_config.yaml
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin

# Which backend of MLX is installed: cpu, cuda12 or cuda13 on Linux; on a Mac it is in MLX itself.
MLX_EXTRA ?= $(if $(filter Darwin,$(shell uname -s)),,cpu)

# The first Python of 3.11 or newer; name another with `make PYTHON=...`.
PYTHON_IS_NEW := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11 python; do \
	$$python -c '$(PYTHON_IS_NEW)' >/dev/null 2>&1 && echo $$python && break; done)

# A stamp is as old as the last installation from these files.
INPUTS := pyproject.toml constraints.txt
RUNTIME := $(VENV)/installed-$(or $(MLX_EXTRA),metal)
DEV := $(RUNTIME)-dev

# openai-node, a judge of the streams; where there is no node, its tests are skipped.
NODE_CLIENT := tests/node/node_modules/installed
NODE := $(shell command -v node >/dev/null 2>&1 && command -v npm 2>/dev/null)

comma := ,
# torch by name and version: pip then prefers a local build for this platform to a newer large one.
install = $(BIN)/python -m pip install --quiet --disable-pip-version-check \
	--constraint constraints.txt torch==$(TORCH) --editable '.[$(1)]'
TORCH = $(shell sed -n 's/^torch==//p' constraints.txt)

# A shell that activates the environment gets Ray's variables with it, for `serve run`.
hook = grep -qF configs.ray_environment $(BIN)/activate || \
	echo 'eval "$$("$$VIRTUAL_ENV/bin/python" -m configs.ray_environment)"' >> $(BIN)/activate

.DEFAULT_GOAL := help
.PHONY: help serve test check fmt lint types bench clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-7s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

serve: $(RUNTIME) ## Serve the models of serve_config.yaml, or of another file: CONFIG=configs/...
	@exec $(BIN)/python -m deployments.launch '$(CONFIG)'

test: $(DEV) $(if $(NODE),$(NODE_CLIENT)) ## Run the tests; some of them: ARGS='tests/unit -k sse'
	@$(BIN)/python -m pytest $(ARGS)

check: $(DEV) ## Check format, lint, types and layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

fmt: $(DEV) ## Format the code and mend what can be mended
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: $(DEV) ## Check lint rules and layers
	$(BIN)/ruff check .
	$(BIN)/lint-imports

types: $(DEV) ## Check types
	$(BIN)/mypy

bench: $(RUNTIME) ## Measure a server that runs: ARGS='--help' lists what can be asked
	@$(BIN)/python -m benchmarks.online $(ARGS)

clean: ## Delete what was installed; needed before another MLX_EXTRA
	rm -rf $(VENV) tests/node/node_modules

$(BIN)/pip:
	@test -n '$(PYTHON)' || { echo 'Antiphon needs Python 3.11 or newer, and none was found on the PATH;' \
		'name one with make PYTHON=/path/to/python3.' >&2; exit 1; }
	@'$(PYTHON)' -c '$(PYTHON_IS_NEW)' || { echo 'Antiphon needs Python 3.11 or newer, and' \
		'$(PYTHON) is' "$$('$(PYTHON)' --version 2>&1)." >&2; exit 1; }
	'$(PYTHON)' -m venv $(VENV)

$(RUNTIME): $(INPUTS) | $(BIN)/pip
	@echo 'Installing Antiphon and what it needs into $(VENV): a few minutes the first time.'
	$(call install,$(MLX_EXTRA))
	@$(hook)
	@touch $@

$(DEV): $(INPUTS) | $(BIN)/pip
	@echo 'Installing Antiphon and its development tools into $(VENV): a few minutes the first time.'
	$(call install,$(MLX_EXTRA)$(if $(MLX_EXTRA),$(comma))dev)
	@$(hook)
	@touch $(RUNTIME) $@

$(NODE_CLIENT): tests/node/package.json
	@npm install --prefix tests/node --loglevel error && touch $@ || \
		echo 'npm could not install openai-node.' >&2
