# Verbs: demo test lint suite bench-masks bench-grammars bench-engine bench-constrained. Each creates .venv by itself, or reuses
# it: the environment is made again only when pyproject.toml changes, and needs no network otherwise. The package is installed
# as a user has it, not as a link to the sources, so that what is tested and type-checked is what is shipped.

PYTHON ?= $(firstword $(foreach name,python3.11 python3.12 python3.13 python3,$(shell command -v $(name) 2>/dev/null)))
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --quiet --disable-pip-version-check

# Stamps are named by what they depend on: an environment of another pyproject.toml is not up to date, whatever its dates say.
KEY       := $(shell sha256sum pyproject.toml | cut -c1-12)
RUNTIME   := $(VENV)/.runtime-$(KEY)
DEVELOP   := $(VENV)/.develop-$(KEY)
INSTALLED := $(VENV)/.installed-$(KEY)
SOURCES   := $(shell find engine grammar plugins samplers \( -name '*.py' -o -name py.typed \) ! -path '*/.*')
FOLDERS   := $(shell find engine grammar plugins samplers -type d ! -name __pycache__ ! -path '*/.*')

# setuptools copies what it builds here, and would ship modules that are long gone.
LEFTOVERS := build/lib build/bdist.*

PYTEST ?=
SHORTER := $(if $(SAMPLE),--sample $(SAMPLE)) $(if $(SECONDS),--seconds $(SECONDS))

.DEFAULT_GOAL := help
.PHONY: help demo test lint suite bench-masks bench-engine bench-constrained bench-samplers bench-grammars bench-scale test-scale release-check walks docs families soak soak-constrained clean

help:
	@echo "make demo          ask the default model for JSON of a nested schema"
	@echo "make test          lint, then the tests (PYTEST='-k name' selects)"
	@echo "make lint          ruff, and mypy on the installed package"
	@echo "make suite         the official JSON Schema tests"
	@echo "make bench-masks   mask and compile times beside llguidance and xgrammar"
	@echo "make walks         random texts that masks allow, each ended and judged by jsonschema"
	@echo "make bench-grammars  the same for grammars instead of schemas"
	@echo "make bench-engine  prefill and decode speed beside llama.cpp"
	@echo "make bench-constrained  what constraints cost and save"
	@echo "make families      model families against PyTorch and transformers, which it installs"
	@echo "make soak          200 clients at a server for three minutes, a kill among them"
	@echo "make soak-constrained  a thousand constrained answers, then chaos"
	@echo "make bench-samplers     the sampling chain, beside transformers where it is installed"
	@echo "make bench-scale   two replicas on Ray Serve beside one"
	@echo "make test-scale    replicas on a Ray cluster: options, deaths, updates (about ten minutes)"
	@echo "make release-check wheel and sdist of the last commit, each alone in a new environment"
	@echo "make docs          the documentation's site, in build/site"
	@echo "make clean         remove the environment and what the verbs built"

demo: $(INSTALLED)
	@$(BIN)/python examples/demo.py

lint: $(DEVELOP) $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/mypy --cache-dir .mypy_cache -p slipcast.samplers -p slipcast.grammar -p slipcast.plugins -p slipcast.engine

test: lint
	$(BIN)/pytest -n 2 --dist loadfile $(PYTEST)

suite: $(DEVELOP) $(INSTALLED)
	@$(BIN)/python benchmarks/suite.py $(SHORTER)

families: $(DEVELOP) $(INSTALLED)
	@$(PIP) install --no-build-isolation '.[families]'
	@PYTHONPATH=tests/runtime $(BIN)/python -W ignore tests/runtime/golden.py

bench-masks: $(DEVELOP) $(INSTALLED)
	@$(BIN)/python benchmarks/masks.py $(SHORTER)

walks: $(DEVELOP) $(INSTALLED)
	@$(BIN)/python benchmarks/walks.py $(if $(SAMPLE),--schemas $(SAMPLE))

bench-grammars: $(DEVELOP) $(INSTALLED)
	@$(BIN)/python benchmarks/grammars.py $(if $(SAMPLE),--sample $(SAMPLE))

bench-engine: $(DEVELOP) $(INSTALLED)
	@$(BIN)/python benchmarks/engine.py $(SHORTER)

bench-constrained: $(DEVELOP) $(INSTALLED)
	@$(BIN)/python benchmarks/constrained.py $(SHORTER)

bench-samplers: $(DEVELOP) $(INSTALLED)
	@$(BIN)/python benchmarks/samplers.py $(if $(SAMPLE),--sample $(SAMPLE))

$(RUNTIME):
	@test -n "$(PYTHON)" || { echo "make: no Python 3.11 or newer on PATH; install one, or say make PYTHON=/path/to/python3.11" >&2; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "make: $(PYTHON) is older than Python 3.11; say make PYTHON=/path/to/python3.11" >&2; exit 2; }
	@echo "environment: creating $(VENV)"
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	@rm -f $(VENV)/.runtime-* $(VENV)/.develop-* $(VENV)/.installed-*
	@echo "environment: installing what slipcast needs (a few minutes the first time)"
	@$(PIP) install 'setuptools>=77'
	@$(BIN)/python -m pip --disable-pip-version-check install --no-build-isolation --progress-bar on . | grep --line-buffered -E 'Downloading|Installing' || true
	@$(BIN)/python -c 'import slipcast.engine'
	@touch $@

$(DEVELOP): | $(RUNTIME)
	@echo "environment: installing the tools for tests and lint"
	@rm -rf $(LEFTOVERS)
	@$(PIP) install --no-build-isolation '.[test,lint,bench]'
	@touch $@

$(INSTALLED): $(SOURCES) $(FOLDERS) pyproject.toml | $(RUNTIME)
	@rm -rf $(LEFTOVERS)
	@$(PIP) install --no-index --no-deps --no-build-isolation --force-reinstall .
	@touch $@

soak: $(DEVELOP) $(INSTALLED)
	@$(BIN)/python benchmarks/soak.py $(if $(SECONDS),--seconds $(SECONDS)) $(if $(CLIENTS),--clients $(CLIENTS))

soak-constrained: $(DEVELOP) $(INSTALLED)
	@$(BIN)/python benchmarks/soak_constrained.py $(SHORTER)

docs: $(DEVELOP) $(INSTALLED)
	@$(PIP) install --no-build-isolation '.[docs]'
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "the site is in build/site"

bench-scale: $(DEVELOP) $(INSTALLED)
	@$(PIP) install --no-build-isolation '.[ray]'
	@$(BIN)/python benchmarks/scale.py $(if $(SAMPLE),--requests $(SAMPLE)) $(if $(SECONDS),--seconds $(SECONDS))

test-scale: $(DEVELOP) $(INSTALLED)
	@$(PIP) install --no-build-isolation '.[ray,otel]'
	SLIPCAST_TEST_RAY=1 $(BIN)/pytest tests/test_scale_cluster.py tests/test_scale_front.py tests/test_scale_options.py $(PYTEST)

release-check: $(DEVELOP)
	@$(PIP) install build
	@$(BIN)/python tests/release.py

clean:
	rm -rf $(VENV) build slipcast.egg-info .mypy_cache .ruff_cache .pytest_cache
