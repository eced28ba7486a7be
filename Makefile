# Two commands do everything on a fresh clone: `make demo` and `make test`.
# They need Python >= 3.10 with venv, make, and a package index.

PYTHON ?= python3
VENV   ?= .venv
ifeq ($(OS),Windows_NT)
BIN    := $(VENV)/Scripts
else
BIN    := $(VENV)/bin
endif
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# Worker processes of the test suite.
JOBS   ?= auto

.PHONY: demo install test check quick lint types imports unit test-full fuzz soak matrix gpu-test coverage lowest docs dist clean

demo:
	@start=$$(date +%s) && $(MAKE) --no-print-directory $(VENV)/.demo && \
	  $(BIN)/python examples/demo.py --install-seconds $$(( $$(date +%s) - start ))

install: $(VENV)/.test

test: check unit

check: $(VENV)/.test
	$(MAKE) lint types imports

# For the inner loop: lint, types, and the tests of the packages that differ from the last commit.
quick: $(VENV)/.test
	$(MAKE) lint types
	$(BIN)/python -m tests.meta.changed

lint:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types:
	$(BIN)/mypy

imports:
	$(BIN)/lint-imports

unit: $(VENV)/.test
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal

# Also the checks that take minutes: every pooler under inductor, large half-precision graphs, recompilations,
# and thousands of wrong calls.
test-full: $(VENV)/.test
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal --full

# Stores from strangers: all mutations through all consumers, kernels with bounds checks, and coverage-guided fuzzing if
# atheris is installed (pip install -e '.[fuzz]'). FUZZ_SECONDS=3600 fuzzes for an hour.
FUZZ_SECONDS ?= 300
fuzz: $(VENV)/.test
	$(BIN)/python -m tests.store.mutation_runner --jobs 2
	NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(abspath $(VENV))/numba-boundscheck $(BIN)/python -m pytest -n $(JOBS) \
	  --dist worksteal -m 'not slow' tests/store tests/data tests/kernels/test_gather.py tests/kernels/test_gather_oracle.py
	$(BIN)/python -m tests.fuzz.store_fuzz --seconds $(FUZZ_SECONDS) --findings $(VENV)/fuzz-findings

# All figures of docs/reliability.md with full numbers, some hours. It continues where it stopped.
SOAK_SECONDS ?= inf
soak: $(VENV)/.test
	$(BIN)/python -m tests.reliability.run --seconds $(SOAK_SECONDS)

# The package in fresh environments: all ways to install, all versions of Python that this machine has.
matrix: $(VENV)/.test
	$(BIN)/python -m tests.release.matrix

# All conformance checks on CUDA; skipped without a GPU.
gpu-test: $(VENV)/.test
	$(BIN)/python -m pytest tests/gpu -rs

# Branch coverage, without slow tests. Neither compiled kernels (tgp/kernels) nor commands in other processes are traced.
coverage: $(VENV)/.test
	$(PIP) -c constraints.txt pytest-cov
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m 'not slow' --cov --cov-report=term:skip-covered --cov-report=html

# The suite with the oldest versions that pyproject.toml allows. uv is the installer that can resolve them.
lowest:
	$(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python -m pip install --quiet uv
	.venv-lowest/bin/uv pip install --quiet --python .venv-lowest --resolution lowest-direct -e '.[test]'
	$(MAKE) unit VENV=.venv-lowest

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -c constraints.txt -e .
	touch $@

$(VENV)/.test: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -c constraints.txt -e '.[test]'
	touch $@ $(VENV)/.demo

.venv-lowest/.test:
	touch $@

docs: $(VENV)/.docs
	$(BIN)/python docs/_tools/reference.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --site-dir site

$(VENV)/.docs: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -c constraints.txt -e '.[docs]'
	touch $@ $(VENV)/.demo

# Wheel and sdist in dist/, checked as the package index checks them.
dist: | $(BIN)/python
	rm -rf dist
	$(PIP) build twine
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m twine check --strict dist/*

clean:
	rm -rf $(VENV) .venv-lowest build dist htmlcov .coverage *.egg-info .pytest_cache .mypy_cache .ruff_cache \
	  .hypothesis .import_linter_cache site
