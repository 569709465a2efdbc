"""The wheel carries everything, and works from a foreign environment as it does from a checkout."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from support.documents import check
from support.imports import PACKAGE, ROOT

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("packaging")]

#: What the build of a wheel reads, apart from the package.
SOURCES = (
    "pyproject.toml",
    "README.md",
    "LICENSE",
    ".gitignore",
    "recipes",
    "scripts",
    "xpubuild",
)
NAMED = (
    "xpubuild/py.typed",
    "xpubuild/host/pci_ids.yaml",
    "xpubuild/oneapi/bundles.yaml",
    "xpubuild/ops/embedded.yaml",
    "xpubuild/verify/suite/run.py",
    "xpubuild/planning/planner.py",
    "xpubuild/_data/recipes/quickstart.yaml",
    "xpubuild/_data/ci/job.sh",
    "xpubuild/_data/setvars/capture.sh",
    "xpubuild/_data/setvars/activate.sh",
    "xpubuild/_data/setvars/activate.fish",
)


def expected_files() -> set[str]:
    """Return what the wheel must hold besides its metadata."""
    found = set()
    places = (
        (PACKAGE, "xpubuild"),
        (ROOT / "recipes", "xpubuild/_data/recipes"),
        (ROOT / "scripts" / "setvars", "xpubuild/_data/setvars"),
        (ROOT / "scripts" / "ci", "xpubuild/_data/ci"),
    )
    for folder, place in places:
        for path in folder.rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                found.add(f"{place}/{path.relative_to(folder).as_posix()}")
    return found


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from a copy, in a folder with a space: building must not need the checkout's .git."""
    source = tmp_path_factory.mktemp("wheel") / "söurce tree"
    source.mkdir()
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, source / name)
    out = source.parent / "out"
    argv = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--wheel-dir",
        str(out),
        str(source),
    ]
    subprocess.run(argv, check=True, timeout=300)
    (made,) = out.glob("*.whl")
    return made


def test_the_wheel_holds_every_file(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
    metadata = {name for name in names if name.split("/")[0].endswith(".dist-info")}
    expected = expected_files()
    assert set(NAMED) <= expected
    assert names - metadata == expected
    assert any(name.endswith("LICENSE") for name in metadata)


def test_programs_stay_executable(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        modes = {item.filename: item.external_attr >> 16 for item in archive.infolist()}
    for path in (ROOT / "scripts" / "setvars").iterdir():
        assert bool(modes[f"xpubuild/_data/setvars/{path.name}"] & 0o100) == os.access(path, os.X_OK)


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel with its dependencies into a new environment; return the program."""
    env = tmp_path_factory.mktemp("foreign") / "an environment"
    subprocess.run([sys.executable, "-m", "venv", str(env)], check=True, timeout=300)
    python = env / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", str(wheel)], check=True, timeout=600)
    return env / "bin" / "xpubuild"


def run(program: Path, *arguments: str, status: int = 0) -> str:
    # The folder must not be the checkout, or `xpubuild` would be imported from there.
    result = subprocess.run(
        [program, *arguments], cwd=program.parent, capture_output=True, text=True, check=False, timeout=300
    )
    assert result.returncode == status, result.stderr
    return result.stdout


def document(program: Path, name: str, *arguments: str) -> dict[str, Any]:
    return check(json.loads(run(program, *arguments, "--json")), name)


def test_version(installed: Path) -> None:
    from xpubuild import __version__

    assert run(installed, "--version").split() == ["xpubuild", __version__]


def test_recipes_come_from_the_wheel(installed: Path) -> None:
    recipes = document(installed, "recipes", "recipes", "list")["recipes"]
    paths = {entry["name"]: Path(entry["path"]) for entry in recipes}
    assert paths["quickstart"].is_relative_to(installed.parent.parent)
    assert all(entry["error"] is None for entry in recipes)


def test_recipes_are_whole(installed: Path) -> None:
    assert document(installed, "recipes-check", "recipes", "check")["status"] == "ok"


def test_plan(installed: Path, tmp_path: Path) -> None:
    plan = document(installed, "plan", "plan", "quickstart", "--workspace", str(tmp_path / "wörk space"))
    assert {"env", "torch", "ops.source", "ops.wheel", "ops.install", "verify"} <= {
        step["id"] for step in plan["steps"]
    }
    assert str(ROOT) not in json.dumps({key: plan[key] for key in ("steps", "summary")})


def test_the_embedded_sources_are_whole(installed: Path, tmp_path: Path) -> None:
    """The pin of the recipe and the files in the wheel make the same commit."""
    plan = document(installed, "plan", "plan", "quickstart", "--workspace", str(tmp_path / "w"))
    (step,) = [step for step in plan["steps"] if step["id"] == "ops.source"]
    embed = step["commands"][0]["argv"]
    assert embed[:3] == ["xpubuild", "plumbing", "embed"]
    folder = tmp_path / "embedded söurces"
    run(installed, "plumbing", "embed", "ops", str(folder), "--commit", embed[-1])
    assert {path.name for path in folder.glob("*.git")} >= {"ops.git", "fused.git", "vecmath.git"}


def test_activation_finds_its_own_program(installed: Path, tmp_path: Path) -> None:
    (script,) = installed.parent.parent.glob("lib/python*/site-packages/xpubuild/_data/setvars/activate.sh")
    result = subprocess.run(
        ["bash", "-c", f'. "$1" --workspace "{tmp_path}"; echo status $?', "bash", str(script)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
    )
    assert "there is no workspace" in result.stderr
    assert "xpubuild was not found" not in result.stderr
