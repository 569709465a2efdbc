# make quickstart      set up, then run the complete pipeline on the embedded example
# make test            run every test that this machine supports, and the static checks
# make bench           measure xpubuild beside its peers: one table, one JSON document (BENCH_ARGS="--all": an hour)
# make mutants         change the code in random places and list the changes that no test detects
# make verify-mutants  break operators of torch (VERIFY_PYTHON) and list what verify does not notice
# make torture         kill, starve and mislead real installs at random, and count what became of them
# make regen           rewrite everything that is generated: docs, schemas, stored plans and views
# make xpu             build a recipe for XPU, audit it, run it on the stand-in device (RECIPE=2.6 WORKSPACE=DIR; hours, resumable)
#
# CONTRIBUTING.md lists what else there is to run. PYTHON=... is the interpreter that .venv is made with, PYTEST_ARGS=... goes to
# pytest, MUTANTS_ARGS=..., TORTURE_ARGS=... and BENCH_ARGS=... to the scripts of these names (--help lists the options).

# Paths are relative and quoted: the checkout may lie in a folder with spaces.
PYTHON ?= python3
PYTEST_ARGS ?= -n 3 --dist loadgroup
PY := .venv/bin/python
# The tests start the program some thousand times: compiled once, not by each of them.
unexport PYTHONDONTWRITEBYTECODE
# An interpreter with torch 2.10 or newer.
VERIFY_PYTHON ?= python3
PY_WORKS := $(shell test -x "$(PY)" && echo yes)

.DEFAULT_GOAL := help
.PHONY: help quickstart test collected lint bench mutants verify-mutants torture regen xpu release clean python-gone

help:
	@sed -n 's/^# \(make .*\)/\1/p' Makefile

quickstart: .venv/.installed
	@"$(PY)" -m xpubuild install quickstart

test: .venv/.dev
	@$(MAKE) --no-print-directory -j 2 lint collected
	@"$(PY)" -m pytest $(PYTEST_ARGS)

# Each worker would rewrite the assertions of all tests at the same time. What fails here fails again there.
collected: .venv/.dev
	@"$(PY)" -m pytest -q -n 0 --collect-only >/dev/null 2>&1 || :

lint: .venv/.dev
	@"$(PY)" -m ruff check .
	@"$(PY)" -m ruff format --check .
	@"$(PY)" -m mypy
	@MYPYPATH=tests "$(PY)" -m mypy tests/conftest.py tests/support scripts/generate-docs.py scripts/mutants.py scripts/torture.py \
		scripts/mutation/recorder.py scripts/update-plans.py
	@MYPYPATH=tests:scripts "$(PY)" -m mypy scripts/bench.py

bench: .venv/.dev
	@"$(PY)" scripts/bench.py $(BENCH_ARGS)

mutants: .venv/.dev
	@"$(PY)" scripts/mutants.py $(MUTANTS_ARGS)

torture: .venv/.dev
	@"$(PY)" scripts/torture.py $(TORTURE_ARGS)

verify-mutants:
	@"$(VERIFY_PYTHON)" scripts/operator-mutants.py $(MUTANTS_ARGS)

regen: .venv/.dev
	@"$(PY)" scripts/pin-embedded.py
	@"$(PY)" scripts/generate-docs.py
	@"$(PY)" scripts/update-plans.py
	@PYTHONPATH=tests:scripts "$(PY)" -m support.view_files

# MIRROR=DIR builds without a network, ONEAPI_ROOT=DIR uses that oneAPI, XPU_ARGS=... goes to install. An interrupted run is continued.
XPUBUILD := "$(PY)" -m xpubuild
xpu: .venv/.installed
	@test -n "$(RECIPE)" -a -n "$(WORKSPACE)" || { echo "make xpu: set RECIPE and WORKSPACE, such as RECIPE=2.6 WORKSPACE=/local/xpu" >&2; exit 2; }
	@$(XPUBUILD) install "$(RECIPE)" --target xpu --workspace "$(WORKSPACE)" $(if $(MIRROR),--mirror "$(MIRROR)" --offline) \
		$(if $(ONEAPI_ROOT),--oneapi-root "$(ONEAPI_ROOT)") $(XPU_ARGS)
	@$(XPUBUILD) status "$(WORKSPACE)" --html "$(WORKSPACE)/report.html"
	@$(XPUBUILD) check "$(WORKSPACE)"/wheels/torch-*.whl
	@$(XPUBUILD) verify --workspace "$(WORKSPACE)" --device xpu --stand-in --suite full
	@$(XPUBUILD) verify --workspace "$(WORKSPACE)" --device xpu --stand-in --suite operators

release: .venv/.dev
	@sh scripts/release.sh "$(PY)"

clean:
	rm -rf .venv build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis .mutants .torture .bench

# The files below are stamps: with them the second run of a target needs no network.
.venv/.made: $(if $(PY_WORKS),,python-gone)
	@sh scripts/make-venv.sh "$(PYTHON)" .venv

.venv/.installed: pyproject.toml .venv/.made
	@echo "installing xpubuild into .venv"
	@sh scripts/pip-at-least.sh "$(PY)" 21.3
	@"$(PY)" -m pip install --quiet --editable .
	@touch $@

.venv/.dev: pyproject.toml .venv/.installed
	@echo "installing the development tools into .venv"
	@sh scripts/pip-at-least.sh "$(PY)" 25.1
	@"$(PY)" -m pip install --quiet --group dev
	@touch $@
