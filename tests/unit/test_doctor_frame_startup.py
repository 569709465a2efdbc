"""What `xpubuild doctor` imports: a second is little, and half of it would be pydantic and rich."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

PROGRAM = """
import json, sys
sys.argv = ["xpubuild", *sys.argv[1:]]
from xpubuild.__main__ import main
try:
    main()
except SystemExit as leave:
    status = leave.code
json.dump({"status": status, "modules": sorted(sys.modules)}, sys.stderr)
"""
RUN = """
from xpubuild.__main__ import main
sys.argv = ["xpubuild", "doctor", "--only", "gpu.present"]
try:
    main()
except SystemExit:
    pass
"""
HEAVY = {"rich", "pydantic", "git", "requests", "jinja2", "virtualenv", "sqlite3", "asyncio", "filelock"}


def loaded(*arguments: str) -> tuple[int, set[str]]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, check=True, timeout=60
    )
    report = json.loads(done.stderr)
    return report["status"], {name.partition(".")[0] for name in report["modules"]}


def test_a_run_without_a_recipe_imports_nothing_heavy() -> None:
    """Modules of checks import what only a recipe needs inside their functions."""
    status, modules = loaded("doctor", "--json")
    assert status in (0, 10)
    assert not modules & HEAVY


def test_the_help_imports_nothing_at_all() -> None:
    status, modules = loaded("doctor", "--help")
    assert status == 0
    assert not modules & (HEAVY | {"yaml", "elftools", "packaging", "psutil"})


@pytest.mark.parametrize(
    ("program", "unwanted"),
    [("import xpubuild.machine.gpus", {"yaml"}), (RUN, {"xpubuild.doctor.bundle", "xml.etree.ElementTree"})],
)
def test_what_is_seldom_needed_is_imported_where_it_is_needed(program: str, unwanted: set[str]) -> None:
    told = f"import sys, json\n{program}\nprint(json.dumps(list(sys.modules)), file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", told], capture_output=True, text=True, check=True, timeout=60
    )
    assert not unwanted & set(json.loads(done.stderr))
