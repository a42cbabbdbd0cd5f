# Every target makes what it needs, from `python3` and `make` alone.
.DEFAULT_GOAL := help
.PHONY: help install demo test check docs bench lock
VENV := .venv
PY := $(VENV)/bin/python
# Once, beforehand: otherwise every process compiles what it calls.
COMPILE := $(PY) -m payoff.kernels
PIP = $(PY) -m pip install --quiet --disable-pip-version-check $(PIP_FLAGS)

help:  ## list the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

# Debian ships python3 without the venv module: where it is missing and we may, install it.
$(PY):
	@python3 -c 'import ensurepip, venv' 2>/dev/null || { echo "installing python3-venv"; \
	  SUDO=$$([ "$$(id -u)" = 0 ] || echo sudo); $$SUDO apt-get update -qq && $$SUDO apt-get install -y -qq python3-venv >/dev/null; }
	@python3 -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Payoff needs Python 3.11 or later")'
	python3 -m venv $(VENV)

$(VENV)/installed: requirements.lock pyproject.toml clients/python/pyproject.toml | $(PY)
	@echo "installing the pinned dependencies into $(VENV)"
	@$(PIP) --require-hashes -r requirements.lock
	@$(PIP) --no-deps --no-build-isolation --editable . --editable clients/python
	@touch $@

# All of the above and more, in one go.
$(VENV)/installed-dev: requirements-dev.lock clients/python/tests/requirements.lock pyproject.toml clients/python/pyproject.toml | $(PY)
	@echo "installing the pinned dependencies and development tools into $(VENV)"
	@$(PIP) --require-hashes -r requirements-dev.lock
	@$(PIP) --require-hashes --no-deps --upgrade --target $(VENV)/pandas -r clients/python/tests/requirements.lock
	@$(PIP) --no-deps --no-build-isolation --editable . --editable clients/python
	@touch $(VENV)/installed $@

install: $(VENV)/installed  ## make the environment .venv, and compile the loops
	@$(COMPILE)

demo: install  ## train, predict and explain on real data over HTTP, then go on serving (EXIT=1: stop; PORT=8001)
	@$(VENV)/bin/payoff demo $(if $(EXIT),--exit) $(if $(PORT),--port $(PORT))

# $(call step,name,command): run the command and print how long it took.
step = echo "$(1)" && began=$$(date +%s) && $(2) && echo "$(1) took $$(($$(date +%s) - began)) s"

# Jobs run at niceness 19 and would starve beside tests that are not nice.
# Only where all tests run: tracing takes a fifth of the time, and the floor is that of all.
COVERAGE := $(if $(PAYOFF_TESTS),--cov --cov-report=)
PYTEST := nice -n 19 $(PY) -m pytest -r fE --dist=loadfile

test: $(VENV)/installed-dev  ## run the tests; with PAYOFF_TESTS=slow what CI runs, with thorough all of them
	@$(call step,kernels,$(COMPILE))
	@$(call step,tests,$(PYTEST) --numprocesses=4 --no-loadscope-reorder $(COVERAGE))
	@$(call step,tests of the client,$(PYTEST) --numprocesses=2 clients/python/tests)

check: $(VENV)/installed-dev  ## format, lint, names, types, import contracts, docs, tests: what CI runs
	@{ $(COMPILE); } & \
	$(call step,format,$(VENV)/bin/ruff format --check --quiet .) && \
	$(call step,lint,$(VENV)/bin/ruff check --quiet .) && \
	$(call step,names,$(PY) tools/names.py app payoff clients/python/payoff_client) && \
	$(call step,types,$(VENV)/bin/mypy) && \
	$(call step,contracts,$(VENV)/bin/lint-imports) && \
	$(call step,docs,$(MAKE) --no-print-directory docs) && wait
	@$(MAKE) --no-print-directory test

# Without --quiet: it hides warnings before strict mode counts them.
docs: $(VENV)/installed-dev  ## build the documentation to site/
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --clean

bench: install  ## measure single requests and batches beside other servers, and print the table of benchmarks/serving.md
	@$(PY) benchmarks/serving.py 5

LOCK := uv pip compile pyproject.toml --extra service --extra build --universal --python-version 3.11 --generate-hashes \
  --no-emit-index-url --no-emit-find-links --no-header --quiet

lock:  ## renew the lock files (needs uv)
	$(LOCK) --output-file requirements.lock
	$(LOCK) --extra scale --constraint requirements.lock --output-file requirements-scale.lock
	$(LOCK) --no-strip-extras --extra scale --extra dev --constraint requirements-scale.lock --output-file requirements-dev.lock
	echo "pandas>=3.0" | $(subst pyproject.toml --extra service --extra build,- --no-deps,$(LOCK)) --output-file clients/python/tests/requirements.lock
