"""make_env with the real venv and the real interpreter."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from xpubuild.artifacts.installed import content_problems
from xpubuild.artifacts.site_packages import installed_dists, quick_problem, record_entries, site_packages_of
from xpubuild.artifacts.step_proofs import EnvironmentProof
from xpubuild.engine.environment import base_environment
from xpubuild.errors import ToolchainError, UsageError
from xpubuild.machine.envmark import MARK, altered
from xpubuild.machine.make_env import make_env
from xpubuild.machine.python_environment import env_python
from xpubuild.machine.pythons import probe_python, require_python, resolve_python
from xpubuild.machine.system import OsFacts

DEBIAN = OsFacts(id="debian")
PYTHON = Path(sys.executable)


@pytest.fixture
def env(tmp_path: Path) -> Path:
    return tmp_path / "my wörkspace" / "env"


def ask(env: Path, code: str) -> str:
    return subprocess.run([env_python(env), "-c", code], check=True, capture_output=True, text=True).stdout


def stand_in(path: Path, **answer: object) -> Path:
    """Write a program that answers the probe as another interpreter would."""
    document = {
        "version": "3.11.9", "implementation": "CPython", "bits": 64, "virtual": False, "headers": True,
        "free_threaded": False, "ensurepip": True, "include": "/usr/include", "base_executable": str(path),
    }  # fmt: skip
    path.write_text(f"#!/bin/sh\ncat <<'E'\n{json.dumps({**document, **answer})}\nE\n")
    path.chmod(0o755)
    return path


def test_an_environment_is_made_once(env: Path) -> None:
    assert make_env(env, PYTHON) is True
    assert ask(env, "import sys; print(sys.prefix != sys.base_prefix, sys.prefix)") == f"True {env}\n"
    pip = subprocess.run([env / "bin/pip", "--version"], check=True, capture_output=True, text=True).stdout
    assert str(env) in pip
    (dist,) = installed_dists(site_packages_of(env))
    assert quick_problem(dist) is None
    assert content_problems(record_entries(dist)) == []
    (env / "kept").write_text("x")
    assert make_env(env, PYTHON) is False
    assert (env / "kept").exists()


@pytest.mark.parametrize("damage", ["making", "no mark but its draft", "other python"])
def test_a_half_made_one_is_made_again(env: Path, damage: str) -> None:
    make_env(env, PYTHON)
    mark = json.loads((env / MARK).read_text())
    (env / "left over").write_text("x")
    if damage == "making":
        (env / MARK).write_text(json.dumps({**mark, "state": "making"}))
    elif damage == "no mark but its draft":
        shutil.rmtree(env)
        env.mkdir()
        (env / f".{MARK}.abc123").write_text("{")
    else:
        (env / MARK).write_text(json.dumps({**mark, "base": "/gone/python3.9"}))
    assert make_env(env, PYTHON) is True
    assert not (env / "left over").exists()
    assert not (env / f".{MARK}.abc123").exists()
    assert ask(env, "print(1)") == "1\n"
    assert make_env(env, PYTHON) is False


def replaced(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    path.write_text(text)
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("bin/python", "#!/bin/sh\ntouch {env}/ran\n"),
        ("bin/python3", "#!/bin/sh\n"),
        ("bin/python3.9", "#!/bin/sh\n"),
        ("bin/pyvenv.cfg", "home = /x\n"),
        ("bin/pybuilddir.txt", "/x\n"),
        ("pyvenv.cfg", ""),
        ("pyvenv.cfg", "{settings}include-system-site-packages = true\n"),
        ("pyvenv.cfg", "{settings}home = {env}\n"),
        ("pyvenv.cfg", "home = {env}\ninclude-system-site-packages = false\nversion = 3.11.0\n"),
    ],
)
def test_what_decides_the_meaning_of_an_import_is_restored_and_never_run(
    env: Path, name: str, text: str
) -> None:
    make_env(env, PYTHON)
    proof = EnvironmentProof(str(env), f"3.{sys.version_info[1]}")
    settings = (env / "pyvenv.cfg").read_text()
    assert proof.check()["installed"].keys() == {"pip"}
    (env / "mine").write_text("x")
    replaced(env / name, text.format(env=env, settings=settings))
    assert list(altered(env)) == [env / name]
    with pytest.raises(ToolchainError, match="is not a Python"):
        proof.check()
    assert make_env(env, PYTHON) is True
    assert altered(env) == {}
    assert ((env / "pyvenv.cfg").read_text(), (env / "mine").exists()) == (settings, True)
    assert not (env / "ran").exists()
    assert proof.check()["installed"].keys() == {"pip"}


def test_files_of_somebody_else_are_left_alone(env: Path) -> None:
    env.mkdir(parents=True)
    (env / "thesis.tex").write_text("years of work")
    with pytest.raises(UsageError, match="was not created by xpubuild") as caught:
        make_env(env, PYTHON)
    assert caught.value.exit_code == 2
    assert (env / "thesis.tex").read_text() == "years of work"
    assert os.listdir(env) == ["thesis.tex"]  # noqa: PTH208


def test_an_environment_that_xpubuild_did_not_make_is_left_alone(env: Path) -> None:
    subprocess.run([sys.executable, "-m", "virtualenv", "-q", "--no-periodic-update", str(env)], check=True)
    with pytest.raises(UsageError, match="was not created by xpubuild"):
        make_env(env, PYTHON)
    assert (env / "bin/python").exists()


def without_ensurepip(prefix: Path) -> Path:
    """Make a stand-in of a distribution's Python without its venv package: no ensurepip."""
    base = Path(probe_python(PYTHON).base_executable)
    name = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    library = Path(os.__file__).parent
    (prefix / "bin").mkdir(parents=True)
    (prefix / "lib" / name).mkdir(parents=True)
    shutil.copy2(base, prefix / "bin" / name)
    for entry in library.iterdir():
        if entry.name not in ("ensurepip", "site-packages", "__pycache__"):
            (prefix / "lib" / name / entry.name).symlink_to(entry)
    (prefix / "lib" / name / "site-packages").mkdir()
    return prefix / "bin" / name


