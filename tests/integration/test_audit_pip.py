"""A real pip, killed in the middle: what it leaves, and that after repair the same command ends well.

pip is killed when the environment shows that it has come to a certain point, so that every kind of unfinished
state is met whatever the machine's speed.
"""

from __future__ import annotations

import shutil
import subprocess
import time
import venv
from collections.abc import Callable
from pathlib import Path

import pytest
from support.artifacts import pack

from xpubuild.artifacts.installed import InstalledProof, verify_installed, wheel_matches_installed
from xpubuild.artifacts.installed_repair import repair
from xpubuild.artifacts.site_packages import damaged_dists, installed_dists, site_packages_of

NAMES = ("alpha", "beta", "gamma")
MODULES = 100
ENTRY_POINT = b"[console_scripts]\n{name} = {name}:main\n"


def make_wheel(folder: Path, name: str, version: str) -> Path:
    """A wheel with many files, a command and a file outside of site-packages."""
    files = {f"{name}/__init__.py": f"version = '{version}'\ndef main(): print(version)\n".encode()}
    for number in range(MODULES):
        files[f"{name}/part_{number:03}.py"] = f"value = {number}\nversion = '{version}'\n".encode() * 20
    files[f"{name}/only_{version.replace('.', '_')}.py"] = b""
    files[f"space/{name}_plugin.py"] = b""
    files[f"{name}-{version}.data/data/share/{name}.txt"] = version.encode()
    files[f"{name}-{version}.dist-info/entry_points.txt"] = ENTRY_POINT.replace(b"{name}", name.encode())
    return pack(folder, name, version, files, tag="py3-none-any")


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    folder = tmp_path_factory.mktemp("wheels é")
    return {version: [make_wheel(folder, name, version) for name in NAMES] for version in ("1.0", "2.0")}


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("empty") / "umgebung mit leer é"
    venv.create(folder, with_pip=True)
    return folder


@pytest.fixture
def env(tmp_path: Path, empty: Path) -> Path:
    return shutil.copytree(empty, tmp_path / empty.name, symlinks=True)


def command(env: Path, wheels: list[Path], *options: str) -> list[str]:
    return [
        str(env / "bin" / "python"), "-m", "pip", "install", "--no-index", "--no-deps", "--no-input",
        "--quiet", "--disable-pip-version-check", *options, *map(str, wheels),
    ]  # fmt: skip


def install(env: Path, wheels: list[Path], *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(env, wheels, *options), text=True, capture_output=True, check=False)


