# make quickstart   set up, then run the complete pipeline on the embedded example
# make test         run every test that this machine supports
# make lint         run only the static checks of "make test": ruff and mypy
# make components   build torchvision and torchaudio from source and test them (about 15 minutes)
# make on-demand    run the tests that "make test" leaves out because they take long (about an hour)
# make bench        measure xpubuild beside its peers: one table, one JSON document (BENCH_ARGS="--all": an hour)
# make mutants      change the code in random places and list the changes that no test detects
# make caches       build torchvision twice through an empty compile cache, at two paths, and time it (about 15 minutes)
# make wheels       repair built wheels (WHEELS) and verify them (PARTS) in a root file system without compiler or oneAPI
# make slurm       job scripts on a real Slurm: time limits, a killed node daemon (as root; about 10 minutes)
# make torture      kill, starve and mislead real installs at random, and count what became of them
# make verify-mutants  break operators of torch (VERIFY_PYTHON) and list what verify does not notice
# make verify-good-runs  run verify again and again on a good torch (VERIFY_PYTHON) and list false alarms
# make jobs-replay  replay compilations as processes that hold their memory, below a real limit (as root; about 10 minutes)
# make docs         regenerate docs/reference, docs/schema and docs/checks
# make plans        rewrite tests/data/plans: what each step of a few plans runs, with which environment; tests/data/images
# make views        rewrite tests/data/views: what a person reads of five documents
# make image-evidence  build images with buildah from nothing and use them (as root, about half an hour)
# make image-guide  run the commands of docs/how-to/ci-images.md as they stand (as root, about half an hour)
# make browser      open the page of "xpubuild report" and the site in chromium: widths, console, accessibility
# make site         build the documentation as a site into site/, and check its links
# make release      build sdist, wheel and the site of the documentation into dist/
# make clean        remove .venv and caches, but no workspaces (see: xpubuild clean)
#
# PYTHON=... is the interpreter that .venv is made with, PYTEST_ARGS=... goes to pytest.
# IMAGE_ARGS=... goes to scripts/image-evidence.py and image-guide.py, MUTANTS_ARGS=... to scripts/mutants.py, TORTURE_ARGS=... to scripts/torture.py,
# CACHE_ARGS=... to scripts/cache-evidence.py with the new folder FOLDER (--help lists the options).

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
.PHONY: help quickstart test collected lint on-demand bench mutants slurm torture verify-mutants verify-good-runs docs plans views \
	components caches \
	wheels browser jobs-replay \
	image-evidence image-guide site release clean python-gone

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

components: .venv/.dev
	@"$(PY)" -m pytest -n 0 -v --on-demand tests/e2e/test_components.py

caches: .venv/.dev
	@"$(PY)" scripts/cache-evidence.py "$(FOLDER)" $(CACHE_ARGS)

on-demand: .venv/.dev
	@"$(PY)" -m pytest $(PYTEST_ARGS) --on-demand -m on_demand

browser: .venv/.dev
	@"$(PY)" -m pip install --quiet --group browser
	@"$(PY)" -m pytest -n 0 -v --on-demand tests/integration/test_report_browser.py tests/integration/test_site.py

bench: .venv/.dev
	@"$(PY)" scripts/bench.py $(BENCH_ARGS)

mutants: .venv/.dev
	@"$(PY)" scripts/mutants.py $(MUTANTS_ARGS)

wheels: .venv/.installed
	@sh scripts/portable-root.sh "$(PY)" "$(FOLDER)" "$(RUNTIME)" "$(PARTS)" $(WHEELS)

slurm: .venv/.dev
	@"$(PY)" -m pytest -n 0 -v --on-demand tests/e2e/test_slurm.py tests/e2e/test_slurm_faults.py

torture: .venv/.dev
	@"$(PY)" scripts/torture.py $(TORTURE_ARGS)

verify-mutants:
	@"$(VERIFY_PYTHON)" scripts/operator-mutants.py $(MUTANTS_ARGS)

verify-good-runs: .venv/.dev
	@"$(PY)" scripts/verify-good-runs.py --python "$(VERIFY_PYTHON)" $(GOOD_RUNS_ARGS)

# 16 cores and 32 GiB: pytorch/pytorch issue 124018. REPLAY_ARGS="PROFILE --cores N ..." replays another build.
REPLAY := docs/evidence/jobs-by-memory
jobs-replay: .venv/.dev
ifdef REPLAY_ARGS
	@"$(PY)" scripts/replay-jobs.py $(REPLAY_ARGS)
else
	@"$(PY)" scripts/replay-jobs.py $(REPLAY)/heavy.csv --cores 16 --memory-gib 32 --default-gib 2 --prior flash=5
	@"$(PY)" scripts/replay-jobs.py $(REPLAY)/light.csv --cores 4 --memory-gib 32 --time-scale 4
endif

docs: .venv/.dev
	@"$(PY)" scripts/learn-known-failures.py
	@"$(PY)" scripts/generate-docs.py

plans: .venv/.dev
	@"$(PY)" scripts/update-plans.py

views: .venv/.dev
	@PYTHONPATH=tests "$(PY)" -m support.view_files

image-evidence: .venv/.dev
	@"$(PY)" scripts/image-evidence.py $(IMAGE_ARGS)

image-guide: .venv/.dev
	@"$(PY)" scripts/image-guide.py $(IMAGE_ARGS)

site: .venv/.dev
	@"$(PY)" -m sphinx -E -W --keep-going -q -c scripts/site . site

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