def test_it_works_where_ensurepip_is_missing(env: Path, tmp_path: Path) -> None:
    python = without_ensurepip(tmp_path / "distro python")
    assert probe_python(python).ensurepip is False
    broken = subprocess.run([python, "-m", "venv", tmp_path / "v"], check=False, capture_output=True)
    assert broken.returncode != 0
    assert make_env(env, python) is True
    assert ask(env, "import pip; print(pip.__file__.startswith(__import__('sys').prefix))") == "True\n"


def test_the_caller_can_name_an_interpreter_in_every_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = {**base_environment(), "PATH": f"{tmp_path}:/bin"}
    stand_in(tmp_path / "python3.99")
    assert resolve_python("python3.99", environment) == tmp_path / "python3.99"
    assert resolve_python("3.99", environment) == tmp_path / "python3.99"
    monkeypatch.chdir(tmp_path)
    assert resolve_python("./python3.99", environment) == tmp_path / "python3.99"
    own = resolve_python(None, environment)
    assert own.is_file()
    assert probe_python(own).virtual is False


def test_missing_headers_name_the_package(tmp_path: Path) -> None:
    python = stand_in(tmp_path / "python3", headers=False)
    with pytest.raises(ToolchainError, match=r"headers of Python 3\.11\.9 are missing") as caught:
        require_python(python, ">=3.10", system=DEBIAN)
    assert caught.value.commands[-1] == "sudo apt-get install -y python3.11-dev"
    with pytest.raises(ToolchainError) as caught:
        require_python(python, ">=3.10", system=OsFacts(id="rocky", id_like=("rhel",)))
    assert caught.value.commands == ("sudo dnf install -y python3.11-devel",)
