"""The wheel carries everything, and works from a foreign environment as it does from a checkout."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
from integration.torch_env import install, new_env
from support.documents import check
from support.imports import PACKAGE, ROOT

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("packaging")]

NAMED = (
    "xpubuild/py.typed",
    "xpubuild/machine/pci_ids.yaml",
    "xpubuild/machine/oneapi_bundles.yaml",
    "xpubuild/ops/ops.bundle",
    "xpubuild/ops/vecmath.bundle",
    "xpubuild/verify/suite/run.py",
    "xpubuild/install/planner.py",
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
        *(
            (ROOT / "docs" / name, f"xpubuild/_data/docs/{name}")
            for name in ("how-to", "reference", "checks")
        ),
    )
    for folder, place in places:
        for path in folder.rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                found.add(f"{place}/{path.relative_to(folder).as_posix()}")
    return found


def sources() -> list[str]:
    """Return the files of the checkout that are sources, those that are not committed yet among them."""
    argv = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True)
    return [name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()]


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the sdist from a copy, in a folder with a space: building must not need the checkout's .git."""
    source = tmp_path_factory.mktemp("sdist") / "söurce tree"
    for name in sources():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, source / name)
    out = source.parent / "out"
    argv = [sys.executable, "-m", "build", "--sdist", "--outdir", str(out), str(source)]
    subprocess.run(argv, check=True, timeout=300, capture_output=True)
    (made,) = out.glob("*.tar.gz")
    return made


@pytest.fixture(scope="module")
def wheel(sdist: Path) -> Path:
    """Build the wheel from the sdist, as installers do that find no wheel."""
    argv = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir"]
    subprocess.run([*argv, str(sdist.parent), str(sdist)], check=True, timeout=300)
    (made,) = sdist.parent.glob("*.whl")
    return made


@pytest.mark.on_demand
def test_all_unit_tests_of_the_sdist_pass_alone(sdist: Path, tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "2", "tests/unit"]
    done = subprocess.run(argv, cwd=unpacked(sdist, tmp_path), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5000:]


def test_the_sdist_holds_every_source(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames() if archive.getmember(name).isfile()}
    assert names == {*sources(), "PKG-INFO"}


def unpacked(sdist: Path, folder: Path) -> Path:
    """Unpack the sdist; return its top folder."""
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (top,) = folder.iterdir()
    return top


def test_some_tests_of_the_sdist_pass_alone(sdist: Path, tmp_path: Path) -> None:
    """Those that look at pages and recipes; CONTRIBUTING.md has the command that runs all."""
    folder = unpacked(sdist, tmp_path)
    some = [f"tests/unit/test_{name}.py" for name in ("docs_pages", "recipe_facts")]
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", *some]
    env = {**os.environ, "PYTEST_DEBUG_TEMPROOT": str(tmp_path)}
    done = subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout[-3000:]
    shown = subprocess.run(
        [sys.executable, "-c", "import xpubuild; print(xpubuild.__file__)"],
        cwd=folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert shown.stdout.strip() == str(folder / "xpubuild" / "__init__.py")


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
    new_env(env)
    install(env, wheel)
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


def test_version_and_recipes_come_from_the_wheel(installed: Path) -> None:
    from xpubuild import __version__

    assert run(installed, "--version").split() == ["xpubuild", __version__]
    recipes = document(installed, "recipes", "recipes", "list")["recipes"]
    paths = {entry["name"]: Path(entry["path"]) for entry in recipes}
    assert paths["quickstart"].is_relative_to(installed.parent.parent)
    assert all(entry["error"] is None for entry in recipes)


def test_recipes_are_whole(installed: Path) -> None:
    assert document(installed, "recipes-check", "recipes", "check")["status"] == "ok"


def test_a_plan_and_the_sources_that_it_embeds(installed: Path, tmp_path: Path) -> None:
    """The pin of the recipe and the files in the wheel make the same commit."""
    plan = document(installed, "plan", "plan", "quickstart", "--workspace", str(tmp_path / "wörk space"))
    steps = {step["id"]: step for step in plan["steps"]}
    assert {"env", "torch", "ops.source", "ops.wheel", "ops.install", "verify"} <= steps.keys()
    assert str(ROOT) not in json.dumps({key: plan[key] for key in ("steps", "summary")})
    embed = steps["ops.source"]["commands"][0]["argv"]
    assert embed[:3] == ["xpubuild", "plumbing", "embed"]
    folder = tmp_path / "embedded söurces"
    run(installed, "plumbing", "embed", "ops", str(folder), "--commit", embed[-1])
    assert {path.name for path in folder.glob("*.git")} >= {"ops.git", "fused.git", "vecmath.git"}


def test_messages_point_to_pages_that_are_installed(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "odd.yaml").write_text("schema: 1\nname: odd\nodd: 1\n")
    told = run(installed, "recipes", "show", str(tmp_path / "odd.yaml"), "--json", status=20)
    page = Path(re.findall(r"; (.+\.md) lists all keys", json.loads(told)["error"]["fix"])[0])
    assert page.is_relative_to(installed.parent.parent)
    assert "\n# Recipes\n" in page.read_text("utf-8")


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
