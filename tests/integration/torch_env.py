"""A real environment with torch and what the ops extension is built with, made once and shared.

It is kept below ``$XPUBUILD_TEST_CACHE`` where that is set, else below pytest's base folder of this run.
xdist workers share it: a file lock lets one of them build it while the others wait.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.shared import folder_of_run, once

from xpubuild.engine.environment import base_environment
from xpubuild.resources import ops_project_dir
from xpubuild.supply.index.pipconf import find_uv, pip_settings, translated

TORCH = "2.13.0"
MKL = "2026.2.0"
#: The CPU builds of PyTorch's own project, for machines whose configured index has only CUDA builds.
_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
_BUILD_TOOLS = (f"mkl-static=={MKL}", "mkl-include", "cmake<4", "ninja", "scikit-build-core>=0.10", "wheel")
_EPOCH = "1700000000"


@dataclass(frozen=True)
class TorchEnv:
    """An environment with torch; ``environ`` is the whole environment to run things of it in."""

    root: Path
    environ: dict[str, str]

    @property
    def python(self) -> Path:
        return self.root / "bin" / "python"

    @property
    def site(self) -> Path:
        return next(self.root.glob("lib/python3.*/site-packages"))

    def run(self, *argv: str | Path, **extra: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment; ``extra`` are more environment variables."""
        words, env = [str(word) for word in argv], {**self.environ, **extra}
        return subprocess.run(words, env=env, capture_output=True, text=True, check=False, timeout=600)


@dataclass(frozen=True)
class OpsSite:
    """The ops extension: its wheel, and a folder for PYTHONPATH that has it installed."""

    wheel: Path
    site: Path


def shared_root(factory: pytest.TempPathFactory) -> Path:
    cache = os.environ.get("XPUBUILD_TEST_CACHE")
    return Path(cache) if cache else folder_of_run(factory)


def _must(*argv: str | Path, env: dict[str, str]) -> None:
    done = subprocess.run(
        [str(word) for word in argv], env=env, capture_output=True, text=True, check=False, timeout=1200
    )
    if done.returncode != 0:
        raise RuntimeError(
            f"{argv} ended with {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        )


def _pip(root: Path) -> tuple[str, ...]:
    return (str(root / "bin" / "python"), "-m", "pip", "--disable-pip-version-check")


def _make_env(folder: Path) -> None:
    new_env(folder)
    try:
        install(folder, f"torch=={TORCH}+cpu", *_BUILD_TOOLS)
    except RuntimeError:
        index = ("--index-url", _CPU_INDEX)
        _must(*_pip(folder), "install", "-q", *index, f"torch=={TORCH}", env=base_environment())
        install(folder, *_BUILD_TOOLS)


def new_env(folder: Path) -> None:
    """Make an environment with pip; virtualenv takes a tenth of what ensurepip takes."""
    flags = ("--quiet", "--no-download", "--no-periodic-update")
    _must(sys.executable, "-m", "virtualenv", *flags, folder, env=base_environment())


def install(folder: Path, *requirements: str | Path) -> None:
    """Install with uv, which takes a third of pip's time, from where pip would."""
    env = base_environment()
    said = translated(pip_settings(env), env)
    argv = (find_uv().path, "pip", "install", "--quiet", "--python", folder / "bin" / "python")
    _must(*argv, *said.options, *requirements, env=dict(said.environment))


def build_wheel(
    env: TorchEnv, source: Path, out: Path, *, build: Path | None = None, **defines: str
) -> subprocess.CompletedProcess[str]:
    """Build the ops wheel as the pipeline does; ``defines`` are CMake options; ``build`` is kept.

    Its three sources are one unit, which takes half of the time: they share the headers of torch.
    """
    defines = {"CMAKE_UNITY_BUILD": "ON", **defines}
    options = [f"-Ccmake.define.{name}={value}" for name, value in defines.items()]
    options += [f"-Cbuild-dir={build}"] if build else []
    words = (*_pip(env.root), "wheel", "-v", "--no-build-isolation", "--no-deps", *options, "-w", out, source)
    return env.run(*words, CMAKE_PREFIX_PATH=str(env.root), SOURCE_DATE_EPOCH=_EPOCH)


def install_wheel(env: TorchEnv, wheel: Path, site: Path) -> None:
    """Install a wheel into a folder of its own, for PYTHONPATH."""
    _must(*_pip(env.root), "install", "-q", "--no-deps", "--target", site, wheel, env=env.environ)


def copy_sources(folder: Path) -> Path:
    """Return a copy of the embedded sources that a test may change."""
    return Path(shutil.copytree(ops_project_dir(), folder))


@pytest.fixture(scope="session")
def torch_env(tmp_path_factory: pytest.TempPathFactory) -> TorchEnv:
    """The environment, without the extension."""
    root = once(shared_root(tmp_path_factory), f"torch-{TORCH}-mkl-{MKL}", _make_env)
    environ = base_environment()
    environ["PATH"] = f"{root / 'bin'}{os.pathsep}{environ['PATH']}"
    return TorchEnv(root, environ)


@pytest.fixture(scope="session")
def ops_site(torch_env: TorchEnv, tmp_path_factory: pytest.TempPathFactory) -> OpsSite:
    """The extension, built from the embedded sources as they are now."""

    def make(folder: Path) -> None:
        done = build_wheel(torch_env, ops_project_dir(), folder / "wheels")
        if done.returncode != 0:
            raise RuntimeError(f"{done.stdout}\n{done.stderr}")
        install_wheel(torch_env, _only_wheel(folder), folder / "site")

    folder = once(folder_of_run(tmp_path_factory), "ops", make)
    return OpsSite(_only_wheel(folder), folder / "site")


def _only_wheel(folder: Path) -> Path:
    (wheel,) = (folder / "wheels").glob("*.whl")
    return wheel
