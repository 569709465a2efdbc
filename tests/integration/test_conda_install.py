"""An environment of conda packages is made: once, by any program, again after a kill, in nobody's folder."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from support.conda_channel import MINOR, VERSION, make_channel, usual
from support.conda_tools import solved, work

from xpubuild.engine.environment import base_environment
from xpubuild.engine.process import run
from xpubuild.errors import UnsatisfiableError
from xpubuild.machine.envmark import MARK
from xpubuild.supply.conda.environment import CondaEnvironmentProof
from xpubuild.supply.conda.lockfile import read_lock, write_lock


def content(env: Path) -> dict[str, bytes | str]:
    found: dict[str, bytes | str] = {}
    for path in sorted(env.rglob("*")):
        if path.is_symlink() or path.is_file():
            found[str(path.relative_to(env))] = (
                str(path.readlink()) if path.is_symlink() else path.read_bytes()
            )
    return found


def test_an_environment_is_made_once_and_is_proved(
    conda: tuple[Path, str], env: Path, tmp_path: Path
) -> None:
    channel, text = conda
    assert work(env, text, tmp_path) is True
    lock = read_lock(text)
    evidence = CondaEnvironmentProof(str(env), lock).check()
    assert evidence["python"] == VERSION
    assert evidence["packages"] == {item.filename: item.sha256 for item in lock.packages}
    assert evidence["activation_scripts_not_run"] == ["cmake.sh"]
    said = subprocess.run([env / "bin/cmake"], capture_output=True, text=True, check=True).stdout
    assert said == "cmake version 3.31.2\n"
    assert str(env) in (env / "bin/cmake").read_text()
    assert work(env, text, tmp_path) is False
    assert [path.name for path in env.parent.iterdir()] == ["env"]
    records = "".join(path.read_text() for path in (env / "conda-meta").iterdir())
    assert channel.as_uri() in records
    assert ".env.conda" not in records


# A timer, so that the moment counts from the first line of the work and nothing of an interpreter's start.
KILLED = """
import os, signal, sys, threading
from pathlib import Path
sys.path[:0] = sys.argv[5:]
from xpubuild.supply.conda import environment as install
from xpubuild.supply.archives import Supply
from xpubuild.supply.conda.lockfile import read_lock
from xpubuild.engine.environment import base_environment
lock = read_lock(Path(sys.argv[2]).read_text())
supply = Supply(cache=Path(sys.argv[3]), offline=True)
threading.Timer(float(sys.argv[4]), os.kill, (os.getpid(), signal.SIGKILL)).start()
install.make_conda_env(Path(sys.argv[1]), lock, supply, base_environment(), print)
"""


@pytest.mark.parametrize("after_s", [0.03, 0.15])
def test_killed_at_any_moment_and_run_again_it_is_the_same(
    conda: tuple[Path, str], env: Path, tmp_path: Path, after_s: float
) -> None:
    whole = tmp_path / "my wörk space" / "env"
    work(whole, conda[1], tmp_path)
    expected = content(whole)
    shutil.rmtree(whole)
    (tmp_path / "lock.yml").write_text(conda[1])
    argv = [
        sys.executable, "-c", KILLED, str(env), str(tmp_path / "lock.yml"), str(tmp_path), str(after_s),
        *sys.path,
    ]  # fmt: skip
    # As a step runs it: what the killed process started is gone before anything else happens.
    killed = run(argv, env=base_environment())
    assert killed.returncode == -signal.SIGKILL, killed.tail
    work(env, conda[1], tmp_path)
    assert content(env) == expected
    assert [path.name for path in env.parent.iterdir()] == ["env"]


@pytest.mark.parametrize("damage", ["making", "file gone", "other lock"])
def test_one_that_is_not_whole_is_made_again(
    conda: tuple[Path, str], env: Path, tmp_path: Path, damage: str
) -> None:
    work(env, conda[1], tmp_path)
    expected = content(env)
    mark = json.loads((env / MARK).read_text())
    (env / "left over").write_text("x")
    if damage == "making":
        (env / MARK).write_text(json.dumps({**mark, "state": "making"}))
    elif damage == "no record":
        (env / "conda-meta/cmake-3.31.2-0.json").unlink()
    elif damage == "file gone":
        (env / "bin/ninja").unlink()
    elif damage == "other lock":
        (env / MARK).write_text(json.dumps({**mark, "conda": "0" * 64}))
    elif damage == "python gone":
        (env / "bin/python").unlink()
    else:
        (env / MARK).write_text(json.dumps({"state": "ready", "base": sys.executable, "version": MINOR}))
    assert work(env, conda[1], tmp_path) is True
    assert content(env) == expected


def test_a_lock_with_a_harmful_package_is_refused_whoever_wrote_it(env: Path, tmp_path: Path) -> None:
    channel = make_channel(tmp_path / "channel", usual())
    records = solved(("python",), [str(channel)], tmp_path / "cache")
    lock = read_lock(records)
    bad = replace(lock.packages[0], name="gxx_linux-64", version="1.0", filename="gxx_linux-64-1.0-0.conda",
                  url=f"{channel.as_uri()}/linux-64/gxx_linux-64-1.0-0.conda")  # fmt: skip
    with pytest.raises(UnsatisfiableError, match="gxx_linux-64") as caught:
        work(env, write_lock(replace(lock, packages=(*lock.packages, bad))), tmp_path)
    assert caught.value.exit_code == 22
