# make quickstart   set up, then run the whole pipeline on the embedded example
# make test         prove everything that can be proved on this machine
# make lint         the checks of "make test" that read the code without running it
# make docs         write the generated part of docs/ anew
# make clean        remove .venv and the caches; workspaces are left alone (see: xpubuild clean)
#
# PYTHON=... is the interpreter that .venv is made with, PYTEST_ARGS=... goes to pytest.

# Paths are relative and quoted: the checkout may lie in a folder with spaces.
PYTHON ?= python3
PYTEST_ARGS ?= -n 2 --dist loadgroup
PY := .venv/bin/python
PY_WORKS := $(shell test -x "$(PY)" && echo yes)

.DEFAULT_GOAL := help
.PHONY: help quickstart test lint docs clean python-gone

help:
	@sed -n 's/^# \(make .*\)/\1/p' Makefile

quickstart: .venv/.installed
	@"$(PY)" -m xpubuild install quickstart

test: lint
	@"$(PY)" -m pytest $(PYTEST_ARGS)

lint: .venv/.dev
	@"$(PY)" -m ruff check .
	@"$(PY)" -m ruff format --check .
	@"$(PY)" -m mypy
	@MYPYPATH=tests "$(PY)" -m mypy tests/conftest.py tests/support scripts/generate-docs.py

docs: .venv/.dev
	@"$(PY)" scripts/generate-docs.py

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

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
