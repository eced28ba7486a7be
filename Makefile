# Two commands do everything on a fresh clone: `make demo` and `make test`.
# They need Python >= 3.10 with venv, make, and a package index.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# The test machine's cores; 2 workers keep memory small.
JOBS   ?= auto

.PHONY: demo test lint types imports unit test-full gpu-test docs clean

demo: $(VENV)/.demo
	$(BIN)/python examples/demo.py

test: $(VENV)/.test lint types imports unit

lint:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types:
	$(BIN)/mypy

imports:
	$(BIN)/lint-imports

unit:
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal

# Also the checks that take minutes: every pooler under inductor, large half-precision graphs, recompilations.
test-full: $(VENV)/.test
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal --full

# All conformance checks on CUDA; skipped where there is none.
gpu-test: $(VENV)/.test
	$(BIN)/python -m pytest tests/gpu -rs

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) -c constraints.txt -e .
	touch $@

$(VENV)/.test: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) -c constraints.txt -e '.[test]'
	touch $@ $(VENV)/.demo

docs: $(VENV)/.docs
	$(BIN)/python docs/_tools/reference.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --site-dir site

$(VENV)/.docs: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) -c constraints.txt -e '.[docs]'
	touch $@ $(VENV)/.demo

clean:
	rm -rf $(VENV) build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache site