def kill_when(env: Path, wheels: list[Path], reached: Callable[[Path], bool]) -> bool:
    """Start pip and kill it as soon as a point is reached; say whether it was."""
    site = site_packages_of(env)
    process = subprocess.Popen(command(env, wheels), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    hit = False
    while process.poll() is None:
        if reached(site):
            hit = True
            process.kill()
            break
        time.sleep(0.0005)
    process.wait()
    return hit


def count(folder: Path, pattern: str) -> int:
    try:
        return sum(1 for _ in folder.glob(pattern))
    except OSError:
        return 0


def listed(site: Path, info: str) -> bool:
    try:
        return "INSTALLER" in (site / info / "RECORD").read_text("utf-8")
    except OSError:
        return False


FRESH: dict[str, Callable[[Path], bool]] = {
    "before the first file": lambda site: True,
    "first file": lambda site: count(site, "alpha/*.py") > 0,
    "half of the files": lambda site: count(site, "alpha/*.py") > MODULES // 2,
    "dist-info without RECORD": lambda site: (site / "alpha-1.0.dist-info").exists(),
    "the wheel's own RECORD": lambda site: (site / "alpha-1.0.dist-info" / "RECORD").exists(),
    "while compiling": lambda site: count(site, "alpha/__pycache__/*") > 20,
    "one is done": lambda site: listed(site, "alpha-1.0.dist-info"),
    "in the second": lambda site: count(site, "beta/*.py") > 25,
    "in the last": lambda site: count(site, "gamma/*.py") > MODULES - 20,
    "at the end of the last": lambda site: (site / "gamma-1.0.dist-info" / "RECORD").exists(),
}
UPGRADE: dict[str, Callable[[Path], bool]] = {
    "the old is set aside": lambda site: any(site.glob("~*")),
    "old dist-info is away": lambda site: not (site / "alpha-1.0.dist-info").exists(),
    "the new is coming": lambda site: (
        (site / "alpha" / "part_010.py").exists() and not (site / "alpha-1.0.dist-info").exists()
    ),
    "new RECORD": lambda site: (site / "alpha-2.0.dist-info" / "RECORD").exists(),
    "in the second": lambda site: not (site / "beta-1.0.dist-info").exists(),
    "second has RECORD": lambda site: (site / "beta-2.0.dist-info" / "RECORD").exists(),
    "the third": lambda site: count(site, "~amma*") > 0,
}


def some(thorough: bool, moments: dict[str, Callable[[Path], bool]]) -> dict[str, Callable[[Path], bool]]:
    """Every third moment, or all of them."""
    return moments if thorough else dict(list(moments.items())[::3])


def assert_as_new(env: Path, wheels: list[Path], version: str, fresh: set[str]) -> None:
    """The environment is what an uninterrupted installation makes, file by file."""
    site = site_packages_of(env)
    assert damaged_dists(site) == {}
    InstalledProof(str(site), tuple(f"{name}=={version}" for name in NAMES)).check()
    for wheel in wheels:
        assert wheel_matches_installed(wheel, site) == []
    assert files(env) == fresh
    for name in NAMES:
        ran = subprocess.run([env / "bin" / name], text=True, capture_output=True, check=True)
        assert ran.stdout.strip() == version


def files(env: Path) -> set[str]:
    """Every file but pip's own, which it compiles while it runs."""
    own = env.glob("lib/python3*/site-packages/pip/**/*")
    return {str(path.relative_to(env)) for path in {*env.rglob("*")} - {*own} if not path.is_dir()}


@pytest.fixture(scope="module")
def reference(
    tmp_path_factory: pytest.TempPathFactory, empty: Path, wheels: dict[str, list[Path]]
) -> dict[str, set[str]]:
    """The files of an installation that nobody interrupted."""
    found = {}
    for version, chosen in wheels.items():
        env = shutil.copytree(empty, tmp_path_factory.mktemp("whole") / "env", symlinks=True)
        done = install(env, chosen)
        assert done.returncode == 0, done.stderr
        found[version] = files(env)
    return found


def test_pip_is_killed_while_it_installs(
    tmp_path: Path,
    empty: Path,
    wheels: dict[str, list[Path]],
    reference: dict[str, set[str]],
    thorough: bool,
) -> None:
    hits, damaged = 0, 0
    moments = some(thorough, FRESH)
    for number, (name, reached) in enumerate(moments.items()):
        env = shutil.copytree(empty, tmp_path / f"{number} é", symlinks=True)
        hits += kill_when(env, wheels["1.0"], reached)
        site = site_packages_of(env)
        damaged += bool(damaged_dists(site))
        repair(site)
        done = install(env, wheels["1.0"])
        assert done.returncode == 0, (name, done.stderr)
        assert "WARNING" not in done.stderr, name
        assert_as_new(env, wheels["1.0"], "1.0", reference["1.0"])
    assert hits >= len(moments) - 2
    assert damaged >= len(moments) // 3


def test_pip_is_killed_while_it_replaces_an_old_version(
    tmp_path: Path,
    empty: Path,
    wheels: dict[str, list[Path]],
    reference: dict[str, set[str]],
    thorough: bool,
) -> None:
    old = shutil.copytree(empty, tmp_path / "old", symlinks=True)
    assert install(old, wheels["1.0"]).returncode == 0
    hits, set_aside = 0, 0
    moments = some(thorough, UPGRADE)
    for number, (name, reached) in enumerate(moments.items()):
        env = shutil.copytree(old, tmp_path / f"{number} é", symlinks=True)
        hits += kill_when(env, wheels["2.0"], reached)
        site = site_packages_of(env)
        set_aside += any(site.glob("~*"))
        repair(site)
        done = install(env, wheels["2.0"])
        assert done.returncode == 0, (name, done.stderr)
        assert "WARNING" not in done.stderr, name
        assert_as_new(env, wheels["2.0"], "2.0", reference["2.0"])
    assert hits >= len(moments) - 2
    assert set_aside >= len(moments) // 3


def test_an_environment_that_pip_made_is_sound(env: Path, wheels: dict[str, list[Path]]) -> None:
    assert install(env, wheels["2.0"]).returncode == 0
    site = site_packages_of(env)
    assert {dist.name for dist in installed_dists(site)} >= {*NAMES, "pip"}
    assert damaged_dists(site) == {}
    assert repair(site) == []
    found = verify_installed(site, [f"{name}==2.0" for name in NAMES])
    assert all(item["problems"] == [] and item["files"] > MODULES for item in found.values())
    (site / "beta" / "part_007.py").write_bytes((site / "beta" / "part_007.py").read_bytes().swapcase())
    [problem] = verify_installed(site, ["beta"])["beta"]["problems"]
    assert "part_007.py" in problem
    [difference] = wheel_matches_installed(wheels["2.0"][1], site)
    assert "part_007.py" in difference
